"""One of tickwork's own processes, whose counters are log lines too: `python -m tests.chaos.counted serve api ...`."""

from __future__ import annotations

from tickwork.cli.main import main
from tickwork.local.signals import LineSignals


class CountedSignals:
    @staticmethod
    def count(signals: LineSignals, metric: str, n: int = 1, **labels: str) -> None:
        signals.counts[metric] += n
        signals.log("count", metric=metric, n=n, **labels)


if __name__ == "__main__":
    LineSignals.count = CountedSignals.count  # type: ignore[method-assign, assignment]
    main()
