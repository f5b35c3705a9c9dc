"""What a team holds: timers that are pending and the bytes of their payloads, counted in chunks that items stand for.

Owns the counter and its parts. Refuses to know the store. Protects: what a timer was counted for is written on the
timer, so it is taken back once, by who cancels it or by the audit that reads its second, and nothing is lost with a
process. What a crash has counted and not created is taken back when the week is over in which it would have fired
(decision 142).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tickwork.core.access.teams import Quotas
from tickwork.core.instants import DAY_MS, MINUTE_MS, SECOND_MS
from tickwork.core.ledger.records import Run, Stands
from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.values import WHOLE_MAX
from tickwork.core.ledger.writes import AllOf, AnyOf, Below, Condition, Is, Item, Missing, Update

USED = "@used"
"""Partition of the table `teams`: what each team uses."""
CHUNK = 64
"""Timers that one of them stands for: a unit for so many is 1.6% of a create."""
CHUNK_BYTES = 64 * 1_024
"""Or so many bytes of payloads, whose creation has cost as many units, or more than a hundred times."""
ROOM_PARTS = 32
"""A chunk is no more than such a part of what is left of a quota: the nearer it comes, the nearer it is counted."""
WEEKS_MAX = 26
"""Weeks that are counted apart. What fires later is counted as of no week, so what a crash leaves of it stays."""
WEEK_MS = 7 * DAY_MS
GIVEN_BACK_BEFORE_MS = 4 * MINUTE_MS
"""Who cancels a timer takes back what it is counted for until so long after its time. Then the audit is on its way,
which does so five minutes after it; both would take it back twice."""
SWEPT_AFTER_S = 2 * DAY_MS // SECOND_MS
"""A week is over for its counter two days after its end: the audits of a day later have read it by then."""
LATER = "later"


@dataclass(frozen=True, slots=True)
class Held:
    """What a team holds, as far as it is counted."""

    timers: int = 0
    payload_bytes: int = 0

    def room(self, quotas: Quotas) -> tuple[int | None, int | None]:
        """(timers, bytes) that may still come; None: there is no bound."""
        timers = quotas.pending_timers - self.timers if quotas.pending_timers else None
        size = quotas.payload_bytes - self.payload_bytes if quotas.payload_bytes else None
        return timers, size


@dataclass(frozen=True, slots=True)
class Uncounted:
    """What a process has created since it counted a chunk."""

    timers: int = 0
    payload_bytes: int = 0


def are_set(quotas: Quotas) -> bool:
    return bool(quotas.pending_timers or quotas.payload_bytes)


def used_key(team: str) -> Item:
    return {"cell": USED, "team": team}


def held(item: Item | None) -> Held:
    """What a counter says. A crash may have left it a little below nothing."""
    item = item or {}
    return Held(max(0, number_of(item, "timers")), max(0, number_of(item, "bytes")))


def number_of(item: Item, name: str) -> int:
    """A part of a counter: nothing where nothing that is a number stands."""
    found = item.get(name, 0)
    return found if found.__class__ is int else 0


# --- creating ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """Of a call's timers the first `len(stands)` may be created, each standing for what it is counted for, or for
    nothing. `full`: the quota that keeps the others out."""

    stands: tuple[Stands | None, ...]
    uncounted: Uncounted
    full: str = ""


def plan(quotas: Quotas, known: Held, before: Uncounted, sizes: Sequence[tuple[int, int]], now_ms: int) -> Plan:
    """What becomes of timers of (payload bytes, fire time): how many there is room for, and which are counted."""
    stands: list[Stands | None] = []
    timers, size = before.timers, before.payload_bytes
    room, room_bytes = _less(known.room(quotas), timers, size)
    chunk, chunk_bytes = _chunk(room, CHUNK), _chunk(room_bytes, CHUNK_BYTES)
    for payload_bytes, fire_at_ms in sizes:
        if full := _full(room, room_bytes, payload_bytes):
            return Plan(tuple(stands), Uncounted(timers, size), full)
        timers, size = timers + 1, size + payload_bytes
        room, room_bytes = _less((room, room_bytes), 1, payload_bytes)
        if timers < chunk and size < chunk_bytes:
            stands.append(None)
            continue
        stands.append(Stands(timers, size, week_of(fire_at_ms, now_ms)))
        timers = size = 0
    return Plan(tuple(stands), Uncounted(timers, size))


def _less(room: tuple[int | None, int | None], timers: int, size: int) -> tuple[int | None, int | None]:
    return None if room[0] is None else room[0] - timers, None if room[1] is None else room[1] - size


def _chunk(room: int | None, most: int) -> int:
    return most if room is None else min(max(1, room // ROOM_PARTS), most)


def _full(room: int | None, room_bytes: int | None, payload_bytes: int) -> str:
    if room is not None and room < 1:
        return "pending_timers"
    return "payload_bytes" if room_bytes is not None and room_bytes < max(1, payload_bytes) else ""


def week_of(fire_at_ms: int, now_ms: int) -> str:
    """The part of the counter that a timer is counted in."""
    week = fire_at_ms // WEEK_MS
    return LATER if week - now_ms // WEEK_MS > WEEKS_MAX else f"{week:05d}"


def _names(week: str) -> tuple[str, str]:
    return f"timers_{week}", f"bytes_{week}"


def counting(team: str, quotas: Quotas, stands: Iterable[Stands | None]) -> Update | None:
    """The write that counts what is about to be created, where there is room for it; None: nothing is counted now."""
    add = _sums(stands)
    if not add:
        return None
    conditions: list[Condition] = []
    for name, bound in (("timers", quotas.pending_timers), ("bytes", quotas.payload_bytes)):
        if bound:
            conditions.append(AnyOf((Missing(name), Below(name, bound - add.get(name, 0) + 1))))
    return Update(TEAMS, used_key(team), AllOf(tuple(conditions)), add=add)


def taking_back(team: str, stands: Iterable[Stands | None]) -> Update | None:
    """The write that takes back what is pending no more, or was not created after all."""
    add = {name: -number for name, number in _sums(stands).items()}
    is_there = Below("timers", WHOLE_MAX)
    return Update(TEAMS, used_key(team), is_there, add=add) if add else None


def giving_back(run: Run, now_ms: int) -> tuple[Update, Update] | None:
    """The transaction that takes back what a timer was counted for which somebody has cancelled: once, whoever repeats
    it. None where there is nothing, or where the audit does it."""
    if run.stands_for is None or run.key.fire_at_ms + GIVEN_BACK_BEFORE_MS <= now_ms:
        return None
    less = taking_back(run.key.team, [run.stands_for])
    unmoved = Is("stands_for", run.stands_for.as_text())
    return None if less is None else (Update(TIMERS, run.key.as_item(), unmoved, remove=("stands_for",)), less)


def _sums(stands: Iterable[Stands | None]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for one in stands:
        if one is not None:
            timers, size = _names(one.week)
            sums.update({"timers": one.timers, timers: one.timers, "bytes": one.bytes, size: one.bytes})
    return {name: number for name, number in sums.items() if number}


# --- weeks that are over ----------------------------------------------------------------------------------------

_WEEK = re.compile(r"timers_(\d{5})")


def over(item: Item, audited_s: int) -> Iterator[str]:
    """The weeks of a counter of which nothing is pending any more: all audits have passed them."""
    for name in item:
        found = _WEEK.fullmatch(name)
        if found and (int(found[1]) + 1) * WEEK_MS // SECOND_MS + SWEPT_AFTER_S <= audited_s:
            yield found[1]


def sweeping(item: Item, week: str) -> Update:
    """Take back what is left of a week: what was counted for a timer that a crash has kept from being created."""
    timers, size = _names(week)
    left, left_bytes = number_of(item, timers), number_of(item, size)
    unmoved = Is(size, left_bytes) if size in item else Missing(size)
    add = {name: -number for name, number in (("timers", left), ("bytes", left_bytes)) if number}
    key = {"cell": item["cell"], "team": item["team"]}
    return Update(TEAMS, key, AllOf((Is(timers, left), unmoved)), remove=(timers, size), add=add)
