"""What firing is told, and what it tells: who fires by what right, whom to leave in peace, what became of a batch."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, field

from tickwork.core.dispatch import set_aside
from tickwork.core.dispatch.set_aside import Extent, Who
from tickwork.core.jobs.scopes import NONE, Paused, is_pausable
from tickwork.core.ledger import kinds
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Check
from tickwork.flows.dispatch.sending import SEND_TRIES_MAX
from tickwork.flows.ledger.groups import Known


class Fenced(Exception):
    """The lease was lost, or cannot be trusted any more: stop at once, send nothing more."""


class TokenRefused(Fenced):
    """Somebody else has the slice, or has had it."""


@dataclass(slots=True)
class Fired:
    """What became of a batch. `materialised` are the next items this firing has written: the caller sees to those
    that are near. `left` is what could not be served, by whom it waits for: a window sets it aside; `unsent` counts
    what of it a creator may not answer for."""

    sent: int = 0
    skipped: int = 0
    set_aside: int = 0
    unsent: int = 0
    lag_ms: int = 0
    """From due to dispatched, of the latest of them."""
    materialised: list[LedgerKey] = field(default_factory=list)
    left: dict[Who, Extent] = field(default_factory=dict)
    buffered: set[str] = field(default_factory=set)
    """Jobs of which this firing has kept one back: it looks again whether that may go."""
    released: set[str] = field(default_factory=set)
    """Refs of runs that had waited and go now: the look at each stands until it was sent."""
    unsent_looks: set[str] = field(default_factory=set)
    """Of these, those that could not be sent."""
    is_busy: bool = False
    """The store has refused a transaction for some time: the ones after it are tried once only."""

    def leave(self, who: Who, key: LedgerKey) -> None:
        """An item is left where it is: it waits for somebody."""
        self.leave_all(who, set_aside.extent_of(key))

    def leave_all(self, who: Who, extent: Extent) -> None:
        standing = self.left.get(who)
        self.left[who] = extent if standing is None else standing.hull(extent)

    def add(self, other: Fired) -> None:
        self.sent += other.sent
        self.skipped += other.skipped
        self.set_aside += other.set_aside
        self.unsent += other.unsent
        self.lag_ms = max(self.lag_ms, other.lag_ms)
        for who, extent in other.left.items():
            self.leave_all(who, extent)


@dataclass(frozen=True, slots=True)
class Firing:
    """Who fires, and by what right. `keep` is asked before each batch and may renew the lease; `lap` hears of each
    step that is done (flows/stopwatch). `held` are not to be bothered: what is theirs is left. `pool`: only what is
    that pool's is fired ('': of all). `paused`: what waits for the end of a pause, at `at_ms`. Who fires without a
    lease knows of none: he has no row to leave anything in, and what he sends, the start keeps waiting."""

    by: str
    fence: Check | None = None
    keep: Callable[[], bool] = lambda: True
    lap: Callable[[str], None] = lambda _: None
    held: Container[Who] = frozenset()
    pool: str = ""
    paused: Paused = NONE
    at_ms: int = 0
    groups: Known = field(default_factory=dict)
    """What was read of groups so far, by whoever fires: each is read once."""
    send_tries_max: int = SEND_TRIES_MAX
    is_crowd: Callable[[str], bool] = lambda _: False
    """Whether the messages of a team are to say whose they are (core/dispatch/shares)."""
    has_waited: bool = False
    """What it fires was held back by a bound: it is late on purpose, and nobody has missed it."""

    def takes(
        self, key: LedgerKey, work: Work, group: str, fired: Fired, *, moved: bool = False, starts: bool = True
    ) -> bool:
        """Whether an item of this work may be fired; it is left when whom it needs is held, or when it would start what
        is paused. `moved`: its job may have been in another pool when it was set aside, so that whose it is now says
        nothing."""
        if self.pool and work.pool != self.pool and not moved:
            return False
        is_asked = starts and is_pausable(key.kind)
        scope = self.paused.in_force(key.team, work.pool, group, self.at_ms) if is_asked else None
        if scope is not None:
            fired.leave(set_aside.pause(scope), key)
            return False
        needed = [set_aside.pool(work.pool)]
        if not kinds.own(key.kind):  # one by hand has its work with it: what its job waits for is nothing to it
            needed.append(set_aside.job(key.job_id))
        for who in needed:
            if who in self.held:
                fired.leave(who, key)
                return False
        return True
