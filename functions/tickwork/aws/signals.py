"""Signals through Powertools: JSON log lines, and metrics in the embedded format, flushed once per invocation.

Owns how a count becomes a paid metric or a log line. Only what an alarm listens to is a metric. All else, and what has
labels (error, reason, slice, team: as dimensions of a metric each of their values would be paid for), is added up, and
written when the invocation ends as a log line `metric` for each metric and set of labels. Each environment has a
namespace of its own: another's ticker must not count as the life of this one. Protects: no label replaces another's
count.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from threading import Lock
from typing import Any

from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.metrics import MetricUnit

from tickwork.aws.common_metrics import EVERYWHERE, PUBLISHED, says_nothing, together_with

COUNTED_LINES_MAX = 50
"""Lines `metric` of one invocation. One in which all goes well writes none; a bad night with a label for each of
thousands of teams must not become a bill for logs. Of what is over it there is the number of counts."""

# An invocation that has nothing to count is no fault; the warning would be a paid log line for each.
warnings.filterwarnings("ignore", "No application metrics to publish")


@dataclass(slots=True)
class _Tally:
    """What one invocation counted or measured under one set of labels."""

    total: float = 0
    samples: int = 0
    largest: float = 0

    def add(self, value: float) -> None:
        self.largest = max(self.largest, value) if self.samples else value
        self.total += value
        self.samples += 1

    def facts(self) -> dict[str, float]:
        return {"total": self.total, "samples": self.samples, "largest": self.largest}


type _Counted = tuple[str, tuple[tuple[str, str], ...]]


class PowertoolsSignals:
    """`environment` is the prefix of its settings, and the namespace of its metrics."""

    def __init__(self, service: str, environment: str) -> None:
        self.logger = Logger(service=service)
        self.metrics = Metrics(namespace=environment, service=service)
        self._namespace = environment
        self._tallies: dict[_Counted, _Tally] = {}
        self._left_out = 0
        self._one_at_a_time = Lock()
        """Windows run side by side, and Powertools' metrics are made for one thread."""

    def count(self, metric: str, n: int = 1, **labels: str) -> None:
        self._add(metric, MetricUnit.Count, n, labels)

    def observe(self, metric: str, value: float, **labels: str) -> None:
        unit = MetricUnit.Seconds if metric.endswith("_seconds") else MetricUnit.Count
        self._add(metric, unit, value, labels)

    def log(self, action: str, **facts: object) -> None:
        self.logger.info(action, extra={"action": action, **facts})

    def published[T](self, handler: Callable[[dict[str, Any], Any], T]) -> Callable[[dict[str, Any], Any], T]:
        """A handler whose metrics are published when it ends, however it ends."""
        measured: Callable[[dict[str, Any], Any], T] = self.metrics.log_metrics(handler)

        @wraps(handler)
        def publishing(event: dict[str, Any], context: Any) -> T:
            try:
                return measured(event, context)
            finally:
                self._write_counted()

        return publishing

    def _add(self, metric: str, unit: MetricUnit, value: float, labels: dict[str, str]) -> None:
        with self._one_at_a_time:
            if metric in PUBLISHED:
                self.metrics.add_metric(name=metric, unit=unit, value=value)
            if (labels or metric not in PUBLISHED) and not says_nothing(metric, value, labels):
                self._keep((metric, tuple(sorted(labels.items()))), value)
            for common in together_with(metric) if value > 0 else ():
                self._say_together(common, value)

    def _keep(self, counted: _Counted, value: float) -> None:
        tally = self._tallies.get(counted)
        if tally is None:
            if len(self._tallies) == COUNTED_LINES_MAX:
                self._left_out += 1
                return
            tally = self._tallies[counted] = _Tally()
        tally.add(value)

    def _write_counted(self) -> None:
        """One line for each metric and set of labels: `stats sum(total) by <label>` then needs no more than fields."""
        with self._one_at_a_time:
            tallies, left_out = self._tallies, self._left_out
            self._tallies, self._left_out = {}, 0
        for (metric, labels), tally in tallies.items():
            self.log("metric", metric=metric, **dict(labels), **tally.facts())
        if left_out:
            self.log("metric_labels_left_out", samples=left_out)

    def _say_together(self, metric: str, value: float) -> None:
        """At once and by itself: the dimensions of a flush hold for all that is in it."""
        with single_metric(metric, MetricUnit.Count, value, namespace=self._namespace) as alone:
            alone.add_dimension("service", EVERYWHERE)
