"""Log lines that say which run they belong to, also those a job's own code writes."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_running: ContextVar[Mapping[str, Any] | None] = ContextVar("tickwork_run", default=None)


@contextmanager
def names_in_logs(names: Mapping[str, Any]) -> Iterator[None]:
    """Lines logged in here, in this thread or its coroutines, carry these facts (see RunNames)."""
    before = _running.set(names)
    try:
        yield
    finally:
        _running.reset(before)


class RunNames(logging.Filter):
    """Put it on a handler: adds `facts` (run_id, job_id, attempt, trace_id) to records logged while a job runs."""

    def filter(self, record: logging.LogRecord) -> bool:
        names = _running.get()
        if names is not None:
            record.facts = {**names, **getattr(record, "facts", {})}
        return True
