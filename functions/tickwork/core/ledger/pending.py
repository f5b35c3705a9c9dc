"""Ending an item that has not started."""

from __future__ import annotations

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.ends import ended
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Is, Update


def end_pending(key: LedgerKey, event: str, reason: str, now_ms: int, retention_s: int) -> Update:
    """End an item that has not started: skip, cancel or spend it."""
    return Update(
        TIMERS,
        key.as_item(),
        Is("status", lifecycle.PENDING),
        set=ended(key, lifecycle.after(lifecycle.PENDING, event), reason, now_ms, retention_s),
    )
