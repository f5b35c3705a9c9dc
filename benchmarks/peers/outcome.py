"""What came of a load, by its effects."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.peers.load import Load
from benchmarks.percentiles import percentile


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a load: timers that have not run, runs beyond the first, and how late each first run was."""

    lost: int
    doubled: int
    lags_ms: list[int]

    def lag_s(self, percent: int) -> float:
        """Not a number when nothing has run."""
        return percentile(self.lags_ms, percent) / 1_000 if self.lags_ms else math.nan


def outcome(load: Load, effects: Iterable[str]) -> Outcome:
    """`effects`: lines of timer, due and ran, in milliseconds; those of other loads are left out."""
    due, runs, lags_ms = dict(load.timers()), Counter[str](), list[int]()
    for line in effects:
        timer, _, ran_ms = line.split()
        if timer in due:
            runs[timer] += 1
            if runs[timer] == 1:
                lags_ms.append(int(ran_ms) - due[timer])
    return Outcome(len(due) - len(runs), runs.total() - len(runs), lags_ms)
