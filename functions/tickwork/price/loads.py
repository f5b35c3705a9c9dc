"""What a team asks of the service in a month, and the words it is said in: `5M/month`, `20/second`, `1h`.

Owns the reading of these words. Refuses to know what anything costs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

DAYS: Final = 30
MONTH_S: Final = DAYS * 86_400
_UNITS_S: Final = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "month": MONTH_S}
_TIMES: Final = {"": 1, "k": 1_000, "m": 1_000_000, "b": 1_000_000_000}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)([kmb]?)(?:/(second|minute|hour|day|month))?", re.IGNORECASE | re.ASCII)
_SPAN: Final = re.compile(r"(\d+)\s*(s|m|h|d)", re.ASCII)
_SPAN_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class Settings:
    """What of an environment has a price by itself."""

    shards: int
    slices: int
    alarms: int
    log_one_in: int = 1
    """Of the windows that went well, one in so many has a line in the log."""
    cell_shards: int = 0
    cell_slices: int = 0
    """Of the cells beside its own, together: each of their slices has a window a minute, too."""


ENVIRONMENTS: Final = {
    "dev": Settings(4, 2, 8),
    "staging": Settings(64, 8, 19, 10),
    "prod": Settings(64, 16, 19, 100),
    "large": Settings(1_024, 64, 19, 100),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A month's. `create_batch`, `work_batch`: how many timers a call creates, and how many runs a worker takes and
    reports with one. `history_days`: for so long a run's record is kept."""

    jobs: int = 0
    runs_per_job: float = 0
    timers: float = 0
    create_batch: int = 1
    work_batch: int = 1
    history_days: int = 30
    workers: int = 1
    """Processes that poll their queue all the time."""

    @property
    def occurrences(self) -> float:
        return self.jobs * self.runs_per_job

    @property
    def runs(self) -> float:
        return self.occurrences + self.timers


def per_month(text: str) -> float:
    """How many a month: `5M/month`, `20/second`; a bare number is a month's. ValueError for anything else."""
    found = _RATE.fullmatch(text.strip())
    if not found:
        raise ValueError(f"{text[:40]!r} is no rate: write it as 5M/month, 100k/day or 20/second")
    number, times, unit = found.groups()
    return float(number) * _TIMES[times.lower()] * MONTH_S / _UNITS_S[(unit or "month").lower()]


def runs_per_month(every: str) -> float:
    """How often a job of such a period runs in a month: `1h`, `30m`, `1d`. ValueError for anything else."""
    found = _SPAN.fullmatch(every.strip())
    if not found or not int(found[1]):
        raise ValueError(f"{every[:40]!r} is no period: write it as 30s, 5m, 1h or 1d")
    return MONTH_S / (int(found[1]) * _SPAN_S[found[2]])
