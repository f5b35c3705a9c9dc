"""What is written on a run when it comes to its end, and the mark by which an end that was not good is found.

One spelling for all who end a run: windows, starts, workers' calls, cancellations, the audit. A run that succeeds, or
that is withdrawn before it was due, gets no mark and costs nothing more; what died, expired, was skipped, or was
cancelled when it was due or later is in the sparse index of bad ends, at one write unit (O3).
"""

from __future__ import annotations

from typing import Any

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import kinds, lifecycle
from tickwork.core.ledger.keys import LedgerKey, bad_end_of
from tickwork.core.ledger.tables import BAD_ENDS, TIMERS
from tickwork.core.ledger.writes import Is, Item, Missing, Update, all_of

BAD = (lifecycle.DEAD, lifecycle.EXPIRED, lifecycle.SKIPPED, lifecycle.CANCELLED)
"""The statuses of an end that was not good."""

MARK = BAD_ENDS.partition_key


def ended(key: LedgerKey, status: str, reason: str, now_ms: int, retention_s: int) -> dict[str, Any]:
    """The attributes of a run that ends in this status: its time to live begins here."""
    mark = _mark(key, status, now_ms)
    return {
        "status": status,
        **({"reason": reason} if reason else {}),
        "ended_at_ms": now_ms,
        "expires_at_s": now_ms // SECOND_MS + retention_s,
        **({MARK: mark} if mark else {}),
    }


def _mark(key: LedgerKey, status: str, ended_at_ms: int) -> str:
    """The partition of the index that an end belongs to; '' for one that is in none."""
    withdrawn = status == lifecycle.CANCELLED and ended_at_ms < key.fire_at_ms
    if status not in BAD or withdrawn or kinds.points(key.kind):
        return ""
    return bad_end_of(key.team, status, key.run_id)


def is_unmarked(item: Item) -> bool:
    """Whether an item has ended in a status that is indexed, and is not in the index: withdrawn before it was due, or
    ended by a version that marked dead runs only."""
    return item.get("status") in BAD and MARK not in item


def marking(key: LedgerKey, item: Item) -> Update | None:
    """The write that marks an end which an older version has written; None when it is to have no mark."""
    status, ended_at_ms = str(item.get("status")), item.get("ended_at_ms")
    if not is_unmarked(item) or not isinstance(ended_at_ms, int):
        return None
    mark = _mark(key, status, ended_at_ms)
    same = all_of(Is("status", status), Is("ended_at_ms", ended_at_ms), Missing(MARK))
    return Update(TIMERS, key.as_item(), same, set={MARK: mark}) if mark else None
