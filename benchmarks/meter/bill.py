"""A bill: how many of what, in which step, and its price by the one price table (`tickwork.price.prices`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tickwork.price.prices import usd

WRITES, READS, SQS, LAMBDA = "dynamodb_write_units", "dynamodb_read_units", "sqs_requests", "lambda_requests"

__all__ = ["LAMBDA", "READS", "SQS", "WRITES", "Bill", "Counts", "usd"]

type Counts = Mapping[str, float]
"""Amounts by the names of the price table."""


class Bill:
    """Counts by step. Whoever drives the work names the step; calls outside any step fall under ''."""

    def __init__(self) -> None:
        self.by_step: dict[str, Counter[str]] = defaultdict(Counter)
        self.calls: dict[str, Counter[str]] = defaultdict(Counter)
        self._step = ""

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        before, self._step = self._step, name
        try:
            yield
        finally:
            self._step = before

    def add(self, call: str, **amounts: float) -> None:
        """One call to a service, and what it is billed."""
        self.calls[self._step][call] += 1
        for name, n in amounts.items():
            if n:
                self.by_step[self._step][name] += n  # type: ignore[assignment]

    def total(self) -> Counter[str]:
        return sum(self.by_step.values(), Counter())
