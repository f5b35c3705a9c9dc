"""How the last run of a job has ended, as its job keeps it (`last`): for people and for the dead-man's switch.

It is about the schedule: of the nominal times it knows the newest. A crash before the write loses no run, the ledger
has it.
"""

from __future__ import annotations

from tickwork.core.jobs import durations
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Below, Committed, Is, Item, Missing, Refused, Update, all_of, any_of
from tickwork.flows.ledger.commit import commit
from tickwork.ports import Ports


def note_last(ports: Ports, key: LedgerKey, status: str, now_ms: int, started_at_ms: int = 0) -> Committed | Refused:
    """Note how an occurrence has ended; of a success (`started_at_ms`) how long it took, too. What it answers has the
    job as it is then, with what waits for this end."""
    newer = any_of(Missing("last_scheduled_at_ms"), Below("last_scheduled_at_ms", key.scheduled_at_ms))
    known = Is("name", key.name)
    last: Item = {
        "run_id": key.run_id,
        "status": status,
        "scheduled_at_ms": key.scheduled_at_ms,
        "ended_at_ms": now_ms,
    }
    changes: Item = {"last": last, "last_scheduled_at_ms": key.scheduled_at_ms}
    if isinstance(started_at_ms, int) and started_at_ms:
        last["took_ms"] = max(0, now_ms - started_at_ms)
        changes |= durations.noted(started_at_ms, now_ms)
    if status == lifecycle.SUCCEEDED:
        changes["last_success_at_ms"] = now_ms
    result = commit(ports, Update(JOBS, {"job_id": key.job_id}, all_of(known, newer), set=changes))
    if status == lifecycle.SUCCEEDED and isinstance(result, Refused):
        _note_late_success(ports, key, result.only, now_ms)
    return result


def _note_late_success(ports: Ports, key: LedgerKey, job: Item | None, now_ms: int) -> None:
    """A success of an older occurrence than the last that has ended: whoever watches the job has to hear of it. Nobody
    else does, and it costs no other job a write."""
    if job is None or not job.get("watched_since_ms"):
        return
    earlier = any_of(Missing("last_success_at_ms"), Below("last_success_at_ms", now_ms))
    known = all_of(Is("name", key.name), earlier)
    commit(ports, Update(JOBS, {"job_id": key.job_id}, known, set={"last_success_at_ms": now_ms}))
