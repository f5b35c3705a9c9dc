"""What answers about a job say of the runs that hold it: who must end before the next may fire.

Read when it is asked for, and never a reason to refuse: where it cannot be read just now, the answer leaves it out.
"""

from __future__ import annotations

from tickwork.api.jobs.answers import WaitsFor
from tickwork.core.errors import WorldError
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.overlap import CANCEL_OTHER, SKIP
from tickwork.core.ledger.items import Unreadable
from tickwork.flows.dispatch.overlapping import Unended, unended_of
from tickwork.ports import Ports


def _unended(ports: Ports, job: Job) -> Unended | None:
    try:
        return None if job.may_overlap else unended_of(ports, job)
    except (WorldError, Unreadable) as error:
        ports.signals.log("holders_unread", job_id=job.job_id, error=repr(error))
        return None


def waits_for(ports: Ports, job: Job) -> WaitsFor | None:
    """What the next occurrence of a job whose policy was changed waits for; None where it waits for nobody, or where
    that is not known."""
    found = _unended(ports, job)
    if found is None:
        return None
    runs = [holder.key.occurrence for holder in found.holding.holders]
    return {"runs": runs, "more": not found.holding.is_whole, "bounded": found.is_bounded}


def may_be_held_up(ports: Ports, job: Job) -> str | None:
    """What a preview says beside what is to come: a run goes on that holds the job."""
    found = _unended(ports, job)
    if found is None or found.holding.by is None:
        return None
    if job.overlap == CANCEL_OTHER:
        return f"{found.holding.by['occurrence']} is cancelled for it, if that has not ended (overlap {job.overlap})"
    becomes = "is skipped" if job.overlap == SKIP else "waits, or is skipped,"
    return f"{becomes} while {found.holding.by['occurrence']} has not ended (overlap {job.overlap})"
