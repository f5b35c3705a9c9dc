"""Set-aside rows: what a slice has passed and could not serve, because something outside the slice fails.

What fails for one pool, shard or job costs that one only: its timers wait in a row beside the lease, and the cursor
goes on. Protects cursor-honest: a pending item is ahead of `done`, in the backlog, in a row, or it was sent. A row is
written in one transaction with the advance that passes what it covers, and only then; it is deleted, on condition
that it is as it was read, when what it covers was served. docs/lease-protocol.md goes through the crashes.

A row covers the seconds `begin` to `until` of its slice, without what lies at or before `place` (core/backlog). Rows
of pool and job are read filtered: what else lies in those seconds has been served by others.

The row of a team waits for nobody: it is what the team had due beyond its part of a window (core/sharing). It is served
second by second, up to `at`, so that what the team has due later may be added behind what is served already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tickwork.core.dispatch.backlog import minute_of, place, place_of
from tickwork.core.jobs import scopes
from tickwork.core.jobs.scopes import Scope, parse_scope
from tickwork.core.ledger.items import Record, Spelling, spelled
from tickwork.core.ledger.keys import LedgerKey, bucket_of, parse_who, second_in, who_key
from tickwork.core.ledger.tables import SET_ASIDE
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import Absent, AllOf, Delete, Is, Item, Put, Write, all_of

POOL, SHARD, JOB, JOBS, ALL, TEAM, PAUSE = "pool", "shard", "job", "jobs", "all", "team", "pause"

ROWS_MAX = 64
"""Rows of a slice. Beyond it one row, of all, takes what fails: they go into one transaction with an advance, and are
read in each window as long as there are any."""

FIRST_TRY_S = 1
NEXT_TRY_S_MAX = {POOL: 30, SHARD: 30, JOB: 300, JOBS: 30, ALL: 30}
"""The distance between tries doubles from a second up to this. What a whole pool waits for is tried often; a definition
that cannot be read is mended by people, and the reconciler looks at it every five minutes too."""

PAUSE_LOOK_S = 3_600
"""What waits for the end of a pause is served by the first window that finds it ended, and else tried this often."""


@dataclass(frozen=True, slots=True, order=True)
class Who:
    """Whom a row waits for: the queue of a pool, the reads of a shard, the definition of a job, the definitions of all
    jobs (their table cannot be read), the end of a pause (of the scope so named), or all of these. Or whose it is: a
    team's."""

    kind: str
    name: str = ""

    @property
    def key(self) -> str:
        return who_key(self.kind, self.name)


EVERYBODY = Who(ALL)
ALL_JOBS = Who(JOBS)


def pool(name: str) -> Who:
    return Who(POOL, name)


def shard(number: int) -> Who:
    return Who(SHARD, f"{number:04d}")


def job(job_id: str) -> Who:
    return Who(JOB, job_id)


def team(name: str) -> Who:
    return Who(TEAM, name)


def pause(scope: Scope) -> Who:
    return Who(PAUSE, scope.key)


def scope_of(who: Who) -> Scope | None:
    """What is paused that a row waits for; None: it waits for something else."""
    return parse_scope(who.name) if who.kind == PAUSE else None


def pool_of(who: Who) -> str:
    """The pool whose items alone a row is about; empty: of all."""
    if (scope := scope_of(who)) is not None:
        return scope.name if scope.kind == scopes.POOL else ""
    return who.name if who.kind == POOL else ""


@dataclass(frozen=True, slots=True)
class Extent:
    """What is left unserved: the seconds it lies in, and a place that it lies beyond; of a team's, also `at`, an
    instant (`in_time`) that it lies beyond."""

    begin: int
    until: int
    place: str
    at: str = ""

    def hull(self, other: Extent) -> Extent:
        begin, until = min(self.begin, other.begin), max(self.until, other.until)
        return Extent(begin, until, min(self.place, other.place), min(self.at, other.at))

    def reaching(self, until: int, *, moving: bool) -> Extent:
        """It, up to a second; `moving`: shards are re-numbered, and a next occurrence may lie in one before it."""
        return replace(self, until=max(self.until, until), place=minute_of(self.place) if moving else self.place)


