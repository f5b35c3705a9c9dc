"""Serving the rows of teams: what they had due beyond their part of a window, in turns (core/dispatch/shares).

A row is read second by second, and within a second shard by shard: a team's work goes in the order in which it was due,
and what it has due later lies behind all that is served already. Protects cursor-honest: the rows that are served were
covered up to the cursor before (catching_up), and shrink in the write that ends the window's work on rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tickwork.core.access.teams import team_key
from tickwork.core.dispatch import backlog, set_aside, shares
from tickwork.core.dispatch.set_aside import SetAside, Who
from tickwork.core.errors import WorldError
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey, bucket_of, partition_of, second_in, second_range
from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch.firing import read_items
from tickwork.flows.dispatch.serving import Serving, Stretch
from tickwork.flows.dispatch.stopwatch import QUERY
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

PAGE_ITEMS_MAX = 250
"""Of a team's row: read of a shard at a time. Some of the last page is read again by the next window."""

FIRED_ITEMS_MAX = 500
"""Fired together, of all turns that it takes."""

PROBE_ITEMS_MAX = 25
"""Read where the last page showed nothing of the team: others' are passed by looking where its next may begin."""

WEIGHT_MAX = 100
"""As the API has it; an item that says more was not written by us."""


def leave_to_team(it: Serving, key: LedgerKey) -> bool:
    """Leave an item that is due to its team's row, when the team has had its part; whether it was left."""
    if it.shares.gives(key.team, it.ports.clock.monotonic_ms):
        return False
    it.total.leave_all(set_aside.team(key.team), set_aside.extent_of_team(key))
    return True


def beyond_team(it: Serving, shard: int, sk: str) -> str:
    """Where to read on behind a sort key: past what is left to a team that has had its part. All that was read of it
    there may have ended, or be nobody's to read, and then nothing was left yet: what is passed is."""
    second, team, _ = sk.split("#", 2)
    if team not in it.shares.waiting:
        return sk
    it.total.leave_all(set_aside.team(team), set_aside.extent_behind(shard, sk))
    return f"{second}#{team}#~"


def is_covered(it: Serving, item: Item) -> bool:
    """Whether the row of its team will serve an item, also one that only a newer version can read."""
    _, team, _ = str(item["sk"]).split("#", 2)
    if team not in it.shares.waiting:
        return False
    row, second = it.rows.get(set_aside.team(team)), second_in(item["sk"])
    shard = int(str(item["pk"]).split("#", 2)[1])
    if row is None or not row.begin <= second <= row.until:
        return False
    return set_aside.in_time_of(second, shard, item["sk"]) > row.at


def serve_teams(it: Serving, rows: Mapping[Who, SetAside], next_s: int) -> dict[Who, SetAside | None]:
    """What the rows of teams are to be when time is up, or the window's bound is reached; None: all that it covers was
    served. `next_s`: when it goes on."""
    lines = {who.name: _Line(it, row) for who, row in rows.items()}
    turns = shares.Turns(list(lines), _weights(it.ports, list(lines)), it.holding.lease.token)
    it.stretch = stretch = _Lines(lines)
    firing = replace(it.firing(), has_waited=bool(it.shares.is_bulk or it.shares.per_s))
    while turns and it.shares.has_room and not it.is_out_of_time():
        items = _gathered(lines, turns, it.shares.most)
        it.shares.took(len(items))
        stretch.next = backlog.END
        if items:
            it.fire_all(read_items(it.ports, items, started=True), it.until, firing)
        if stretch.next < backlog.END:  # put into what was read already
            for line in lines.values():
                line.forget()
            turns.come_back(lines)
    it.stretch = None
    it.shares.is_cut_short = bool(turns) and it.shares.has_room
    return {who: lines[who.name].row(next_s) for who in rows}


def _gathered(lines: Mapping[str, _Line], turns: shares.Turns, most: int | None) -> list[Item]:
    """What is fired together: of as many turns as make a page, for a turn alone would leave most threads that send
    without anything to do. `most`: what the window may dispatch still."""
    items: list[Item] = []
    items_max = FIRED_ITEMS_MAX if most is None else min(FIRED_ITEMS_MAX, most)
    while turns and len(items) < items_max:
        team, count = turns.begin()
        took = lines[team].take(count if most is None else min(count, most - len(items)))
        turns.end(len(took), has_more=not lines[team].is_served)
        items += took
    return items


def _weights(ports: Ports, teams: list[str]) -> dict[str, int]:
    """The weights of teams, where more than one wants its part. Those that cannot be read have one."""
    if len(teams) < 2:
        return {}
    try:
        items = read_many(ports, TEAMS, [team_key(team) for team in teams])
    except WorldError as error:
        ports.signals.log("weights_unread", teams=len(teams), why=repr(error))
        return {}
    return {team: _weight(item) for team, item in zip(teams, items, strict=True)}


