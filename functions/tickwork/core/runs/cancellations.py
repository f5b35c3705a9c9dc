"""What cancelling a run writes, by how far the run has come (W11).

Protects cancelled-stays: once the answer is `cancelled` nothing starts; once it is `cancel_requested` no further
attempt starts, and the current one learns of it with its next heartbeat.
"""

from __future__ import annotations

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.ends import ended
from tickwork.core.ledger.pending import end_buffered, end_pending
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Is, Missing, Update, all_of
from tickwork.core.runs.endings import Verdict, as_read, end_attempt, lapsed, retry_key

REASON_CHARS_MAX = 200

_ANY = Work("", "")
"""A cancelled run is never tried again: its policies do not matter."""


def decide_cancel(run: Run, reason: str, now_ms: int, retention_s: int) -> Verdict | None:
    """The writes that cancel the run as it stands; None when it has ended, or is being cancelled already."""
    why = reason[:REASON_CHARS_MAX]
    if run.status == lifecycle.PENDING:
        status = lifecycle.after(run.status, lifecycle.CANCEL)
        return Verdict((end_pending(run.key, lifecycle.CANCEL, why, now_ms, retention_s),), status, why)
    if run.status == lifecycle.BUFFERED:
        status = lifecycle.after(run.status, lifecycle.CANCEL)
        return Verdict((end_buffered(run.key, lifecycle.CANCEL, why, now_ms, retention_s),), status, why)
    if run.status == lifecycle.WAITING:
        return _cancel_waiting(run, why, now_ms, retention_s)
    if run.status != lifecycle.RUNNING or run.cancel_requested:
        return None
    if run.lease_until_ms <= now_ms:
        return _cancel_lapsed(run, why, now_ms, retention_s)
    return _request(run, why)


def decide_giving_way(run: Run, why: str, now_ms: int, retention_s: int) -> Verdict | None:
    """What makes a run give way to another of its job. Of a running one it is only asked, also where its lease has
    lapsed: then nobody begins it again, and whoever meets it ends it with what it holds. None: it has ended, or was
    asked."""
    if run.status == lifecycle.RUNNING:
        return None if run.cancel_requested else _request(run, why[:REASON_CHARS_MAX])
    return decide_cancel(run, why, now_ms, retention_s)


def _request(run: Run, why: str) -> Verdict:
    status = lifecycle.after(run.status, lifecycle.REQUEST_CANCEL)
    running = all_of(Is("status", run.status), Missing("cancel_requested"))
    request = Update(TIMERS, run.key.as_item(), running, set={"cancel_requested": why})
    return Verdict((request,), status, why)


def _cancel_waiting(run: Run, why: str, now_ms: int, retention_s: int) -> Verdict:
    """The run and its retry item end together: neither is left without the other."""
    status = lifecycle.after(run.status, lifecycle.CANCEL)
    changes = ended(run.key, status, why, now_ms, retention_s)
    retry = retry_key(run.key, run.retry_at_ms, run.attempt + 1)
    cancel = Update(TIMERS, run.key.as_item(), as_read(run), set=changes)
    return Verdict((cancel, end_pending(retry, lifecycle.SPEND, why, now_ms, retention_s)), status, why)


def _cancel_lapsed(run: Run, why: str, now_ms: int, retention_s: int) -> Verdict:
    """Nobody is left to ask: the attempt is recorded as lost, and the run as cancelled."""
    return end_attempt(run, lapsed(run), _ANY, now_ms, retention_s, cancel=why)
