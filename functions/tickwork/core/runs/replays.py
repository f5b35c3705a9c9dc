"""Replaying a dead run: the same run, the next attempt, as a retry item like any other (W6).

Protects no-lost-timer (the run waits and its retry item is written in one transaction, and neither expires) and
one-run (`run_id`, token and attempts go on counting). The ledger is the truth: no message of any queue is needed.
"""

from __future__ import annotations

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.ends import MARK
from tickwork.core.ledger.records import Retry, Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Absent, Is, Item, Put, Update, Write, all_of
from tickwork.core.runs.endings import Verdict, as_read, retry_key

REPLAYS_MAX = 10
"""A run that died this often needs a person to look at it, and its item must stay small enough to write."""

_OF_THE_END = ("reason", "ended_at_ms", "expires_at_s", "interrupted")
"""What a run that is tried again does not carry any more. Its attempts, also interrupted ones, count anew."""
NOT_DEAD, TOO_OFTEN = "not_dead", "replayed_too_often"


def decide_replay(
    run: Run,
    by: str,
    reason: str,
    due_ms: int,
    now_ms: int,
    *,
    guarded: bool,
    definition: int = 0,
    job: tuple[Write, ...] = (),
) -> Verdict | str:
    """The writes that have a dead run wait for another attempt at `due_ms`; else why it cannot be replayed.
    `definition`: the version of its job that it is to run by from now on, when that was asked for; `guarded`: whether
    what it is to do limits its start; `job`: what its job asks for before it has another run."""
    if run.status != lifecycle.DEAD:
        return NOT_DEAD
    if len(run.replays) >= REPLAYS_MAX:
        return TOO_OFTEN
    record: Item = {"by": by, "reason": reason, "at_ms": now_ms, "after_attempt": run.attempt, "died_of": run.reason}
    changes: Item = {"definition": definition} if definition else {}
    changes |= {"guarded": True} if guarded else {}
    record |= {"definition": definition} if definition else {}
    status = lifecycle.after(run.status, lifecycle.REPLAY)
    wait = Update(
        TIMERS,
        run.key.as_item(),
        all_of(as_read(run), Is("ended_at_ms", run.ended_at_ms)),
        set={"status": status, "retry_at_ms": due_ms, **changes},
        remove=(*_OF_THE_END, MARK, *(() if guarded else ("guarded",))),
        append={"replays": [record]},
    )
    retry = Retry(retry_key(run.key, due_ms, run.attempt + 1), run.key.ref, run.attempt + 1)
    return Verdict((wait, Put(TIMERS, retry.to_item(), Absent()), *job), status, retry=retry)


def is_replayed(run: Run) -> bool:
    """Whether the run waits for the attempt that its last replay asked for (our own write, whose reply was lost)."""
    return bool(run.replays) and run.status == lifecycle.WAITING and run.attempt == run.replayed_after


def is_repeat(run: Run, by: str, reason: str) -> bool:
    """Whether somebody asks once more for the replay that the run has had, and that it has not died of since."""
    if not run.replays or run.status == lifecycle.DEAD:
        return False
    return (run.replays[-1]["by"], run.replays[-1]["reason"]) == (by, reason)
