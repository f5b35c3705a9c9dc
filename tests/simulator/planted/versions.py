"""Planted bugs in what a run is told to do: the definition it was fired by (W13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.jobs import versions as version_core
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Write
from tickwork.flows.dispatch import stepping
from tickwork.flows.ledger.versions import Versions


def _as_it_stands(_: Versions, job: Job | None, __: Any) -> Job | None:
    return job


def _every_run_takes_what_stands() -> Sequence[Patch]:
    return [(Versions, "fired_by", _as_it_stands)]


def _repeated_window_takes_what_stands() -> Sequence[Patch]:
    class Wrong(Versions):
        def work_of(self, job: Job | None, _: Run) -> Work | None:
            return job.work if job else None

    return [(stepping, "Versions", Wrong)]


def _earlier_definition_reaches_too_far() -> Sequence[Patch]:
    def wrong(job: Job) -> int:
        return max(job.fired_through_ms, job.next.scheduled_at_ms if job.next else 0)

    return [(version_core, "through_ms", wrong)]


def _change_forgets_what_it_replaces() -> Sequence[Patch]:
    def wrong(*_: Any) -> tuple[Write, ...]:
        return ()

    return [(version_core, "replaced", wrong)]


def _change_does_not_say_what_is_earlier() -> Sequence[Patch]:
    right = version_core.through_ms
    return [(version_core, "through_ms", lambda job: right(replace(job, fired_through_ms=0)))]


BUGS = (
    Bug("every run takes the definition that stands", _every_run_takes_what_stands),
    Bug("a repeated window takes the definition that stands", _repeated_window_takes_what_stands),
    Bug("an earlier definition reaches what it never fired", _earlier_definition_reaches_too_far),
    Bug("a change keeps nothing of the definition before it", _change_forgets_what_it_replaces),
    Bug("a change does not say up to where it is not meant", _change_does_not_say_what_is_earlier),
)
