"""What a job function gets, and the signals it may raise or receive.

Owns the words between a team's code and the worker: the context of an attempt, `FailPermanently` (from the job),
`LeaseLost`, `RunCancelled` and `Interrupted` (into the job). Knows no queue and no API.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tickwork.core.errors import TickworkError

SCHEDULED = "scheduled"
"""The kind of a run of which its message says none."""


class FailPermanently(Exception):
    """Raise it from a job when no retry can help: the run is dead-lettered at once."""


class RetryLater(Exception):
    """Raise it from a job that knows when a retry may help (a `Retry-After`, a maintenance window): the run is retried
    by its policy, but not before `after_s` seconds have passed."""

    def __init__(self, detail: str, *, after_s: float) -> None:
        super().__init__(detail)
        self.after_s = max(0, after_s)


class StopJob(BaseException):
    """The worker tells a running job to stop. A BaseException, so that a job's `except Exception` does not
    swallow it; clean up in `finally`, and let it pass."""


class LeaseLost(StopJob):
    """The attempt's lease is gone: another worker may have the run. Stop, change nothing more, do not complete."""


class RunCancelled(StopJob):
    """Somebody cancelled the run while it was running. Stop; what was done stays done."""


class Interrupted(StopJob):
    """The worker has to stop. Stop too: the run is handed back, and another worker begins it anew at once."""


class UnknownHandler(TickworkError):
    """This worker has no job function of that name."""


class StopFlag:
    """Whether and why an attempt has to stop. The first reason stands, but for a lost lease: whatever else it was told
    before, such an attempt has nothing to report."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self.signal: type[StopJob] | None = None

    def set(self, signal: type[StopJob]) -> bool:
        """True when this call was the first."""
        if self._set.is_set():
            if signal is LeaseLost:
                self.signal = signal
            return False
        self.signal = signal
        self._set.set()
        return True

    @property
    def is_lost(self) -> bool:
        return self.signal is LeaseLost

    @property
    def is_cancelled(self) -> bool:
        return self.signal is RunCancelled

    @property
    def is_interrupted(self) -> bool:
        return self.signal is Interrupted

    def __bool__(self) -> bool:
        return self._set.is_set()


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt of one run, as its job function sees it.

    `run_id` is the same on every attempt: use it as the idempotency key of every side effect. `token` grows with
    every attempt: pass it on where a side effect can be fenced (`tickwork.worker.fencing`). `scheduled_at` is the
    nominal time, `fire_at` the effective one (after jitter); both are aware datetimes in UTC. `traceparent` is the
    W3C trace context of whoever created the run, when there was one. `kind` is `manual` for a run that somebody asked
    for; `occurrence_id` is the `run_id` of the scheduled run of the same nominal time, and is that of a scheduled one.
    """

    run_id: str
    job_id: str
    scheduled_at: datetime
    fire_at: datetime
    attempt: int
    token: int
    payload: Any = field(default=None, repr=False)
    previous_at: datetime | None = None
    next_at: datetime | None = None
    traceparent: str | None = None
    kind: str = SCHEDULED
    occurrence_id: str = ""
    _stop: StopFlag = field(default_factory=StopFlag, repr=False, compare=False)

    @property
    def is_lost(self) -> bool:
        """Whether the lease is known to be gone."""
        return self._stop.is_lost

    @property
    def is_cancelled(self) -> bool:
        """Whether the run is known to be cancelled."""
        return self._stop.is_cancelled

    @property
    def is_interrupted(self) -> bool:
        """Whether the worker has to stop, and the run is to be handed back."""
        return self._stop.is_interrupted

    @property
    def fence(self) -> str:
        """Grows with every occurrence of the job and every attempt of a run, in string order: for a record that
        successive runs of one job write, where a late older writer must lose."""
        return f"{self.scheduled_at:%Y-%m-%dT%H:%M:%S}.{self.scheduled_at.microsecond // 1000:03d}#{self.token:010d}"

    def check(self) -> None:
        """Call it between steps of a long job: raises LeaseLost, RunCancelled or Interrupted as soon as it is known."""
        if self._stop.signal is not None:
            raise self._stop.signal(f"run {self.run_id}, attempt {self.attempt}")
