"""Signals of windows that run side by side: no measurement is lost or counted twice."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from tickwork.aws.signals import PowertoolsSignals

THREADS, EACH = 8, 500


def test_measurements_of_many_threads_are_all_published(capsys: pytest.CaptureFixture[str]) -> None:
    signals = PowertoolsSignals("scanner", "here")

    def window(_: int) -> None:
        for _ in range(EACH):
            signals.observe("scheduler.fire_lag_seconds", 1.0)
            signals.count("runs.duplicate_total")

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(window, range(THREADS)))
    signals.metrics.flush_metrics()
    published = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for metric in ("scheduler.fire_lag_seconds", "runs.duplicate_total"):
        assert sum(sum(one.get(metric, [])) for one in published) == THREADS * EACH
