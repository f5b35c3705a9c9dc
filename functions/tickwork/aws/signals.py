"""Signals through Powertools: JSON log lines, and metrics in the embedded format, flushed once per invocation.

Each environment has a namespace of its own: another's ticker must not count as the life of this one. Labels of high
cardinality (job, slice, run) never become dimensions of a paid metric: they go to the log lines.
"""

from __future__ import annotations

import warnings
from threading import Lock

from aws_lambda_powertools import Logger, Metrics, single_metric
from aws_lambda_powertools.metrics import MetricUnit

from tickwork.aws.common_metrics import EVERYWHERE, UNPAID, together_with

# An invocation that has nothing to count is no fault; the warning would be a paid log line for each.
warnings.filterwarnings("ignore", "No application metrics to publish")


class PowertoolsSignals:
    """`environment` is the prefix of its settings, and the namespace of its metrics."""

    def __init__(self, service: str, environment: str) -> None:
        self.logger = Logger(service=service)
        self.metrics = Metrics(namespace=environment, service=service)
        self._namespace = environment
        self._one_at_a_time = Lock()
        """Windows run side by side, and Powertools' metrics are made for one thread."""

    def count(self, metric: str, n: int = 1, **labels: str) -> None:  # noqa: ARG002
        self._add(metric, MetricUnit.Count, n)

    def observe(self, metric: str, value: float, **labels: str) -> None:  # noqa: ARG002
        unit = MetricUnit.Seconds if metric.endswith("_seconds") else MetricUnit.Count
        self._add(metric, unit, value)

    def log(self, action: str, **facts: object) -> None:
        self.logger.info(action, extra={"action": action, **facts})

    def _add(self, metric: str, unit: MetricUnit, value: float) -> None:
        if metric in UNPAID:
            return
        with self._one_at_a_time:
            self.metrics.add_metric(name=metric, unit=unit, value=value)
            if value > 0:
                for common in together_with(metric):
                    self._say_together(common, value)

    def _say_together(self, metric: str, value: float) -> None:
        """At once and by itself: the dimensions of a flush hold for all that is in it."""
        with single_metric(metric, MetricUnit.Count, value, namespace=self._namespace) as alone:
            alone.add_dimension("service", EVERYWHERE)
