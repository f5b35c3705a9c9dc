"""Check of paused scopes: nothing starts in one whose pause was acknowledged. Judged by what callers were told.

That what waits is not lost is the ledger's to check (no-lost-timer), and the cursors' (`cursors`): a row is no excuse
for longer than there is one.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulator.checks.by_hand import is_by_hand
from tests.simulator.checks.told import Ask
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.scopes import Scope
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_SLACK_MS = SECOND_MS
"""Beside the skew of clocks."""
_KNOWN_MS = 5 * SECOND_MS
"""Written out again: so long a process goes by what it has read of pauses."""


class PausedChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._pauses: dict[Scope, list[Ask]] = defaultdict(list)
        self._resumes: dict[Scope, list[Ask]] = defaultdict(list)

    def asked_to_pause(self, scope: Scope, until_ms: int) -> Ask:
        ask = Ask(self._world.kernel.now_ms, until_ms=until_ms)
        self._pauses[scope].append(ask)
        return ask

    def asked_to_resume(self, scope: Scope) -> Ask:
        ask = Ask(self._world.kernel.now_ms)
        self._resumes[scope].append(ask)
        return ask

    def started(self, process: Process, ref: str, run: Item) -> None:
        """A first attempt has started, by a process that began after the pause of what it lies in was acknowledged."""
        if run["attempt"] != 1 or is_by_hand(run["sk"]):
            return
        slack_ms, now_ms = self._world.faults.skew_max_ms + _SLACK_MS, self._world.kernel.now_ms
        # In worlds of cells what a host has read serves all that begin on it, as it does the calls of one function.
        known_ms = _KNOWN_MS if self._world.layout.others else 0
        for scope in [one for one in self._pauses if self._covers(one, run)]:
            for ask in self._pauses[scope]:
                if ask.acked_ms + known_ms < process.began_true_ms and now_ms < self._end_ms(scope, ask) - slack_ms:
                    raise Violation("paused-stays", f"{process.name} started {ref}, but {scope.key} is paused")

    def _end_ms(self, scope: Scope, pause: Ask) -> int:
        """Up to when a pause surely holds: any other that was under way may have taken its place, and ended."""
        others = [one for one in self._pauses[scope] if one is not pause and one.may_act_after(pause.asked_ms)]
        resumes = [one for one in self._resumes[scope] if one.may_act_after(pause.asked_ms)]
        return min([pause.until_ms, *(one.asked_ms for one in (*others, *resumes))])

    def may_cover(self, run: Item) -> bool:
        """Whether somebody has asked for a pause of what an item may lie in."""
        return self.may_wait_until_ms(run) > 0

    def may_wait_until_ms(self, run: Item) -> int:
        """Up to when a pause that somebody has asked for may keep an item waiting: of what it lies in, or of any pool,
        where its job was changed. 0: there is none."""
        moved = self._may_have_moved(run)
        over = [one for one in self._pauses if self._covers(one, run) or (moved and one.kind == "pool")]
        return max((ask.until_ms for scope in over for ask in self._pauses[scope]), default=0)

    def _may_have_moved(self, run: Item) -> bool:
        """Whether its job may have been in another pool."""
        return bool(self._world.checks.told.changes.get(str(run.get("job_id"))))

    def _covers(self, scope: Scope, run: Item) -> bool:
        if scope.kind == "team":
            return str(run["sk"]).split("#")[1] == scope.name
        if scope.kind == "group":
            return (str(run["sk"]).split("#")[1], run.get("group")) == (scope.owner, scope.name)
        if scope.kind == "cell":
            return True
        job = self._world.tables.standing(JOBS, {"job_id": run.get("job_id", "")}) or {}
        work = run.get("work") or job.get("work")
        if self._may_have_moved(run):
            return False
        return isinstance(work, dict) and bool(work.get("pool") == scope.name)
