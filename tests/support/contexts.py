"""Contexts of attempts, for tests of what jobs do with them."""

from __future__ import annotations

from datetime import UTC, datetime

from tickwork.worker import Context


def attempt(token: int = 1, *, run: str = "r1", day: int = 30, traceparent: str | None = None) -> Context:
    """Attempt `token` of the run of a day in November."""
    at = datetime(2026, 11, day, 2, 0, tzinfo=UTC)
    return Context(run, "payments:nightly", at, at, attempt=token, token=token, traceparent=traceparent)
