"""What a window knows of pauses: read once, before it fires the first thing, so that all of it goes by one state.

A window that fires nothing asks for nothing, unless something of its slice waits for the end of a pause.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tickwork.core.dispatch import set_aside
from tickwork.core.dispatch.set_aside import Who
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.scopes import Paused
from tickwork.flows.dispatch.fired import Firing
from tickwork.flows.dispatch.stopwatch import QUERY, Stopwatch
from tickwork.flows.ledger.paused import read_paused
from tickwork.ports import Ports

END_AHEAD_MS = 90_000
"""How long before a pause ends by itself windows bring the tick for its end: there is one a minute."""


@dataclass(slots=True)
class PausesSeen:
    """The pauses of one window; None: it has not asked yet."""

    ports: Ports
    watch: Stopwatch
    paused: Paused | None = None

    def read(self) -> Paused:
        if self.paused is None:
            self.paused = read_paused(self.ports).in_cell(self.ports.layout.cell)
            self.watch.lap(QUERY)
        return self.paused

    def told(self, firing: Firing) -> Firing:
        """Who fires, told what is paused now."""
        return replace(firing, paused=self.read(), at_ms=self.ports.clock.now_ms())

    def is_over(self, who: Who) -> bool:
        """Whether a row waits for the end of a pause, and that has come."""
        scope = set_aside.scope_of(who)
        return scope is not None and self.read().end_of(scope, self.ports.clock.now_ms()) is None

    def ends_ahead(self, rows: Iterable[Who]) -> set[int]:
        """The seconds at which what waits may go, where they come before the next minute's window would see it."""
        now_ms = self.ports.clock.now_ms()
        whom = [scope for who in rows if (scope := set_aside.scope_of(who)) is not None]
        ends_ms = [end_ms for scope in whom if (end_ms := self.read().end_of(scope, now_ms))]
        return {-(-end_ms // SECOND_MS) for end_ms in ends_ms if end_ms - now_ms <= END_AHEAD_MS}
