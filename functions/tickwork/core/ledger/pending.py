"""Ending an item that has not started."""

from __future__ import annotations

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.ends import ended
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Is, Update


def end_pending(key: LedgerKey, event: str, reason: str, now_ms: int, retention_s: int) -> Update:
    """End an item that has not started: skip, cancel or spend it."""
    return _end_as(lifecycle.PENDING, key, event, reason, now_ms, retention_s)


def end_buffered(key: LedgerKey, event: str, reason: str, now_ms: int, retention_s: int) -> Update:
    """End a run that waits until its job is free: skip or cancel it."""
    return _end_as(lifecycle.BUFFERED, key, event, reason, now_ms, retention_s)


def _end_as(status: str, key: LedgerKey, event: str, reason: str, now_ms: int, retention_s: int) -> Update:
    changes = ended(key, lifecycle.after(status, event), reason, now_ms, retention_s)
    return Update(TIMERS, key.as_item(), Is("status", status), set=changes)
