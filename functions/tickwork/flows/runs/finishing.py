"""Ending an attempt: write it, see to its retry, and say so. Whoever ends one (its worker, the next start, a
heartbeat past its bound, a start that needs its slot) does it here.

Protects no-lost-timer: the retry item is written with the end of the attempt, and then follows the creator's rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.ledger import kinds, lifecycle
from tickwork.core.ledger.keys import LedgerKey, is_wait_place
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.work import ORDINARY
from tickwork.core.ledger.writes import Committed, Delete, Refused, Write
from tickwork.core.runs import endings
from tickwork.core.runs.endings import Failure
from tickwork.flows.access import pools
from tickwork.flows.dispatch import creating, freeing
from tickwork.flows.ledger import lasts, versions
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.teams import note_teams
from tickwork.flows.runs import backfilling, waking
from tickwork.ports import Ports


@dataclass(frozen=True, slots=True)
class Ended:
    """An accepted completion: the status the run now has, and when a retry is due (0: none)."""

    status: str
    retry_at_ms: int = 0


def end_attempt(ports: Ports, run: Run, failure: Failure) -> Ended | None:
    """Write the end of a running attempt, and see to its retry; None when the run has moved meanwhile."""
    now_ms = ports.clock.now_ms()
    work = versions.work_of(ports, run) or ORDINARY
    verdict = endings.end_attempt(run, failure, work, now_ms, ports.layout.retention_s)
    if verdict.retry is not None:
        pools.wait_for(ports, run.key.team, work.pool, verdict.retry.key.fire_at_ms)
    if not isinstance(commit_end(ports, verdict.writes), Committed):
        return None
    if verdict.retry is None:
        note_end(ports, run.key, verdict.status, verdict.reason, now_ms)
        return Ended(verdict.status)
    creating.follow_up(ports, [verdict.retry.key])
    return Ended(verdict.status, verdict.retry.key.fire_at_ms)


def commit_end(ports: Ports, writes: Sequence[Write]) -> Committed | Refused:
    """Commit the end of an attempt, or the start that follows one that lapsed, and wake who waits for what it frees. A
    slot that is not the attempt's own (any more) is not its to free, and no reason to refuse its end."""
    result = commit(ports, *writes)
    if isinstance(result, Refused) and all(_is_release(writes[index]) for index in result.failed):
        ports.signals.count("resources.foreign_slot_total")
        writes = [write for index, write in enumerate(writes) if index not in result.failed]
        result = commit(ports, *writes)
    if isinstance(result, Committed):
        freed = [str(write.key["resource"]) for write in writes if isinstance(write, Delete) and _is_release(write)]
        waking.wake_oldest(ports, freed)
    return result


def _is_release(write: Write) -> bool:
    """Whether a write frees a slot."""
    return isinstance(write, Delete) and write.table is RESOURCES and not is_wait_place(str(write.key["slot"]))


def see_to_retry(ports: Ports, run: Run) -> Ended:
    """The end was accepted, the reply was lost; what came after the write may not have happened: do it again."""
    if run.ended:
        note_standing(ports, run)
    if run.status != lifecycle.WAITING:
        return Ended(run.status)
    creating.follow_up(ports, [endings.retry_key(run.key, run.retry_at_ms, run.attempt + 1)])
    return Ended(run.status, run.retry_at_ms)


def see_to_next(ports: Ports, run: Run) -> None:
    """A call finds that a run has ended, perhaps by an earlier try of its own. What its backfill has launched then may
    lie behind the cursor, unsent."""
    if kinds.word_of(run.key.kind) == kinds.BACKFILL:
        backfilling.advance_after(ports, run.key, is_repeat=True)


def note_end(ports: Ports, key: LedgerKey, status: str, reason: str, now_ms: int) -> None:
    """Count and note a run that has ended without success. An `unsafe` one alarms: it waits for a person."""
    if reason.endswith(endings.NOT_REPEATED):
        ports.signals.count("runs.unsafe_not_repeated_total", team=key.team)
        ports.signals.log("unsafe_run_not_repeated", ref=key.ref, reason=reason)
    if status == lifecycle.DEAD:
        ports.signals.count("runs.dead_lettered_total", team=key.team)
    if status == lifecycle.EXPIRED:
        ports.signals.count("runs.too_late_total", team=key.team)
        ports.signals.log("run_too_late", ref=key.ref, run_id=key.run_id, why=reason)
    note_teams(ports, [key.team])
    if status != lifecycle.SKIPPED:  # it is no outcome of the job, as it is none when a window skips
        note_outcome(ports, key, status, now_ms)


def note_standing(ports: Ports, run: Run) -> None:
    """Note how a run has ended, as it stands in the ledger, where a call is repeated."""
    if kinds.word_of(run.key.kind) == kinds.BACKFILL:
        see_to_next(ports, run)
        return
    started_at_ms = run.started_at_ms if run.status == lifecycle.SUCCEEDED else 0
    note_outcome(ports, run.key, run.status, run.ended_at_ms, started_at_ms)


def note_outcome(ports: Ports, key: LedgerKey, status: str, now_ms: int, started_at_ms: int = 0) -> None:
    """The job's `last`: for people and for the dead-man's switch; of a success (`started_at_ms`) how long it took, too.
    A crash before it loses no run, the ledger has it. The write says as well whether another waits for this end. It is
    about the schedule: a run by hand leaves it as it is, and one that waits for it is looked at all the same."""
    if key.kind and kinds.word_of(key.kind) == kinds.BACKFILL:
        backfilling.advance_after(ports, key)
    elif key.kind:
        freeing.free_job(ports, key.job_id)
    if "~" in key.name or key.kind:
        return
    freeing.free_after(ports, key, lasts.note_last(ports, key, status, now_ms, started_at_ms))
