"""A change of a job as the audit tells it: in the words of the API, and without its payload.

Refuses to know who has changed it. Protects that a payload never stands in an entry: where one is changed, a digest
takes its place, of which the flow makes a keyed one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from tickwork.core.access.diffs import Changes, differences
from tickwork.core.access.entries import Change
from tickwork.core.instants import iso_ms
from tickwork.core.jobs.definitions import DELETED, Definition, Job
from tickwork.core.jobs.pauses import pause_in_force
from tickwork.core.ledger import items
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Item

KIND = "job"
PAYLOAD = "payload"
DIGEST_CHARS = 12
"""As many as the id of a payload kept apart has: so the same payload is the same, wherever it lies."""

_SAID = items.attributes_of(Definition) - {"team", "name", "fingerprint", "work"}
_TARGET = ("pool", "handler", "url")


def change_of(
    before: Job | None, after: Job, action: str, now_ms: int, facts: Mapping[str, Any] | None = None
) -> Change:
    """What turns one job into the other. `before` None: there was none of that name, or it was deleted."""
    return Change(
        after.team,
        KIND,
        after.name,
        f"job.{action}",
        head=after.audit_head,
        version_before=before.version if before else after.version - 1,
        version=after.version,
        changes=_changes(before, after, now_ms),
        facts=facts or {},
    )


def _changes(before: Job | None, after: Job, now_ms: int) -> Changes:
    """Of a deletion no field is told: the definition that it takes away is kept as a version of the job."""
    if before is not None and after.status == DELETED:
        return differences({"status": before.status}, {"status": DELETED})
    return differences(told(before, now_ms) if before else None, told(after, now_ms))


def told(job: Job, now_ms: int) -> Item:
    """A job in the words of the API."""
    job = job.as_stored()
    stored = job.to_item()
    pause = pause_in_force(job.pauses, now_ms)
    said: Item = {name: value for name, value in stored.items() if name in _SAID} | _told_work(job.work)
    said["status"] = job.status
    if pause is not None:
        until = iso_ms(pause.until_ms) if pause.until_ms else None
        said["pause"] = {"by": pause.by, "reason": pause.reason, "from": iso_ms(pause.from_ms), "until": until}
        said["pause"] |= {"at_resume": pause.at_resume} if pause.parks else {}
    if skips := [one for one in job.skips if not one.undone_by]:
        said["skips"] = [{"scheduled_at": iso_ms(one.at_ms), "by": one.by, "reason": one.reason} for one in skips]
    if job.cancelled:
        said["cancelled"] = [iso_ms(at_ms) for at_ms in job.cancelled]
    return said


def _told_work(work: Work) -> Item:
    said = items.written(work)
    target = {name: said.pop(name) for name in _TARGET if name in said}
    said = {"target": target, "retry_policy": said.pop("retry", {})} | said
    said.pop("payload_id", None)
    if (digest := digest_of(work)) is not None:
        said[PAYLOAD] = digest
    return said


def digest_of(work: Work) -> str | None:
    """What tells a payload from others, wherever it is kept; None when there is none."""
    if work.payload is not None:
        return hashlib.sha256(work.payload.encode()).hexdigest()[:DIGEST_CHARS]
    return work.payload_id.rpartition(".")[2] if work.payload_id is not None else None
