"""Single occurrences that somebody has skipped ahead of time, by their nominal instants (F12).

As with a pause the chain stays: the occurrence is recorded as skipped when it comes due, with who and why, and the next
one is materialised (every-end-recorded, chain-unbroken). It is a nominal instant that is skipped, so it holds whatever
the schedule becomes meanwhile, until it is taken back or passed. Refuses to know whether a schedule has that instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tickwork.core.jobs.pauses import REASON_CHARS_MAX, Pause, skipping_at
from tickwork.core.ledger.items import Record

SKIPS_AHEAD_MAX = 20
"""Of a job at a time, those that were taken back included: they stand in its item, which each firing writes. For more
there is the pause."""


@dataclass(frozen=True, slots=True)
class Skip(Record):
    """The occurrence of that nominal instant is skipped, unless somebody has taken that back."""

    at_ms: int
    by: str
    reason: str
    undone_by: str = ""

    @property
    def skip_reason(self) -> str:
        return f"skipped by {self.by}: {self.reason}"[:REASON_CHARS_MAX]


def noted_at(skips: Sequence[Skip], scheduled_at_ms: int) -> Skip | None:
    """What is noted of an instant, also when it was taken back."""
    return next((skip for skip in skips if skip.at_ms == scheduled_at_ms), None)


def skip_at(skips: Sequence[Skip], scheduled_at_ms: int) -> Skip | None:
    """The skip of an instant, if it holds."""
    found = noted_at(skips, scheduled_at_ms)
    return None if found is None or found.undone_by else found


def ahead(skips: Sequence[Skip], passed_ms: int) -> tuple[Skip, ...]:
    """Those of instants that are not passed yet."""
    return tuple(skip for skip in skips if skip.at_ms > passed_ms)


def with_skip(skips: Sequence[Skip], new: Skip, passed_ms: int) -> tuple[Skip, ...]:
    """The skips ahead with a new one, in the place of what was noted of its instant."""
    others = (skip for skip in ahead(skips, passed_ms) if skip.at_ms != new.at_ms)
    return tuple(sorted((*others, new), key=lambda skip: skip.at_ms))


def undone(skips: Sequence[Skip], at_ms: int, by: str, passed_ms: int) -> tuple[Skip, ...]:
    """The skips ahead with that of an instant taken back. It stays, so that a repeat learns who has done it."""
    return tuple(replace(one, undone_by=by) if one.at_ms == at_ms else one for one in ahead(skips, passed_ms))


def left_out_at(pauses: Sequence[Pause], skips: Sequence[Skip], scheduled_at_ms: int) -> Skip | Pause | None:
    """What somebody has said by which an occurrence does not run: its own skip, else the pause for which it is
    skipped."""
    return skip_at(skips, scheduled_at_ms) or skipping_at(pauses, scheduled_at_ms)
