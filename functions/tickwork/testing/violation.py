"""What a checker raises: the name of the invariant of design section 4, and what was seen."""

from __future__ import annotations


class Violation(BaseException):
    """An invariant does not hold in this history. No `except Exception` of the code under test may swallow it: what
    isolates one entry of a batch from the others would take it for a fault of that entry."""

    ends_process = True

    def __init__(self, invariant: str, what: str) -> None:
        super().__init__(f"{invariant}: {what}")
        self.invariant = invariant
        self.what = what
