"""Who was late while a part was broken, against the stretch before it, with the same other faults and kills.

Owns the figures and the verdict that whoever the part does not touch was on time. Refuses to know what is broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from tickwork.core.ledger.records import Run

LATER_MS_MAX: Final = 2_000
"""What a broken part may cost those that it does not touch."""
JUDGED_MIN: Final = 100
"""Runs in each stretch, or a quantile says nothing."""
_PARTS: Final = {"median": 0.5, "19 of 20": 0.95, "99 of 100": 0.99}


@dataclass(slots=True)
class Lags:
    """Of some runs that were due in one stretch: when each was sent, and when it first ran, after it was due."""

    sent: list[int] = field(default_factory=list)
    """Of those whose first attempt is still the one on record; a repeated one was sent again for another reason."""
    started: list[int] = field(default_factory=list)
    never: int = 0

    def add(self, run: Run) -> None:
        began_ms = int(run.attempts[0]["started_at_ms"]) if run.attempts else run.started_at_ms
        if not began_ms:
            self.never += run.status != "cancelled"
            return
        self.started.append(max(0, began_ms - due_ms(run)))
        if run.attempt == 1 and run.dispatched_at_ms:
            self.sent.append(max(0, run.dispatched_at_ms - due_ms(run)))

    def shown(self) -> str:
        sent, started = ("  ".join(f"{of(lags, part) / 1000:.1f}" for part in _PARTS.values()) for lags in self._both())
        most = [max(lags, default=0) / 1000 for lags in self._both()]
        return (
            f"{len(self.started):6} runs, {self.never} never;  sent {sent}  at most {most[0]:.1f};"
            f"  started {started}  at most {most[1]:.1f}"
        )

    def _both(self) -> tuple[list[int], list[int]]:
        return self.sent, self.started


def due_ms(run: Run) -> int:
    """When a run could be sent at the earliest: one that was asked for late is due when it is there."""
    return max(run.key.fire_at_ms, run.created_at_ms if not run.is_recurring else 0)


def of(lags: Iterable[int], part: float) -> int:
    """The quantile: of a hundred, `part` are at most this late."""
    ordered = sorted(lags)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0


def gather(runs: Iterable[Run], from_ms: int, until_ms: int) -> Lags:
    lags = Lags()
    for run in runs:
        if from_ms <= due_ms(run) < until_ms:
            lags.add(run)
    return lags


def on_time(before: Lags, meanwhile: Lags) -> list[str]:
    """What was later than it may be. By when they were sent: to start they wait for workers, which are killed."""
    found = [f"only {len(one.sent)} runs to judge by" for one in (before, meanwhile) if len(one.sent) < JUDGED_MIN]
    if meanwhile.never:
        found.append(f"{meanwhile.never} never started")
    for name, part in _PARTS.items():
        was_ms, is_ms = of(before.sent, part), of(meanwhile.sent, part)
        if is_ms > was_ms + LATER_MS_MAX:
            found.append(f"{name} within {is_ms / 1000:.1f} s, {was_ms / 1000:.1f} s before")
    return found
