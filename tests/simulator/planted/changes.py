"""Planted bugs in changing and pausing a job while it fires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch, one_by_one, unconditional
from tickwork.core.dispatch import chain
from tickwork.core.jobs import changes as change_core
from tickwork.core.jobs import occurrences, skips
from tickwork.core.jobs.definitions import ACTIVE, Job
from tickwork.core.ledger.tables import AUDIT
from tickwork.core.ledger.writes import AllOf, Is, Put, Update, Write, all_of
from tickwork.flows.jobs import changing
from tickwork.flows.ledger import commit as committing


def _leaves_the_old_occurrence() -> Sequence[Patch]:
    right = change_core.change_writes

    def wrong(*arguments: Any) -> tuple[Write, ...]:
        job_update, *others = right(*arguments)
        return (job_update, *(write for write in others if isinstance(write, Put)))

    return [(change_core, "change_writes", wrong)]


def _change_without_a_condition() -> Sequence[Patch]:
    right = change_core.change_writes

    def wrong(*arguments: Any) -> tuple[Write, ...]:
        job_update, *others = right(*arguments)
        assert isinstance(job_update, Update)
        return (unconditional(job_update), *others)

    return [(change_core, "change_writes", wrong)]


def _change_does_not_look() -> Sequence[Patch]:
    return [(changing, "see_to_next", lambda *_: None)]


def _change_gives_up_what_is_due() -> Sequence[Patch]:
    return [(change_core, "occurrence_kept", lambda *_: None)]


def _step_does_not_mind_changes() -> Sequence[Patch]:
    def wrong(job: Job, due: Any) -> AllOf:
        return all_of(
            Is("status", ACTIVE),
            Is("next_scheduled_at_ms", due.scheduled_at_ms),
            Is("next_fire_at_ms", due.fire_at_ms),
        )

    return [(chain, "chain_unmoved", wrong)]


def _pause_does_not_move_the_version() -> Sequence[Patch]:
    right = change_core.pause_write

    def wrong(job: Job, changed: Job) -> Update:
        return right(job, replace(changed, version=job.version))

    return [(change_core, "pause_write", wrong)]


def _pause_is_ignored() -> Sequence[Patch]:
    return [(skips, "skipping_at", lambda *_: None)]


def _schedule_reaches_back() -> Sequence[Patch]:
    right = occurrences.following
    return [(chain, "following", lambda job, *rest: right(replace(job, scheduled_since_ms=0), *rest))]


def _cancel_passes_the_time_until_it() -> Sequence[Patch]:
    right = chain.cancel_next

    def wrong(job: Job, due: Any, *rest: Any) -> tuple[Write, ...]:
        move, *others = right(job, due, *rest)
        assert isinstance(move, Update)
        return replace(move, set={**move.set, "fired_through_ms": due.scheduled_at_ms}), *others

    return [(chain, "cancel_next", wrong)]


def _change_forgets_what_was_cancelled() -> Sequence[Patch]:
    right = occurrences.following
    return [
        (module, "following", lambda job, *rest: right(replace(job, cancelled=()), *rest))
        for module in (occurrences, chain)
    ]


def _entry_comes_after_its_change() -> Sequence[Patch]:
    return [(changing, "commit", one_by_one)]


def _change_has_no_entry() -> Sequence[Patch]:
    right = committing.commit

    def wrong(ports: Any, *writes: Write) -> Any:
        return right(ports, *(write for write in writes if write.table is not AUDIT))

    return [(changing, "commit", wrong)]


BUGS = (
    Bug("a change leaves the old occurrence pending", _leaves_the_old_occurrence),
    Bug("a change without a condition", _change_without_a_condition),
    Bug("a change does not look at closing", _change_does_not_look),
    Bug("a change gives up what is due", _change_gives_up_what_is_due),
    Bug("a step does not mind that its job was changed", _step_does_not_mind_changes),
    Bug("a pause does not move the version", _pause_does_not_move_the_version),
    Bug("a pause is ignored", _pause_is_ignored),
    Bug("the entry of a change comes after it", _entry_comes_after_its_change),
    Bug("a change leaves no entry", _change_has_no_entry),
    Bug("a cancelled occurrence takes the time until it along", _cancel_passes_the_time_until_it),
    Bug("a change forgets what was cancelled", _change_forgets_what_was_cancelled),
    Bug("a new schedule reaches back before its change", _schedule_reaches_back),
)