def _weight(item: Item | None) -> int:
    weight = (item or {}).get("weight", 1)
    return weight if isinstance(weight, int) and 1 <= weight <= WEIGHT_MAX else 1


class _Line:
    """A team's row at work."""

    def __init__(self, it: Serving, row: SetAside) -> None:
        self._it, self._row = it, row
        self._stretch = Stretch(row.begin, row.until, row.at, team=row.who.name)
        self._reader = _Reader(it, self._stretch)
        self.is_served = False

    def take(self, count: int) -> list[Item]:
        """So many of the team's next, or fewer: when it has no more, and behind an occurrence of a job, whose next one
        may lie before what follows."""
        taken: list[Item] = []
        while len(taken) < count:
            items, self._stretch.at = self._reader.next(count - len(taken))
            self.is_served = not items
            taken += items
            if not items or any("work" not in item for item in items):
                break
        return taken

    def awaits(self, key: LedgerKey) -> bool:
        return self._stretch.awaits(key)

    def forget(self) -> None:
        self._reader.forget()
        self.is_served = False

    def row(self, next_s: int) -> SetAside | None:
        return None if self.is_served else set_aside.served_until(self._row, self._stretch.at, next_s)


class _Lines(Stretch):
    """The rows of all teams at work, as one stretch: a next occurrence is awaited by the row of its team."""

    def __init__(self, lines: Mapping[str, _Line]) -> None:
        super().__init__(0, 0, "")
        self._lines = lines

    def awaits(self, key: LedgerKey) -> bool:
        return key.team in self._lines and self._lines[key.team].awaits(key)


@dataclass(slots=True)
class _Ahead:
    """What was read of a shard and not taken yet, and the sort key up to which it is known."""

    items: deque[Item] = field(default_factory=deque)
    through: str = ""
    is_fruitful: bool = True


class _Reader:
    """A team's items beyond the instant that its stretch stands at, second by second."""

    def __init__(self, it: Serving, stretch: Stretch) -> None:
        self._it, self._stretch = it, stretch
        self._shards = list(it.ports.layout.shards_of(it.slice_no))
        self._ahead: dict[int, _Ahead] = {}

    def forget(self) -> None:
        """Read again from where the stretch stands."""
        self._ahead.clear()

    def next(self, count: int) -> tuple[list[Item], str]:
        """Some of the next shard of the next second that has any, and the instant up to which they go. No items: there
        are no more."""
        for second, shard in self._places():
            items = self._of(second, shard, count)
            if items:
                return items, set_aside.in_time_of(second, shard, str(items[-1]["sk"]))
        return [], self._stretch.at

    def _places(self) -> Iterable[tuple[int, int]]:
        begin, first, _ = set_aside.parse_in_time(self._stretch.at or set_aside.in_time_of(self._stretch.begin, 0, ""))
        for second in range(max(begin, self._stretch.begin), self._stretch.until + 1):
            for shard in self._shards:
                if second > begin or shard >= first:
                    yield second, shard

    def _of(self, second: int, shard: int, count: int) -> list[Item]:
        it, team = self._it, self._stretch.team
        if it.is_held_shard(shard):
            it.leave_shard(shard, second, self._stretch.until)
            return []
        ahead = self._ahead.setdefault(shard, _Ahead(through=self._passed(shard)))
        low, high = f"{second:010d}#{team}#", f"{second:010d}#{team}#~"
        try:
            while not ahead.items and ahead.through < high:
                self._read(ahead, second, shard, low)
        except WorldError as error:
            it.leave_shard(shard, second, self._stretch.until, error)
            return []
        found: list[Item] = []
        while ahead.items and len(found) < count and second_in(ahead.items[0]["sk"]) == second:
            found.append(ahead.items.popleft())
        return found

    def _passed(self, shard: int) -> str:
        """The sort key up to which a shard was served."""
        if not self._stretch.at:
            return ""
        second, standing, sk = set_aside.parse_in_time(self._stretch.at)
        return sk if shard == standing else f"{second:010d}#~" if shard < standing else ""

    def _read(self, ahead: _Ahead, second: int, shard: int, low: str) -> None:
        """The next page of a shard. It begins where the team's next may lie, and shows what else there is up to the end
        of the minute: mostly that there is nothing."""
        it, stretch = self._it, self._stretch
        bucket = bucket_of(second)
        first, last = second_range(second, min(stretch.until, (bucket + 1) * BUCKET_S - 1))
        limit = PAGE_ITEMS_MAX if ahead.is_fruitful else PROBE_ITEMS_MAX
        partition = partition_of(it.ports.layout.cell, shard, bucket)
        page = it.ports.store.query(TIMERS, partition, first, last, limit=limit, after=max(ahead.through, low))
        it.watch.lap(QUERY)
        ahead.items.extend(item for item in page.items if str(item["sk"])[11:].startswith(f"{stretch.team}#"))
        ahead.is_fruitful = bool(ahead.items)
        ahead.through = last if page.more is None else page.more
