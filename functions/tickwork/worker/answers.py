"""What the platform's answers mean, beyond yes and no, to whoever reports, beats or hands back.

Owns the reasons and statuses that a worker goes by. Protects that a lease is given up, and an outcome left untold, only
where the platform has said that the run is another's: never for an answer that says nothing of the run.
"""

from __future__ import annotations

from typing import Any, cast

from tickwork.client import ApiUnreachable

UNDECIDED = frozenset({"busy", "contended", "unreadable"})
"""Reasons of a platform that could not look, or could not write: it may be asked again. What one instance cannot read,
one of another version can, and in a deployment both answer."""
INVALID = "invalid"
"""The reason given for one entry that cannot be read, where others can be."""
OF_THE_ENTRY = frozenset({400, 413, 422})
"""Refusals of what is said, not of who says it: another way of saying it may pass."""
UNKNOWN_CALL = frozenset({404, 405})
"""Refusals of an older platform, which does not know the call."""


def entries_of(answer: object, count: int | None = None) -> list[dict[str, Any]]:
    """What was answered to the runs of a call, one by one. ApiUnreachable where it is no such thing (a proxy's words,
    half an object): nobody knows what the call has done."""
    runs = answer.get("runs") if isinstance(answer, dict) else None
    is_whole = isinstance(runs, list) and count in (None, len(runs)) and all(isinstance(one, dict) for one in runs)
    if not is_whole:
        raise ApiUnreachable("what was answered is no answer to each run")
    return cast("list[dict[str, Any]]", runs)
