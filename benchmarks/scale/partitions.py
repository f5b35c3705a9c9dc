"""The partitions of all tables, each held to its units a second, and what was taken from each.

A call is let in while each partition it touches has something left of this second, and may then take more than that
was: so does DynamoDB, which knows what a call took when it is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.meter.places import Place
from benchmarks.scale.figures import Limits
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import BAD_ENDS, TIMERS

BAD_ENDS_INDEX = f"{TIMERS.name}.{BAD_ENDS.name}"


@dataclass(slots=True)
class Used:
    """Of one partition: units of the second now running, and the most that any second has seen."""

    second: int = 0
    writes: float = 0
    reads: float = 0
    writes_peak: float = 0
    reads_peak: float = 0
    throttled: int = 0

    def at(self, second: int) -> Used:
        if second != self.second:
            self.second, self.writes, self.reads = second, 0, 0
        return self


@dataclass(frozen=True, slots=True)
class Hot:
    """A partition and its busiest second. `share` of its limit; over 1 by what the last call let in took."""

    place: Place
    kind: str
    units: float
    share: float
    throttled: int


class Partitions:
    """`tables` holds units by (table, kind, second)."""

    def __init__(self, limits: Limits, share: float = 1) -> None:
        self._limits = limits
        self._share = share
        """Of the slices that are simulated: what all slices write to has so much of its limit for them."""
        self.used: dict[Place, Used] = {}
        self.tables: Counter[tuple[str, str, int]] = Counter()
        self.throttled = 0

    def lets_write(self, places: Iterable[Place], now_ms: int) -> bool:
        full = [place for place in places if self._now(place, now_ms).writes >= self._write_limit(place)]
        return self._lets(full)

    def lets_read(self, places: Iterable[Place], now_ms: int) -> bool:
        full = [place for place in places if self._now(place, now_ms).reads >= self._limits.read_units]
        return self._lets(full)

    def _lets(self, full: list[Place]) -> bool:
        for place in full:
            self.used[place].throttled += 1
        self.throttled += bool(full)
        return not full

    def _write_limit(self, place: Place) -> float:
        return self._limits.write_units * (self._share if place[0] == BAD_ENDS_INDEX else 1)

    def write(self, place: Place, units: float, now_ms: int) -> None:
        used = self._now(place, now_ms)
        used.writes += units
        used.writes_peak = max(used.writes_peak, used.writes)
        self.tables[place[0], "write", used.second] += units  # type: ignore[assignment]

    def read(self, place: Place, units: float, now_ms: int) -> None:
        used = self._now(place, now_ms)
        used.reads += units
        used.reads_peak = max(used.reads_peak, used.reads)
        self.tables[place[0], "read", used.second] += units  # type: ignore[assignment]

    def _now(self, place: Place, now_ms: int) -> Used:
        used = self.used.get(place)
        if used is None:
            used = self.used[place] = Used()
        return used.at(now_ms // SECOND_MS)

    def hottest(self, count: int, table: str = "") -> list[Hot]:
        """The partitions that came nearest to their limits; of one table or index."""
        limits = self._limits
        found = [
            Hot(place, kind, peak, peak / limit, used.throttled)
            for place, used in self.used.items()
            if table in ("", place[0])
            for kind, peak, limit in (
                ("write", used.writes_peak, self._write_limit(place)),
                ("read", used.reads_peak, limits.read_units),
            )
        ]
        return sorted(found, key=lambda hot: (-hot.share, hot.place))[:count]

    def table_peak(self, kind: str) -> tuple[str, float]:
        """The table or index with the busiest second, and its units."""
        peaks: dict[str, float] = {}
        for (table, of_kind, _), units in self.tables.items():
            if of_kind == kind:
                peaks[table] = max(peaks.get(table, 0), units)
        return max(peaks.items(), key=lambda peak: peak[1], default=("", 0))
