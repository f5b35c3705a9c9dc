"""How a window ends, and which windows are told of in the log: all that were slow, late or out of the ordinary, and one
in so many of the rest.

Owns the names of the ends, and the measure of slow and late. Refuses to know what a line says. Protects: a window that
is not told of hides nothing, for what it dispatched, when and as whom stands on each run's item (decision 134).
"""

from __future__ import annotations

from tickwork.core.ids import stable_hash

SERVED, ALREADY, HELD, EARLY, FENCED, UNSURE, OUT_OF_TIME = (
    "served",
    "already",
    "held",
    "early",
    "fenced",
    "unsure",
    "out_of_time",
)
"""`fenced`: the token was refused, somebody else has the slice. `unsure`: nobody may have it."""

SLOW_MS = 1_000
"""Of a window's whole work. One that has little to send takes some tens of milliseconds."""
LATE_MS = 1_500
"""Of the latest run that it dispatched: the objective for what fires in time."""


def is_told(slice_id: str, token: int, done: int, one_in: int, *, took_ms: int, lag_ms: int, is_ordinary: bool) -> bool:
    """Whether the window of this slice up to the second `done` is told of. The same window answers the same, whoever
    serves it."""
    if not is_ordinary or took_ms >= SLOW_MS or lag_ms >= LATE_MS:
        return True
    return stable_hash(f"{slice_id}|{token}|{done}") % one_in == 0