def extent_of(key: LedgerKey) -> Extent:
    """Of one item. A place without its last character lies just before it, and next to nothing between the two."""
    return Extent(key.fire_second, key.fire_second, place(key)[:-1])


def extent_of_team(key: LedgerKey) -> Extent:
    """Of one item that is left to its team: by minutes from the beginning of its own, by seconds from just before."""
    return Extent(key.fire_second, key.fire_second, minute_of(place(key)), in_time(key)[:-1])


def extent_behind(number: int, sk: str) -> Extent:
    """Of what is left to a team in a second of a shard behind a sort key."""
    second = second_in(sk)
    return Extent(second, second, place_of(bucket_of(second), 0, ""), in_time_of(second, number, sk))


def in_time(key: LedgerKey) -> str:
    """Where an item lies in the order of a team's row."""
    return in_time_of(key.fire_second, key.shard, key.sk)


def in_time_of(second: int, number: int, sk: str) -> str:
    """An instant in the order of a team's row: second, shard, sort key."""
    return f"{second:010d}#{number:04d}#{sk}"


def parse_in_time(text: str) -> tuple[int, int, str]:
    """(second, shard, sort key) of an instant."""
    return int((parts := text.split("#", 2))[0]), int(parts[1]), parts[2]


def extent_of_range(number: int, first: int, last: int) -> Extent:
    """Of some seconds of a minute of a shard."""
    return Extent(first, last, place_of(bucket_of(first), number, ""))


_INSTANT = re.compile(r"(\d{10}#\d{4}#.*)?", re.ASCII)


def _instant(value: str) -> str:
    if not _INSTANT.fullmatch(value):
        raise ValueError(f"{value[:40]!r} is no instant of a team's row")
    return value


_BY_KEY = Spelling(("who",), lambda who: {"who": who.key}, lambda item: Who(*parse_who(item["who"])), is_required=True)


@dataclass(frozen=True, slots=True)
class SetAside(Record):
    """A row. `tries` that failed since it was last served in part: while there are any, it is left in peace until
    `next_try_s`, and so is whom it waits for."""

    WHOLE: ClassVar[bool] = True

    slice: str
    who: Who = field(metadata=spelled(_BY_KEY))
    begin: int
    until: int
    place: str
    next_try_s: int = field(metadata={"read": whole})
    tries: int = 0
    at: str = field(default="", metadata={"added": True, "read": _instant})
    """Of a team's: the instant up to which it was served. A version that does not know it goes by `place`, the
    beginning of its first minute, and serves what else lies in its seconds with it: some is sent twice."""

    def covers(self, key: LedgerKey, pool: str = "", group: str | None = None) -> bool:
        """Whether an item lies in what the row has still to serve. `pool` is its own, where its item says it; so is
        `group` (None: it does not)."""
        if self.who.kind == TEAM:
            is_within = key.team == self.who.name and self.begin <= key.fire_second <= self.until
            return is_within and in_time(key) > self.at
        if pool_of(self.who) and pool not in ("", pool_of(self.who)):
            return False
        scope = scope_of(self.who)
        if scope is not None and scope.kind in (scopes.TEAM, scopes.GROUP) and scope.owner != key.team:
            return False
        if scope is not None and scope.kind == scopes.GROUP and group not in (None, scope.name):
            return False
        if self.who.kind == JOB and self.who.name != key.job_id:
            return False
        if self.who.kind == SHARD and int(self.who.name) != key.shard:
            return False
        return self.begin <= key.fire_second <= self.until and place(key) > self.place

    def is_held(self, now_s: int) -> bool:
        """Whether windows are not to bother whom it waits for."""
        return self.tries > 0 and self.next_try_s > now_s


_PLAIN = ("begin", "until", "place", "next_try_s", "tries")

type Rows = Mapping[Who, SetAside]


def widened(row: SetAside, left: Extent) -> SetAside:
    """The row when it takes in some more. What lies between is read once more, and what of it is pending sent again."""
    whole = Extent(row.begin, row.until, row.place, row.at).hull(left)
    return replace(row, begin=whole.begin, until=whole.until, place=whole.place, at=whole.at)


