"""How teams share a lane (F10): what each is given of a window, and whose turn it is among those that want more.

In a window that takes longer than most of a second each team is given a quantum of what is due. Who wants more waits in
a row of its own (`set_aside`), and the rows are served by deficit round robin, a quantum times its weight each. Refuses
to know the store. Protects bounded-lag: who wants less than its part gets all of it, whatever the others want; and a
share is a team's, so that nobody gains by spreading his work over many jobs or timers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

ALONE_MS = 800
"""A window that is done within this has kept nobody waiting: until then all is fired as it is read, whosever it is, and
costs what it did before there were shares."""

LIVE_QUANTUM = 500
"""Items of a team that a window fires as they are read when it takes longer: a page."""

QUANTUM = 20
"""Items of a turn of a team of weight 1. Many turns are fired together; small ones, so that the end of a window, which
comes in the middle of a round, costs nobody much."""

CROWD_ITEMS_MIN = 100
"""A team that a window gives more than this sends a crowd: its messages say whose they are, so that the queue can serve
those of others before them. That costs 0.10 $ a million, and the quiet have no need of it."""

TEAM_ROWS_MAX = 48
"""Teams of a slice that wait for their turns: the rows go into one transaction with an advance, and those of what fails
need some of the room (`set_aside.ROWS_MAX`). A team beyond them is fired as it is read."""


@dataclass(slots=True)
class Shares:
    """What a window has given each team live. `waiting`: the teams that have a row, or are getting one; what of theirs
    is read is left to it, for a team's order is kept. `alone_until_ms`: see `ALONE_MS`."""

    alone_until_ms: int = 0
    waiting: set[str] = field(default_factory=set)
    given: dict[str, int] = field(default_factory=dict)
    is_bulk: bool = False
    """The slice is of a cell of P2 alone."""
    per_s: int = 0
    """What bounds its cell (core/dispatch/bounds); 0: nothing."""
    most: int | None = None
    """How much more the window may dispatch of what is due and of what teams have left; None: as much as it can."""
    held_back: int = 0
    """What was left to its team because of that."""
    is_cut_short: bool = False
    """Its time was up, and teams waited for their turns."""

    @property
    def has_room(self) -> bool:
        return self.most is None or self.most > 0

    def took(self, count: int) -> None:
        if self.most is not None:
            self.most = max(0, self.most - count)

    def gives(self, team: str, now_ms: Callable[[], int]) -> bool:
        """Whether an item of the team is fired as it is read. `now_ms`: a monotonic clock."""
        if team in self.waiting:
            self.held_back += not self.has_room
            return False
        if not self.has_room and len(self.waiting) < TEAM_ROWS_MAX:
            self.held_back += 1
            self.waiting.add(team)
            return False
        given = self.given.get(team, 0)
        if given >= LIVE_QUANTUM and len(self.waiting) < TEAM_ROWS_MAX and now_ms() >= self.alone_until_ms:
            self.waiting.add(team)
            return False
        self.given[team] = given + 1
        self.took(1)
        return True

    def is_crowd(self, team: str) -> bool:
        """Whether a team sends more in this window than its others should have to wait behind."""
        return team in self.waiting or self.given.get(team, 0) > CROWD_ITEMS_MIN


class Turns:
    """Deficit round robin over teams. `first` says with whom it begins: each window cuts a round short somewhere, and
    that is not to be the same team's loss each time."""

    def __init__(self, teams: Sequence[str], weights: Mapping[str, int], first: int) -> None:
        self._order = deque(sorted(teams))
        self._order.rotate(-(first % max(1, len(teams))))
        self._weights = weights
        self._deficits = dict.fromkeys(teams, 0)

    def begin(self) -> tuple[str, int]:
        """Whose turn it is, and how many items it may have. Asked only while somebody is left (`bool`)."""
        team = self._order[0]
        self._deficits[team] += QUANTUM * max(1, self._weights.get(team, 1))
        return team, self._deficits[team]

    def end(self, took: int, *, has_more: bool) -> None:
        """The turn is over. What it could not use stays to its credit as long as it has more."""
        team = self._order.popleft()
        self._deficits[team] -= took
        if has_more:
            self._order.append(team)

    def come_back(self, teams: Iterable[str]) -> None:
        """Teams that had no more have some again."""
        self._order.extend(team for team in teams if team not in self._order)

    def __bool__(self) -> bool:
        return bool(self._order)
