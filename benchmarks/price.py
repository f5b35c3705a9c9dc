"""The table of docs/price.md: what a million runs and an idle month cost all in, beside EventBridge Scheduler.

`make bench-price`. Nothing runs: the amounts are those of `tickwork.price`, which tests hold to the meter's.
"""

from __future__ import annotations

from collections.abc import Iterator

from tickwork.price.cost import METRICS_AT_WORK, bill_of, idle, same_around_eventbridge, standing, total, watchdog
from tickwork.price.loads import ENVIRONMENTS, MONTH_S, Load
from tickwork.price.prices import AS_OF, REGION, usd

MILLION = 1e6
AT_A_TIME = ((1, 1), (100, 10))
RATES = (("spread over a month", MILLION / MONTH_S, "dev"), ("at 100 a second", 100.0, "prod"))


def table() -> Iterator[str]:
    """The lines of the table."""
    yield "| a million of | singly | in batches | EventBridge Scheduler: singly | in batches |"
    yield "|---|---|---|---|---|"
    for kind in ("one-shots", "occurrences of jobs"):
        for when, per_second, environment in RATES:
            figures = [_per_million(kind, per_second, environment, batch) for batch in AT_A_TIME]
            ours = " | ".join(f"{mine:.2f}" for mine, _ in figures)
            yield f"| {kind}, {when} | {ours} | {' | '.join(f'{theirs:.2f}' for _, theirs in figures)} |"
    for name in ("dev", "staging", "prod"):
        settings = ENVIRONMENTS[name]
        whole = usd(idle(settings)) + usd(watchdog()) + usd(standing(settings))
        yield f"| months of nothing due, one: `{name}` | {whole:.2f} | {whole:.2f} | 0.00 | 0.00 |"


def _per_million(kind: str, per_second: float, environment: str, batch: tuple[int, int]) -> tuple[float, float]:
    runs, (create, work) = per_second * MONTH_S, batch
    asked = {"timers": runs} if kind == "one-shots" else {"jobs": 1, "runs_per_job": runs}
    load = Load(create_batch=create, work_batch=work, workers=0, **asked)  # type: ignore[arg-type]
    settings = ENVIRONMENTS[environment]
    beside = usd(idle(settings)) + usd(watchdog()) + usd(standing(settings, METRICS_AT_WORK))
    scale = MILLION / runs
    return (total(bill_of(load, settings)) - beside) * scale, total(same_around_eventbridge(load)) * scale


def main() -> None:
    print(f"Dollars, list prices of {REGION}, {AS_OF}.\n")
    print("\n".join(table()))


if __name__ == "__main__":
    main()
