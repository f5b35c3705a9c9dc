"""How the schedule engine says no.

Owns: `ScheduleRefused`, a `BadSchedule` with a stable `reason` code and, where there is one, the text to use
instead. Refuses to know: how a refusal is shown. Protects: every refusal names the field and what to change.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from tickwork.core.errors import BadSchedule

WORD_CHARS_MAX = 100

#: Below this a guess is as often wrong as right: `stop` is not `start`.
_LIKENESS = 0.8


class ScheduleRefused(BadSchedule):
    """A schedule that cannot be read, or that can never be due.

    `reason` is a stable code (`reversed_range`, `step_zero`, `never_fires`, ...) for importers and tests;
    `proposal` is the text to put in the field's place, or None when nothing can be guessed.
    """

    def __init__(
        self, reason: str, detail: str, *, field: str | None, remedy: str, proposal: str | None = None
    ) -> None:
        super().__init__(detail, field=field, remedy=remedy)
        self.reason = reason
        self.proposal = proposal


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that `word` was probably meant to be, or None."""
    if len(word) > WORD_CHARS_MAX:  # nobody meant that, and comparing it takes seconds
        return None
    by_folded = {name.casefold(): name for name in known}
    found = get_close_matches(word.casefold(), by_folded, n=1, cutoff=_LIKENESS)
    return by_folded[found[0]] if found else None
