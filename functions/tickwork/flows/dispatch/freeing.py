"""Looking at once whether what waits of a job may go: whoever has ended a run of it, or changed, cancelled or deleted
something of it, comes here after his write.

For promptness only, and never a reason to refuse what its caller was asked: what is not done here the `look` does
within a minute (flows/dispatch/releasing).
"""

from __future__ import annotations

from tickwork.core.errors import WorldError
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.writes import Committed, Item, Refused
from tickwork.flows.dispatch import creating, releasing
from tickwork.flows.dispatch.fired import Fired, Firing
from tickwork.flows.dispatch.firing import send_all
from tickwork.flows.ledger.reading import read_job, read_job_to_plan, read_run
from tickwork.ports import Ports

BY = "buffer"
"""Who has sent it, as history shows it."""


def free_job(ports: Ports, job_id: str) -> None:
    """Look whether what waits of a job may go."""
    fired, firing = Fired(), Firing(BY)
    try:
        job = read_job_to_plan(ports, job_id)
        if job is None or job.buffer is None:
            return
        jobs = {job_id: job}
        messages, _ = releasing.free(ports, jobs, {job_id: [job.buffer.first]}, firing, fired)
        fired.released |= {message.key.ref for message in messages}
        send_all(ports, messages, jobs, {}, (), firing, fired)
        creating.follow_up(ports, fired.materialised)
    except (WorldError, Unreadable) as error:
        ports.signals.log("buffered_left", job_id=job_id, error=repr(error))


def free_after(ports: Ports, key: LedgerKey, result: Committed | Refused) -> None:
    """After a run has ended: `result` of the write that has noted it on its job, which says whether one waits."""
    item: Item | None = result.item if isinstance(result, Committed) else result.only
    if item is not None and "buffer_count" in item:
        free_job(ports, key.job_id)


def see_to(ports: Ports, key: LedgerKey) -> None:
    """What the audit does for a run that waits: its look may be lost. One that its job does not name would wait for
    ever, and ends."""
    free_job(ports, key.job_id)
    job, run = read_job(ports, key.job_id), read_run(ports, key)
    if run is not None and run.status == lifecycle.BUFFERED and (job is None or job.buffer is None):
        releasing.end_unnamed(ports, key)
