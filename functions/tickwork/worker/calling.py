"""Calls a job's function and says what came of it.

Protects W3 (an attempt that lost its lease has no outcome to report, however its function ended) and W13: whatever a
job raises becomes an outcome that can be told, though its text be of bytes, raise itself, or have no end.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from tickwork.core.runs.retrying import whole_wait_s
from tickwork.core.texts import cleaned
from tickwork.worker.app import PERMANENT, RETRY, App
from tickwork.worker.context import FailPermanently, RetryLater, StopJob, UnknownHandler
from tickwork.worker.delivery import Delivery
from tickwork.worker.logs import names_in_logs

log = logging.getLogger("tickwork.worker")

SUCCEEDED, CANCELLED = "succeeded", "cancelled"
INTERRUPTED = "interrupted"
"""Never completed with: the run is handed back instead."""
ERROR_CHARS_MAX = 1_000
ERROR_CLASS_CHARS_MAX = 80
TRACEBACK_CHARS_MAX = 2_000
ENDS_PROCESS = "ends_process"
"""What an exception says of itself (True) that stands for the end of the process: nothing can be told any more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What to complete the attempt with. `error_class` is the exception's, for the job's retry policy."""

    outcome: str
    error: str = ""
    error_class: str = ""
    retry_after_s: int = 0

    @classmethod
    def of_error(cls, outcome: str, error: BaseException) -> Self:
        name = cleaned(type(error).__name__, ERROR_CLASS_CHARS_MAX)
        after_s = whole_wait_s(error.after_s) if isinstance(error, RetryLater) else 0
        return cls(outcome, cleaned(f"{name}: {_said(error)}", ERROR_CHARS_MAX), name, after_s)

    @property
    def bare(self) -> Self:
        """What is left when nothing may be said beside it."""
        return type(self)(self.outcome)


def _said(error: BaseException) -> str:
    """An error's text. What it raises instead of telling it is no reason to lose the failure."""
    try:
        return str(error)
    except BaseException as other:  # noqa: BLE001 - the job has ended, so this is its own code's and no signal
        return f"(it cannot be told: {type(other).__name__})"


def call_job(app: App, delivery: Delivery) -> Outcome | None:
    """Run the job's function. None when the lease was lost: nothing may be completed."""
    with names_in_logs(delivery.names):
        outcome = _call(app, delivery)
        if delivery.stop.is_lost:
            log.warning("lease lost", extra={"facts": {"ended_as": outcome and outcome.outcome}})
            return None
        if delivery.stop.is_cancelled and (outcome is None or outcome.outcome != SUCCEEDED):
            log.info("run cancelled")
            return Outcome(CANCELLED, "cancelled while it was running")
        if delivery.stop.is_interrupted and (outcome is None or outcome.outcome != SUCCEEDED):
            log.info("run interrupted")
            return Outcome(INTERRUPTED)
        return outcome


def _call(app: App, delivery: Delivery) -> Outcome | None:
    try:
        registered = app.find(delivery.handler)
        payload = registered.read_payload(delivery.payload)
        ctx = delivery.context(payload)
        arguments = (ctx, payload) if registered.takes_payload else (ctx,)
        if registered.is_async:
            _run_coroutine(delivery, lambda: registered.function(*arguments))
        else:
            delivery.call.run(lambda: registered.function(*arguments))
    except StopJob:
        return None
    except FailPermanently as error:
        return Outcome.of_error(PERMANENT, error)
    except UnknownHandler as error:
        # Without a class: it is not the job's error, and a policy that goes by classes must not end the run for it.
        log.error("unknown handler", extra={"facts": {"error": str(error)}})
        return Outcome(RETRY, cleaned(f"UnknownHandler: {error}", ERROR_CHARS_MAX))
    except Exception as error:  # noqa: BLE001 - whatever the job raises is its attempt's failure
        return _failed(registered.outcome_of(error), error)
    except BaseException as error:
        # A job may not end the worker: `sys.exit()` deep in a library is the failure of this attempt.
        if getattr(error, ENDS_PROCESS, False):
            raise
        return _failed(RETRY, error)
    return Outcome(SUCCEEDED)


def _failed(outcome: str, error: BaseException) -> Outcome:
    try:
        way = "".join(traceback.format_exception(error))
    except Exception as other:  # noqa: BLE001 - an error that cannot even be shown is one all the same
        way = f"{type(error).__name__}, whose traceback cannot be shown: {type(other).__name__}"
    log.warning("job failed", extra={"facts": {"error": cleaned(way[-TRACEBACK_CHARS_MAX:], TRACEBACK_CHARS_MAX)}})
    return Outcome.of_error(outcome, error)


def _run_coroutine(delivery: Delivery, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """An event loop of its own for this run. It is stopped as asyncio does it: by cancelling the task."""
    running = _Cancellable(make)
    delivery.call.stop_by(running.cancel)
    try:
        delivery.call.run(lambda: asyncio.run(running.main()))
    except asyncio.CancelledError:
        if delivery.stop.signal is not None:
            raise delivery.stop.signal from None
        raise


class _Cancellable:
    """A coroutine that another thread can cancel, also before its loop runs."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._make = make
        self._told = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    async def main(self) -> None:
        self._task = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        # Either `cancel` sees the loop, or this sees that it was told: each writes before it reads.
        if self._told:
            raise asyncio.CancelledError
        await self._make()

    def cancel(self) -> None:
        self._told = True
        if self._loop is not None and self._task is not None:
            with suppress(RuntimeError):  # its loop is closed, perhaps only just: the coroutine has ended
                self._loop.call_soon_threadsafe(self._task.cancel)
