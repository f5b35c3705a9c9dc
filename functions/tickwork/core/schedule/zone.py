"""Time zones: which offset is in force when, from pinned data.

Owns: loading a zone from the `tzdata` package (never from the operating system, whose data has another age on
every machine) and cutting its time line into segments of constant offset.
Refuses to know: schedules. Reads no clock; the zone files are package data, an input fixed at build time.
Protects: the same spec means the same instants on every machine that has the same `TZDATA_VERSION`.

Offsets come from `zoneinfo`. A change of offset is found by probing every `PROBE_S` and then by bisection. In the
pinned data no two changes of one zone are closer than 6.9 days (a test reads all the files to assert that they stay
further apart than `PROBE_S`), so a probe cannot step over a pair of changes. After the last change that a file lists
there is only a rule for each year, whose changes are months apart: `FAR_PROBE_S` will do.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from importlib import resources
from io import BytesIO
from struct import unpack
from typing import Final
from zoneinfo import ZoneInfo

import tzdata

from tickwork.core.schedule.limits import DAY_S, FIRST_S, LAST_S, SLACK_S
from tickwork.core.schedule.refusal import ScheduleRefused, closest

#: The IANA release in use, such as "2026f". Stored with pending occurrences; a new value triggers a re-plan.
TZDATA_VERSION: Final[str] = tzdata.IANA_VERSION

PROBE_S: Final = 3 * DAY_S

FAR_PROBE_S: Final = 30 * DAY_S

#: A chunk of the time line is 2**25 s (388 days): one or two cover what a search normally needs.
_CHUNK_BITS: Final = 25

#: Names in the data that stand for no place.
_NO_PLACE: Final = frozenset({"Factory"})

#: What people write for the zones that have no such name.
_NICKNAMES: Final = {
    "pst": "America/Los_Angeles", "pdt": "America/Los_Angeles", "pt": "America/Los_Angeles",
    "mdt": "America/Denver", "cst": "America/Chicago", "cdt": "America/Chicago",
    "edt": "America/New_York", "et": "America/New_York", "bst": "Europe/London",
    "cest": "Europe/Berlin", "ist": "Asia/Kolkata", "jst": "Asia/Tokyo", "kst": "Asia/Seoul",
    "aest": "Australia/Sydney", "aedt": "Australia/Sydney", "sgt": "Asia/Singapore",
    "hkt": "Asia/Hong_Kong", "nzst": "Pacific/Auckland", "nzdt": "Pacific/Auckland",
    "brt": "America/Sao_Paulo", "msk": "Europe/Moscow", "utc0": "UTC",
    "z": "UTC", "local": "UTC", "localtime": "UTC",
    # Cities that have no zone of their own, and names of Windows.
    "beijing": "Asia/Shanghai", "bombay": "Asia/Kolkata", "san_francisco": "America/Los_Angeles",
    "munich": "Europe/Berlin",
    "pacific_standard_time": "America/Los_Angeles", "mountain_standard_time": "America/Denver",
    "central_standard_time": "America/Chicago", "eastern_standard_time": "America/New_York",
    "gmt_standard_time": "Europe/London", "w._europe_standard_time": "Europe/Berlin",
    "romance_standard_time": "Europe/Paris", "india_standard_time": "Asia/Kolkata",
    "china_standard_time": "Asia/Shanghai", "tokyo_standard_time": "Asia/Tokyo",
    "aus_eastern_standard_time": "Australia/Sydney",
}  # fmt: skip


#: `UTC+2`, `GMT-05:00`, `+0530`, `-5`.
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of time with one offset: instants `start_s <= t < end_s`, local second = t + `offset_s`.

    `before_s` and `after_s` are the offsets in force just before and just after. They equal `offset_s` where
    the stretch was cut for storage and the clocks do not change.
    """

    start_s: int
    end_s: int
    offset_s: int
    before_s: int
    after_s: int


