"""Pauses of a job: spans of nominal time whose occurrences are skipped, or wait, with who paused it and why (F12).

A paused job keeps its chain: each occurrence in the span is recorded as skipped when it comes due, and the next one is
materialised. So a pause ends by itself at its `until`, and nothing has to be woken up for that (chain-unbroken,
every-end-recorded). It goes by nominal time, so a late scanner decides as a punctual one: what was due before the
pause still runs.

A job's own pause that keeps its occurrences for its end (`parks`) has them fire at that end: one that it covers has
the end as its fire time, wherever that is planned. So what waits is the job's one pending item, further ahead, and
nothing has to remember it. Such a pause always has an end: open ones end after `KEEPS_MAX_MS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.items import Record

PAUSES_KEPT_MAX = 10
"""More than this many between two occurrences of a job, and the oldest is forgotten: what it covered then runs late."""

REASON_CHARS_MAX = 200

KEEPS_MAX_MS = 366 * 86_400 * SECOND_MS
"""How long a job's own pause may keep what it covers: its pending item needs a second to lie in."""

SKIP, LATEST, ALL = "skip", "latest", "all"
"""What becomes of the occurrences that a pause has covered: each is recorded as skipped when it is due; or they wait,
and when the pause is over the newest of each job runs, or all do. What another version names waits as `all`."""


@dataclass(frozen=True, slots=True)
class Pause(Record):
    """Occurrences with from_ms <= nominal time < until_ms are skipped; `until_ms` 0: until somebody resumes the job."""

    by: str
    reason: str
    from_ms: int
    until_ms: int = 0
    resumed_by: str = ""
    at_resume: str = SKIP
    parks: bool = False
    """Of a job's own that was made to keep its occurrences: they fire when it ends. A reader that does not know it
    keeps it, and fires what it plans in the pause: late beats lost."""

    def covers(self, scheduled_at_ms: int) -> bool:
        return self.from_ms <= scheduled_at_ms and (not self.until_ms or scheduled_at_ms < self.until_ms)

    @property
    def skip_reason(self) -> str:
        return f"paused by {self.by}: {self.reason}"[:REASON_CHARS_MAX]


def pause_at(pauses: Sequence[Pause], scheduled_at_ms: int) -> Pause | None:
    """The pause that covers a nominal time; of several the latest."""
    return next((pause for pause in reversed(pauses) if pause.covers(scheduled_at_ms)), None)


def skipping_at(pauses: Sequence[Pause], scheduled_at_ms: int) -> Pause | None:
    """The pause for which an occurrence of a nominal time is skipped."""
    skipping = [pause for pause in pauses if pause.at_resume == SKIP]
    return pause_at(skipping, scheduled_at_ms)


def kept_at(pauses: Sequence[Pause], scheduled_at_ms: int) -> Pause | None:
    """The pause that has kept an occurrence of a nominal time for its end."""
    keeping = [pause for pause in pauses if pause.at_resume != SKIP]
    return pause_at(keeping, scheduled_at_ms)


def not_before_ms(pauses: Sequence[Pause], scheduled_at_ms: int) -> int:
    """Before when an occurrence of a nominal time does not fire: the end, in whole seconds, of a pause that has kept
    it. 0: none has."""
    parking = [pause for pause in pauses if pause.parks]
    pause = pause_at(parking, scheduled_at_ms)
    return -(-pause.until_ms // SECOND_MS) * SECOND_MS if pause is not None else 0


def pause_in_force(pauses: Sequence[Pause], now_ms: int) -> Pause | None:
    """The pause that has not ended. One that begins a little later, by another machine's clock, is in force too."""
    return next((pause for pause in reversed(pauses) if _is_open(pause, now_ms)), None)


def is_last(pauses: Sequence[Pause], by: str, reason: str, until_ms: int) -> bool:
    """Whether the last pause is this very one. One that was resumed has lost its own end, and is never told from a new
    wish: a job that somebody revives later must not run through a pause that was acknowledged."""
    return bool(pauses) and (pauses[-1].by, pauses[-1].reason, pauses[-1].until_ms) == (by, reason, until_ms)


def was_resumed(pauses: Sequence[Pause], by: str, reason: str) -> bool:
    """Whether the last pause had these words, and somebody has ended it before its time."""
    return bool(pauses) and bool(pauses[-1].resumed_by) and (pauses[-1].by, pauses[-1].reason) == (by, reason)


def is_repeat(pauses: Sequence[Pause], by: str, reason: str, until_ms: int) -> bool:
    """Whether the last pause is what somebody asks for once more, when the end that is asked for has passed. One that
    was resumed has lost its own end: it is the same where it had begun before the end that is asked for."""
    if not pauses or (pauses[-1].by, pauses[-1].reason) != (by, reason):
        return False
    last = pauses[-1]
    return last.until_ms == until_ms or bool(last.resumed_by and last.from_ms < until_ms)


def resumed(pauses: Sequence[Pause]) -> Pause | None:
    """The last pause, if somebody ended it before its time."""
    return pauses[-1] if pauses and pauses[-1].resumed_by else None


def is_over(pause: Pause, now_ms: int) -> bool:
    return not _is_open(pause, now_ms)


def with_pause(pauses: Sequence[Pause], new: Pause, passed_ms: int) -> tuple[Pause, ...]:
    """The pauses with a new one, which ends whichever is in force. `passed_ms`: occurrences up to there are settled,
    so pauses that ended before it decide nothing any more."""
    ended = end_pause(pauses, new.from_ms, new.by)
    needed = (pause for pause in ended if pause.until_ms > max(passed_ms, pause.from_ms))
    return (*needed, new)[-PAUSES_KEPT_MAX:]


def end_pause(pauses: Sequence[Pause], now_ms: int, by: str, at_resume: str = "") -> tuple[Pause, ...]:
    """The pauses with whichever is in force ended now. Its span stays: what it covered stays skipped. `at_resume`: what
    becomes of what it has kept, where that is said only now."""
    return tuple(
        replace(pause, until_ms=max(now_ms, pause.from_ms), resumed_by=by, at_resume=at_resume or pause.at_resume)
        if _is_open(pause, now_ms)
        else pause
        for pause in pauses
    )


def is_same(pause: Pause, by: str, reason: str, until_ms: int, at_resume: str) -> bool:
    """Whether a pause is what somebody asks for. One that keeps has an end, also where none was named."""
    was_given = pause.parks and pause.until_ms >= pause.from_ms + KEEPS_MAX_MS
    ends_alike = pause.until_ms == until_ms or (was_given and not until_ms)
    return ends_alike and (pause.by, pause.reason, pause.at_resume) == (by, reason, at_resume)


def may_become(pause: Pause, at_resume: str) -> bool:
    """Whether that may be said at the end of a pause: what was skipped meanwhile stays so."""
    return pause.at_resume != SKIP or at_resume in ("", SKIP)


def _is_open(pause: Pause, now_ms: int) -> bool:
    return not pause.until_ms or pause.until_ms > max(now_ms, pause.from_ms)
