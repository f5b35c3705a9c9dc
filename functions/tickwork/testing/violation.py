"""What a checker raises: the name of the invariant of design section 4, and what was seen."""

from __future__ import annotations


class Violation(Exception):
    """An invariant does not hold in this history."""

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what
