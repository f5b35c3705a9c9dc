"""Moving one job on under the right of whoever fires, and leaving it when that cannot be: it costs this job only.

Protects one-owner-effect: what a scanner writes along a chain stands or falls with its token.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.core.dispatch import set_aside
from tickwork.core.errors import WorldError, told_error, told_way
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.writes import Committed, Refused, Write
from tickwork.flows.dispatch.fired import Fired, Firing, TokenRefused
from tickwork.flows.ledger.commit import commit
from tickwork.ports import Ports

TRACE_CHARS_MAX = 2_000
"""Of a traceback in a log line: its end, which says where."""


def commit_fenced(ports: Ports, writes: Sequence[Write], firing: Firing, fired: Fired) -> Committed | Refused:
    guarded = writes if firing.fence is None else (firing.fence, *writes)
    try:
        result = ports.store.commit(guarded) if fired.is_busy else commit(ports, *guarded)
    except WorldError:
        fired.is_busy = True
        raise
    if isinstance(result, Refused) and 0 in result.failed and firing.fence is not None:
        ports.signals.count("scheduler.dispatch_rejected_stale_token_total")
        raise TokenRefused
    return result


def left_busy(ports: Ports, key: LedgerKey, fired: Fired) -> list[ReadyMessage]:
    """The store refuses this one's step for some time: it waits for its job."""
    fired.unsent += 1
    fired.leave(set_aside.job(key.job_id), key)
    ports.signals.count("scheduler.chains_contended_total")
    ports.signals.log("chain_contended", ref=key.ref, tries=0)
    return []


def leave_job(ports: Ports, key: LedgerKey, error: Exception, fired: Fired) -> None:
    """What cannot be made sense of is left to wait for its job, and said. A creator may not answer for what only a
    busy store kept from it: its caller asks again."""
    fired.set_aside += 1
    if isinstance(error, WorldError):
        fired.unsent += 1
    fired.leave(set_aside.job(key.job_id), key)
    ports.signals.count("scheduler.set_aside_total")
    if isinstance(error, Unreadable | WorldError):
        ports.signals.log("item_set_aside", why=str(error))
        return
    trace = told_way(error)[-TRACE_CHARS_MAX:]
    ports.signals.log("job_failed", job_id=key.job_id, ref=key.ref, why=told_error(error), trace=trace)
