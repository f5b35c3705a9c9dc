"""The deadline of a first start: a run that says by when (`start_within_s`) is not started later, and ends instead.

It is set on the item at its birth, and asked in the condition of the start itself: no read and no write more, and no
message can be late without its being seen. Late beats lost for every run that says nothing. Owns the deadline, and what
ends a run that nobody has started. A run that was started once has met its deadline, whatever becomes of the attempt.
"""

from __future__ import annotations

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.ends import ended
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import AtLeast, Condition, Is, Missing, Update, all_of, any_of

START_WITHIN_S_MAX = 13 * 86_400 - 1
"""A run that nobody has started for thirteen days has expired anyway."""

GRACE_MS = 2_000
"""So far clocks may differ. Who ends runs that nobody starts waits for it: a start that is in time by its own is not to
find the run ended."""


def start_by_ms(key: LedgerKey, work: Work) -> int:
    """Until when a run of this work has to be started; 0: late beats lost. Counted from its fire time: nothing starts
    before that, however far its jitter is from the nominal one."""
    return key.fire_at_ms + work.start_within_s * SECOND_MS if work.start_within_s else 0


def in_time(now_ms: int) -> Condition:
    """The run has no deadline, or it has not passed."""
    return any_of(Missing("start_by_ms"), AtLeast("start_by_ms", now_ms))


def is_too_late(run: Run, now_ms: int) -> bool:
    """Whether a run that has not been started may not be any more."""
    return bool(run.start_by_ms) and run.start_by_ms < now_ms and not run.attempt and not run.ended


def why_too_late(run: Run) -> str:
    return f"not started within {run.start_within_s} s of its time (start_within_s)"


def look_again_s(run: Run, now_ms: int) -> int:
    """When to look again at a run that nobody has started: the second after its deadline; 0: that has passed, or there
    is none."""
    ends_at_ms = run.start_by_ms + GRACE_MS
    waits = run.start_by_ms and not run.attempt and not run.ended
    return ends_at_ms // SECOND_MS + 1 if waits and ends_at_ms >= now_ms else 0


def expire(run: Run, reason: str, now_ms: int, retention_s: int) -> Update:
    """End a run that nobody has started, should that still be so (every-end-recorded)."""
    changes = ended(run.key, lifecycle.after(run.status, lifecycle.EXPIRE), reason, now_ms, retention_s)
    unstarted = all_of(Is("status", run.status), Missing("attempt"))
    return Update(TIMERS, run.key.as_item(), unstarted, set=changes)
