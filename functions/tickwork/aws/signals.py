"""Signals through Powertools: JSON log lines, and metrics in the embedded format, flushed once per invocation.

Labels of high cardinality (job, slice, run) never become dimensions of a paid metric: they go to the log lines.
"""

from __future__ import annotations

import warnings
from threading import Lock

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit

NAMESPACE = "tickwork"

# An invocation that has nothing to count is no fault; the warning would be a paid log line for each.
warnings.filterwarnings("ignore", "No application metrics to publish")


class PowertoolsSignals:
    def __init__(self, service: str) -> None:
        self.logger = Logger(service=service)
        self.metrics = Metrics(namespace=NAMESPACE, service=service)
        self._one_at_a_time = Lock()
        """Windows run side by side, and Powertools' metrics are made for one thread."""

    def count(self, metric: str, n: int = 1, **labels: str) -> None:  # noqa: ARG002
        self._add(metric, MetricUnit.Count, n)

    def observe(self, metric: str, value: float, **labels: str) -> None:  # noqa: ARG002
        unit = MetricUnit.Seconds if metric.endswith("_seconds") else MetricUnit.Count
        self._add(metric, unit, value)

    def _add(self, metric: str, unit: MetricUnit, value: float) -> None:
        with self._one_at_a_time:
            self.metrics.add_metric(name=metric, unit=unit, value=value)

    def log(self, action: str, **facts: object) -> None:
        self.logger.info(action, extra={"action": action, **facts})