def covered(rows: Rows, due: Iterable[Who], until: int, *, moving: bool) -> dict[Who, SetAside]:
    """The rows that are about to be served: up to the cursor, for a step along a chain may put a next occurrence behind
    it. `moving`: shards are re-numbered, and that occurrence may come to lie in another one."""
    after: dict[Who, SetAside] = {}
    for row in (rows[who] for who in due):
        place = minute_of(row.place) if moving else row.place
        who = EVERYBODY if moving and row.who.kind == SHARD else row.who
        wide = replace(row, who=who, until=max(row.until, until), place=place)
        standing = after.get(who, rows.get(who, wide))
        after[who] = widened(standing, Extent(wide.begin, wide.until, wide.place, wide.at))
    return after


def failed_again(row: SetAside, now_s: int) -> SetAside:
    """The row after a try that got nowhere: the distance to the next one grows."""
    if row.who.kind == PAUSE:
        return replace(row, tries=row.tries + 1, next_try_s=now_s + PAUSE_LOOK_S)
    distance_s = min(FIRST_TRY_S << min(row.tries, 10), NEXT_TRY_S_MAX.get(row.who.kind, FIRST_TRY_S))
    return replace(row, tries=row.tries + 1, next_try_s=now_s + distance_s)


def served_up_to(row: SetAside, reached: str, now_s: int) -> SetAside:
    """The row after a try that got on: there is more, and the next window goes on at once."""
    return replace(row, place=max(row.place, reached), tries=0, next_try_s=now_s + FIRST_TRY_S)


def served_until(row: SetAside, at: str, next_s: int) -> SetAside:
    """A team's row after its turns of a window: there is more. `next_s`: when a window may dispatch something of it."""
    begin = max(row.begin, parse_in_time(at)[0]) if at else row.begin
    place = place_of(bucket_of(begin), 0, "")
    return replace(row, begin=begin, place=place, at=max(row.at, at), tries=0, next_try_s=next_s)


def taking_in(rows: Rows, slice_id: str, left: Mapping[Who, Extent], now_s: int) -> dict[Who, SetAside]:
    """The rows when what was left unserved is set aside. Who has failed only now is first tried again in a second; a
    team waits for its turn, and that may be at once."""
    after = dict(rows)
    for who, extent in sorted(left.items()):
        taker = who if who in after or len(after) < ROWS_MAX else EVERYBODY
        standing = after.get(taker)
        if taker.kind == TEAM:
            fresh = SetAside(slice_id, taker, extent.begin, extent.until, extent.place, now_s, at=extent.at)
            after[taker] = fresh if standing is None else widened(standing, extent)
        elif standing is None:
            fresh = SetAside(slice_id, taker, extent.begin, extent.until, extent.place, 0)
            after[taker] = failed_again(fresh, now_s)
        else:
            row = widened(standing, replace(extent, at=""))
            after[taker] = row if standing.tries else failed_again(row, now_s)
    return after


def writes(before: Rows, after: Rows) -> list[Write]:
    """What turns the rows as they were read into what they are to be. Each is conditional on what was read: an earlier
    try of our own, given up and repeated, may arrive later."""
    changed: list[Write] = []
    for who in sorted({*before, *after}):
        old, new = before.get(who), after.get(who)
        if old == new:
            continue
        if new is None:
            assert old is not None
            changed.append(Delete(SET_ASIDE, key_of(old), _as_read(old)))
        else:
            changed.append(Put(SET_ASIDE, new.to_item(), Absent() if old is None else _as_read(old)))
    return changed


def earliest(rows: Rows) -> int:
    """The second of the next try; 0 when nothing is set aside."""
    return min((row.next_try_s for row in rows.values()), default=0)


def any_covers(rows: Iterable[SetAside], key: LedgerKey, pool: str = "", group: str | None = None) -> bool:
    """Whether any of the rows may still have to serve an item: who looks at the slice from outside leaves it alone."""
    return any(row.covers(key, pool, group) for row in rows)


def key_of(row: SetAside) -> Item:
    return {"slice": row.slice, "who": row.who.key}


def _as_read(row: SetAside) -> AllOf:
    plain = (*_PLAIN, "at") if row.at else _PLAIN  # without a value it is not written
    return all_of(*(Is(name, getattr(row, name)) for name in plain))
