"""What callers asked for, and what was acknowledged to them: the record that checkers judge by.

An acknowledged pause holds, whatever the item says; one that was asked for and not acknowledged may hold or not.
All instants are true time.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

NEVER_MS = 1 << 62


@dataclass(slots=True)
class Ask:
    """One thing that a caller asked for: when first, when it was acknowledged (NEVER_MS: not yet), how long it holds,
    and how often it was tried: an earlier try may take effect long after the answer to a later one."""

    asked_ms: int
    acked_ms: int = NEVER_MS
    until_ms: int = NEVER_MS
    tries: int = 0

    @property
    def is_acked(self) -> bool:
        return self.acked_ms != NEVER_MS

    def may_act_after(self, since_ms: int) -> bool:
        """Whether it may take effect after an instant."""
        return self.asked_ms >= since_ms or self.acked_ms >= since_ms or self.tries > 1


@dataclass(slots=True)
class Told:
    """By job: what was asked about it, each in the order in which it was asked for."""

    creations: dict[str, list[Ask]] = field(default_factory=lambda: defaultdict(list))
    deletions: dict[str, list[Ask]] = field(default_factory=lambda: defaultdict(list))
    changes: dict[str, list[Ask]] = field(default_factory=lambda: defaultdict(list))
    pauses: dict[str, list[Ask]] = field(default_factory=lambda: defaultdict(list))
    resumes: dict[str, list[Ask]] = field(default_factory=lambda: defaultdict(list))
    skips: dict[tuple[str, int], list[Ask]] = field(default_factory=lambda: defaultdict(list))
    unskips: dict[tuple[str, int], list[Ask]] = field(default_factory=lambda: defaultdict(list))
    """By job and nominal time, as cancellations are."""
    cancellations: dict[tuple[str, int], Ask] = field(default_factory=dict)
    """By job and nominal time."""

    def is_surely_paused(self, job_id: str, scheduled_at_ms: int, slack_ms: int) -> bool:
        """Whether an acknowledged pause covers an occurrence, whatever became of what was not acknowledged."""
        if self.deletions[job_id]:
            return False  # one that was made anew has no pauses
        return any(
            pause.acked_ms + slack_ms < scheduled_at_ms < self._sure_end_ms(job_id, pause) - slack_ms
            for pause in self.pauses[job_id]
            if pause.is_acked
        )

    def _sure_end_ms(self, job_id: str, pause: Ask) -> int:
        """Up to when a pause surely holds: whatever was asked for later, or was under way, may have ended it."""
        others = [one for one in self.pauses[job_id] if one is not pause]
        later = [one.asked_ms for one in (*others, *self.resumes[job_id]) if one.may_act_after(pause.asked_ms)]
        return min([pause.until_ms, *later])

    def may_be_paused(self, job_id: str, scheduled_at_ms: int, slack_ms: int) -> bool:
        """Whether any pause that was asked for may cover an occurrence."""
        return any(
            pause.asked_ms - slack_ms <= scheduled_at_ms < pause.until_ms  # an instant that was named, by no clock
            and not self._was_resumed(job_id, pause, scheduled_at_ms, slack_ms)
            for pause in self.pauses[job_id]
        )

    def _was_resumed(self, job_id: str, pause: Ask, scheduled_at_ms: int, slack_ms: int) -> bool:
        if pause.tries > 1:  # another try may have taken effect after the resumption
            return False
        return any(
            pause.acked_ms < resume.asked_ms and resume.acked_ms + slack_ms < scheduled_at_ms
            for resume in self.resumes[job_id]
        )

    def is_surely_deleted(self, job_id: str, scheduled_at_ms: int, slack_ms: int) -> bool:
        """Whether an occurrence lies behind an acknowledged deletion, and nobody has asked for the job since."""
        return any(
            deletion.acked_ms + slack_ms < scheduled_at_ms
            and not any(creation.may_act_after(deletion.asked_ms) for creation in self.creations[job_id])
            for deletion in self.deletions[job_id]
        )

    def is_surely_skipped(self, job_id: str, scheduled_at_ms: int) -> bool:
        """Whether somebody was told that this occurrence is skipped, and nobody has asked to take that back, in a job
        that nobody made anew."""
        at = job_id, scheduled_at_ms
        return any(ask.is_acked for ask in self.skips[at]) and not self.unskips[at] and not self.deletions[job_id]

    def may_be_skipped(self, job_id: str, scheduled_at_ms: int) -> bool:
        """Whether it may have been skipped by somebody: he has asked for it, and was not told after it that it is taken
        back."""
        at = job_id, scheduled_at_ms
        return any(
            not any(undo.is_acked and not skip.may_act_after(undo.asked_ms) for undo in self.unskips[at])
            for skip in self.skips[at]
        )

    def is_surely_cancelled(self, job_id: str, scheduled_at_ms: int) -> bool:
        """Whether somebody was told that this occurrence is cancelled, in a job that nobody made anew."""
        ask = self.cancellations.get((job_id, scheduled_at_ms))
        return ask is not None and ask.is_acked and not self.deletions[job_id]
