"""How long runs of a job usually take, and from when on one that still goes on is told to its team (R2-O-30).

A worker beats for as long as its process lives, whether its job gets on or hangs, and a lease says nothing of that.
What a team has declared (`max_duration_s`) ends an attempt. Of all others nothing but its owner stops a run; what is
usual is known from those that have succeeded. Nothing is written for it but with what the end of a run writes anyway.
"""

from __future__ import annotations

from typing import Any

from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger import lifecycle

LOOK_AFTER_S = 3_600
"""Nobody is told of a run before this, however quick its job is: a wait for a lock or a slow day is no alarm."""
TIMES_USUAL = 10
"""So many times as long as usual is no slow day any more."""
UNKNOWN_AFTER_S = 86_400
"""Of a timer, and of a job of which no run is known to have succeeded: most jobs take less than a day."""
NOTED_FROM_S = LOOK_AFTER_S // TIMES_USUAL
"""A success that was quicker says nothing new, and does not take the place of one that took its time: a night in which
there was nothing to do makes the next one no longer than usual."""


def noted(started_at_ms: int, ended_at_ms: int) -> dict[str, Any]:
    """What a success leaves on its job of how long it took, beside `last`."""
    took_s = max(0, ended_at_ms - started_at_ms) // SECOND_MS
    return {"usual_s": took_s} if took_s >= NOTED_FROM_S else {}


def usual_s(job: Job) -> int | None:
    """How long its runs usually take, at the most; None: not known."""
    if job.usual_s:
        return job.usual_s
    is_known = job.last is not None and "took_ms" in job.last and job.last["status"] == lifecycle.SUCCEEDED
    return NOTED_FROM_S if is_known else None


def told_after_s(usual: int | None) -> int:
    """From how long on a run is told to its team."""
    return UNKNOWN_AFTER_S if usual is None else max(LOOK_AFTER_S, TIMES_USUAL * usual)
