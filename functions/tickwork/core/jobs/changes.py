"""What changing a job writes (A1): its definition, and its pending occurrence where that moves.

Protects no-lost-timer (what is due already stays, for it may be on its way), one-run and chain-unbroken: the occurrence
that is given up is ended in the transaction that moves the job's `next`, so a scanner that read the job before can
neither pass it nor fire it. It is recorded as cancelled, with the version that gave it up.
"""

from __future__ import annotations

from tickwork.core.jobs import versions
from tickwork.core.jobs.definitions import ACTIVE, KEPT, Job, Next, next_attributes
from tickwork.core.jobs.occurrences import materialise
from tickwork.core.ledger import items, lifecycle
from tickwork.core.ledger.groups import GROUPED
from tickwork.core.ledger.pending import end_pending
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import AllOf, Is, Item, Update, Write, all_of

_TOUCHED = (items.attributes_of(Job) - items.attributes_of(Job, KEPT)) | {GROUPED}
"""Attributes that a change of a job's definition writes, or takes away."""

_HOLDERS = ("held_through_ms", "holders")
"""What a job names while its runs may not overlap. Once they may it goes, for nobody keeps it: should they not again,
all that it has passed is looked for."""


def as_read(job: Job) -> AllOf:
    """Nobody has changed the job, nor moved it along, since it was read."""
    return all_of(
        Is("version", job.version),
        Is("status", job.status),
        Is("next_scheduled_at_ms", job.next.scheduled_at_ms if job.next else 0),
    )


def occurrence_kept(job: Job, now_ms: int) -> Next | None:
    """The pending occurrence that no change moves: the one whose nominal time has come."""
    if job.status == ACTIVE and job.next is not None and job.next.scheduled_at_ms <= now_ms:
        return job.next
    return None


def change_writes(job: Job, changed: Job, home: str, now_ms: int, retention_s: int) -> tuple[Write, ...]:
    """The transaction that turns `job`, as it was read, into `changed`, whose `next` has been chosen."""
    item = {name: value for name, value in changed.to_item().items() if name in _TOUCHED}
    gone = tuple(sorted(_TOUCHED - item.keys())) + (_HOLDERS if changed.may_overlap and not job.may_overlap else ())
    writes: list[Write] = [Update(JOBS, job.key(), as_read(job), set=item, remove=gone)]
    writes += versions.replaced(job, changed.work.payload_id, now_ms, retention_s)
    before, after = job.next_key(home), changed.next_key(home)
    if before is not None and before != after:
        reason = f"the job was changed (version {changed.version})"
        writes.append(end_pending(before, lifecycle.CANCEL, reason, now_ms, retention_s))
    # The item says whether the definition limits its start, and by when: a change of that is a change of the item.
    same = (changed.is_guarded, changed.work.start_within_s) == (job.is_guarded, job.work.start_within_s)
    # What a pin says counts for the pending one, too; and so does its group.
    same = same and (changed.defaults_pin, changed.group, changed.epoch) == (job.defaults_pin, job.group, job.epoch)
    if after is not None and (before != after or not same):
        writes.append(materialise(changed, after, now_ms))
    return tuple(writes)


def skips_write(job: Job, changed: Job) -> Update:
    """The write that gives a job other skips of single occurrences: as one that gives it other pauses."""
    changes: Item = {"version": changed.version, "defined_since": changed.defined_since}
    changes |= {"audit_head": changed.audit_head, "skips": [skip.to_item() for skip in changed.skips]}
    return Update(JOBS, job.key(), as_read(job), set=changes)


def pause_write(job: Job, changed: Job) -> Update:
    """The write that gives a job other pauses. Its version moves, so that a step planned without them is refused; its
    definition stays, which a run may go by whose replay has asked for the version before."""
    changes: Item = {"pauses": [pause.to_item() for pause in changed.pauses], "version": changed.version}
    changes["defined_since"] = changed.defined_since
    changes["audit_head"] = changed.audit_head
    changes |= next_attributes(changed.next) if changed.next != job.next else {}
    return Update(JOBS, job.key(), as_read(job), set=changes)


def moved_writes(job: Job, changed: Job, home: str, now_ms: int, retention_s: int) -> tuple[Write, ...]:
    """Beside that: what moves the pending occurrence, where a pause keeps it, or no longer does (chain-unbroken)."""
    before, after = job.next_key(home), changed.next_key(home)
    if before is None or after is None or before == after:
        return ()
    reason = f"moved: the job was paused or resumed (version {changed.version})"
    return (
        end_pending(before, lifecycle.CANCEL, reason, now_ms, retention_s),
        materialise(changed, after, now_ms),
    )