class Zone:
    """One zone's time line. Get it from `zone_named`; equal names are the same object.

    Holds a cache of segments: filling it twice from two threads gives the same content.
    """

    __slots__ = ("_chunks", "_info", "_last", "_listed_until_s", "key")

    def __init__(self, key: str, content: bytes) -> None:
        self.key = key
        self._info = ZoneInfo.from_file(BytesIO(content), key=key)
        self._listed_until_s = _last_listed_change(content)
        self._chunks: dict[int, tuple[list[int], list[Segment]]] = {}
        self._last = Segment(0, 0, 0, 0, 0)

    def __repr__(self) -> str:
        return f"Zone({self.key!r})"

    def segment_at(self, instant_s: int) -> Segment:
        """The segment that holds `instant_s`, which must lie in `FIRST_S`..`LAST_S`."""
        last = self._last
        if last.start_s <= instant_s < last.end_s:
            return last
        chunk = self._chunks.get(instant_s >> _CHUNK_BITS)
        if chunk is None:
            chunk = self._build_chunk(instant_s >> _CHUNK_BITS)
        starts, segments = chunk
        self._last = found = segments[bisect_right(starts, instant_s) - 1]
        return found

    def offset_at(self, instant_s: int) -> int:
        """Seconds to add to UTC to get local time at `instant_s`."""
        return self.segment_at(instant_s).offset_s

    def _probe(self, instant_s: int) -> int:
        instant_s = min(max(instant_s, FIRST_S), LAST_S)
        offset = datetime.fromtimestamp(instant_s, self._info).utcoffset()
        assert offset is not None
        return offset.days * DAY_S + offset.seconds

    def _build_chunk(self, number: int) -> tuple[list[int], list[Segment]]:
        # The margin of SLACK_S on both sides keeps a repeated or skipped hour whole when it lies on the
        # border of two chunks: both know the change.
        low = (number << _CHUNK_BITS) - SLACK_S
        high = ((number + 1) << _CHUNK_BITS) + SLACK_S
        marks = self._changes(low, high)
        segments = [
            Segment(start, marks[i + 1][0] if i + 1 < len(marks) else high, offset,
                    marks[i - 1][1] if i else offset, marks[i + 1][1] if i + 1 < len(marks) else offset)
            for i, (start, offset) in enumerate(marks)
        ]  # fmt: skip
        chunk = ([segment.start_s for segment in segments], segments)
        self._chunks[number] = chunk
        return chunk

    def _changes(self, low: int, high: int) -> list[tuple[int, int]]:
        """(first instant, offset) of each stretch in low..high, the first one starting at `low`."""
        offset = self._probe(low)
        marks = [(low, offset)]
        known = low
        step = PROBE_S if low <= self._listed_until_s else FAR_PROBE_S
        for probe in range(low + step, high + step, step):
            at = min(probe, high - 1)
            if self._probe(at) != offset:
                start = self._bisect(known, at, offset)
                offset = self._probe(start)
                marks.append((start, offset))
            known = at
        return marks

    def _bisect(self, low: int, high: int, offset: int) -> int:
        """The first instant in low..high whose offset is another than `offset` (which holds at `low`)."""
        while high - low > 1:
            middle = (low + high) // 2
            if self._probe(middle) == offset:
                low = middle
            else:
                high = middle
        return high


@lru_cache(maxsize=1)
def zone_names() -> frozenset[str]:
    """Every zone name that a schedule may use (IANA names and their old aliases)."""
    listed = resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
    return frozenset(listed) - _NO_PLACE


@lru_cache(maxsize=1024)
def zone_named(key: str, field: str = "zone") -> Zone:
    """The zone called `key`. Raises `ScheduleRefused` with a suggestion when there is none.

    Only listed names are looked up, so no text of a caller ever becomes a path.
    """
    if key not in zone_names():
        raise unknown_zone(key, field)
    return Zone(key, resources.files("tzdata").joinpath("zoneinfo", *key.split("/")).read_bytes())


def _last_listed_change(content: bytes) -> int:
    """The last instant in the table of a zone file (RFC 9636); that of the first block when there is none."""
    isut, isstd, leap, times, types, chars = unpack(">20x6l", content[:44])
    # The second block, with 64-bit times, follows the first.
    content = content[44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut :]
    times = unpack(">32x1l", content[:36])[0]
    return unpack(">q", content[36 + 8 * times : 44 + 8 * times])[0] if times else FIRST_S


def unknown_zone(key: str, field: str) -> ScheduleRefused:
    """The refusal of a name that is none, with the name that was probably meant."""
    offset = _OFFSET.fullmatch(key.strip())
    if offset is not None:
        return _fixed_offset(key, field, offset)
    guess = _suggest(key)
    remedy = f"did you mean {guess}?" if guess else "use an IANA name such as Europe/Berlin or UTC"
    return ScheduleRefused("unknown_zone", f"{key!r} is no time zone", field=field, remedy=remedy, proposal=guess)


def _fixed_offset(key: str, field: str, offset: re.Match[str]) -> ScheduleRefused:
    """The sign of `Etc/GMT-2` counts the other way round, so what looks nearest to `GMT+2` is four hours off."""
    sign, hours = offset[1], int(offset[2])
    guess: str | None = "UTC"
    if hours or int(offset[3] or 0):
        guess = f"Etc/GMT{'-' if sign == '+' else '+'}{hours}"
        if int(offset[3] or 0) or guess not in zone_names():
            guess = None
    meant = f"did you mean {guess}, which is UTC{sign}{hours}?" if guess else "use an IANA name such as Asia/Kolkata"
    return ScheduleRefused(
        "unknown_zone", f"{key!r} is an offset and no time zone", field=field, proposal=guess,
        remedy=f"{meant} A fixed offset knows no daylight saving; a place such as Europe/Berlin does",
    )  # fmt: skip


def _suggest(key: str) -> str | None:
    wanted = "_".join(key.strip().split())
    city = wanted.rsplit("/", 1)[-1]
    for text in (wanted, city):
        if text.casefold() in _NICKNAMES:
            return _NICKNAMES[text.casefold()]
    names = zone_names()
    cities = {name.rsplit("/", 1)[-1]: name for name in sorted(names)}
    by_city = {name.casefold(): full for name, full in cities.items()}
    if city.casefold() in by_city and "/" not in wanted:
        return by_city[city.casefold()]
    whole = closest(wanted, names)
    if whole is not None and closest(city, (whole.rsplit("/", 1)[-1],)):
        return whole  # a long common beginning such as America/ is no likeness
    guess = closest(city, cities)
    return cities[guess] if guess else None
