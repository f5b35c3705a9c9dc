"""What a team writes against: the registry of job functions, and the context each one gets."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from tickwork.core.errors import TickworkError

type JobFunction = Callable[[Context], Any]


class FailPermanently(Exception):
    """Raise it from a job when no retry can help: the run is dead-lettered at once."""


class LeaseLost(BaseException):
    """The attempt's lease is gone: another worker may have the run. Stop, change nothing more, do not complete.

    A BaseException, so that a job's `except Exception` does not swallow it.
    """


class UnknownHandler(TickworkError):
    """This worker has no job function of that name."""


@dataclass(frozen=True, slots=True)
class Context:
    """One attempt of one run, as its job function sees it.

    `run_id` is the same on every attempt: use it as the idempotency key of every side effect. `token` grows with
    every attempt: pass it on where a side effect can be fenced. `scheduled_at` is the nominal time, `fire_at` the
    effective one (after jitter); both are aware datetimes in UTC.
    """

    run_id: str
    job_id: str
    scheduled_at: datetime
    fire_at: datetime
    attempt: int
    token: int
    payload: Any = None
    previous_at: datetime | None = None
    next_at: datetime | None = None
    _lost: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @property
    def is_lost(self) -> bool:
        """Whether the lease is known to be gone."""
        return self._lost.is_set()

    def check(self) -> None:
        """Call it between steps of a long job: raises LeaseLost as soon as the lease is known to be gone."""
        if self.is_lost:
            raise LeaseLost(f"run {self.run_id}, attempt {self.attempt}: the lease is gone")


@dataclass(frozen=True, slots=True)
class Registered:
    """A job function and the model of its payload, if it has one."""

    function: JobFunction
    payload_model: type[BaseModel] | None

    def read_payload(self, payload: object) -> Any:
        """The payload as its model. FailPermanently when it does not fit: a retry would not help."""
        if self.payload_model is None:
            return payload
        try:
            return self.payload_model.model_validate(payload)
        except ValidationError as error:
            raise FailPermanently(f"the payload does not fit {self.payload_model.__name__}: {error}") from error


class App:
    """The job functions of one worker process, by name."""

    def __init__(self) -> None:
        self._jobs: dict[str, Registered] = {}

    def job(self, name: str, *, payload: type[BaseModel] | None = None) -> Callable[[JobFunction], JobFunction]:
        """Register a job function under the handler name that jobs and timers give as their target."""

        def register(function: JobFunction) -> JobFunction:
            if name in self._jobs:
                raise ValueError(f"job {name!r} is registered twice")
            if inspect.iscoroutinefunction(function):
                raise TypeError(f"job {name!r} is a coroutine function: call asyncio.run inside a plain one")
            self._jobs[name] = Registered(function, payload)
            return function

        return register

    @property
    def names(self) -> list[str]:
        return sorted(self._jobs)

    def find(self, name: str) -> Registered:
        try:
            return self._jobs[name]
        except KeyError:
            raise UnknownHandler(
                f"no job function {name!r} in this worker (it has {', '.join(self.names) or 'none'})"
            ) from None
