"""The checkers: the invariants of design section 4, watched at every write and every send.

They stand outside the code under test: they see items as they were and as they became, messages as they left, and
what the callers were told; never a flow's own account of itself. A violation names its invariant.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.simulator.checks.attempts import AttemptChecks
from tests.simulator.checks.audited import AuditChecks
from tests.simulator.checks.audits import LedgerAuditChecks
from tests.simulator.checks.backfills import BackfillChecks
from tests.simulator.checks.chains import ChainChecks
from tests.simulator.checks.cursors import CursorChecks
from tests.simulator.checks.deadlines import DeadlineChecks
from tests.simulator.checks.duties import DutyChecks
from tests.simulator.checks.freezes import FreezeChecks
from tests.simulator.checks.giving_way import GivingWayChecks
from tests.simulator.checks.groups import GroupChecks
from tests.simulator.checks.handling import HandlingChecks
from tests.simulator.checks.lags import LagChecks
from tests.simulator.checks.lasts import LastChecks
from tests.simulator.checks.ledger import LedgerChecks
from tests.simulator.checks.overlaps import OverlapChecks
from tests.simulator.checks.paused import PausedChecks
from tests.simulator.checks.planned_by import PlannedByChecks
from tests.simulator.checks.rows import RowChecks
from tests.simulator.checks.sight import SightChecks
from tests.simulator.checks.skips import SkipChecks
from tests.simulator.checks.slots import SlotChecks
from tests.simulator.checks.ticks import TickChecks
from tests.simulator.checks.told import Told
from tests.simulator.checks.waiters import WaiterChecks
from tests.simulator.checks.walks import WalkChecks
from tests.simulator.checks.workers import WorkerChecks
from tickwork.core.ledger.tables import CALENDARS, JOBS, LEASES, PASSES, SET_ASIDE, TIMERS
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.core.ledger.tables import Table
    from tickwork.core.ledger.writes import Item
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change


_HIDDEN_S_MAX = 960
"""The longest lease, and some spare."""
_CREATOR = "creator"
"""By whom a message is that somebody sends who has put its item behind a cursor."""


class Checks:
    """Every checker, and the acknowledgements they judge by."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ledger = LedgerChecks(world)
        self.attempts = AttemptChecks(world)
        self.cursors = CursorChecks(world)
        self.chains = ChainChecks(world)
        self.told = Told()
        self.slots = SlotChecks(world)
        self.skips = SkipChecks(world, self.told)
        self.overlaps = OverlapChecks(world)
        self.giving_way = GivingWayChecks(world, self.overlaps)
        self.backfills = BackfillChecks(world)
        self.planned_by = PlannedByChecks(world)
        self.lags = LagChecks(world)
        self.deadlines = DeadlineChecks(world)
        self.freezes = FreezeChecks(world)
        self.paused = PausedChecks(world)
        self.groups = GroupChecks(world)
        self.lasts = LastChecks(world)
        self.ticks = TickChecks(world)
        self.rows = RowChecks(world)
        self.audited = AuditChecks()
        self.audits = LedgerAuditChecks(world)
        self.sight = SightChecks(world)
        self.workers = WorkerChecks(world)
        self.duties = DutyChecks(world)
        self.handling = HandlingChecks(world)
        self.waiters = WaiterChecks(world)
        self.walks = WalkChecks(world)

    def committed(self, process: Process, changes: tuple[Change, ...]) -> None:
        """One commit took effect."""
        for table, before, after in changes:
            if table is TIMERS:
                self.ledger.changed(process, before, after)
                self.groups.item_changed(process, before, after)
                self.cursors.item_changed(process, before, after)
                self.slots.changed(process, before, after)
                self.attempts.changed(process, before, after)
                self.deadlines.changed(process, before, after)
                self.duties.item_changed(before, after)
                self.freezes.put(process, before, after)
            elif table is LEASES:
                self.cursors.lease_changed(process, before, after)
                self.ticks.lease_changed(process, before, after)
                self.audits.lease_changed(process, before, after)
            elif table is SET_ASIDE:
                self.cursors.row_changed(process, before, after)
            elif table is JOBS:
                self.chains.changed(process, before, after)
                self.groups.job_changed(process, before, after)
                self.lasts.changed(process, before, after)
                self.slots.job_changed(before, after)
            elif table is PASSES:
                self.sight.row_changed(process, after)
                self.walks.place_changed(process, after)
            elif table is CALENDARS:
                self.chains.calendar_changed(after)
                self.freezes.calendar_changed(after)
        self.chains.settled(process, changes)
        self.slots.settled(process, changes)
        self.skips.settled(process, changes)
        self.overlaps.settled(process, changes)
        self.giving_way.settled(process, changes)
        self.backfills.settled(process, changes)
        self.planned_by.settled(process, changes)
        self.rows.settled(process, changes)
        self.audited.settled(process, changes)
        self.sight.settled(process, changes)
        self.waiters.settled(process, changes)
        self.ledger.never_fired |= self.chains.ended_as_next(changes)

    def sent(self, process: Process, body: str, visible_at_ms: int) -> None:
        """A message left for a ready queue."""
        message = json.loads(body)
        ref = message.get("retry_ref") or message["ref"]
        due_ms = due_ms_of(ref)
        visible_ms = visible_at_ms + process.latest_ms() - self._world.kernel.now_ms  # by the sender's own clock
        if visible_ms < due_ms:
            raise Violation("no-early-fire", f"{process.name} sent {ref} {due_ms - visible_ms} ms early")
        self.lags.sent(message["ref"], message["dispatched_at_ms"])
        self.ledger.sent(process, message["ref"])
        self.ledger.told_what(process, message)
        self.waiters.sent(process, message)
        self.duties.sent(message)
        self.rows.sent(process, message)
        if message["dispatched_by"] == "audit":
            self.ledger.woken(process, message["ref"])
            self.audits.sent(process, message)
        self.cursors.sent(ref)
        self.cursors.trusted(process, message["dispatched_by"])

    def refused(self, body: str) -> None:
        """The queue will never take this message: it is set aside, alarmed, and the audit's."""
        message = json.loads(body)
        self.audits.refused(message)
        self.cursors.sent(message.get("retry_ref") or message["ref"])

    def turned_away(self, process: Process, bodies: list[str]) -> None:
        """There is no such queue: that is alarmed, and a creator who met it goes no further along the chains of what he
        has put. The reconciler does. A window sets aside what is its own, and is the creator of what it has put into
        other slices."""
        own = [json.loads(body)["dispatched_by"] != _CREATOR for body in bodies]
        if process.kind == "scanner" and all(own):
            return
        for body in bodies:
            self.refused(body)
        for one in self.cursors.of(process):
            if process.kind != "scanner" or not one.fenced:
                self.cursors.sent(one.ref)

    def ticked(self, body: str) -> None:
        """A queue has taken a tick."""
        self.ticks.sent(body)

    def read(self, process: Process, partition: str, first: str, last: str) -> None:
        """A query of the ledger has come to the end of its range."""
        self.audits.read(process, partition, first, last)

    def looked_at(self, process: Process, table: Table, items: list[Item]) -> None:
        """A process has read items one by one, to decide by them."""
        if table is JOBS:
            self.chains.read(process, items)
        self._world.meddler.looked_at(process, table, items)

    def hidden(self, process: Process, queue: str, seconds: int) -> None:
        """A message of a run comes again when the longest lease may be over, at the latest: else its run lies idle."""
        if queue.startswith("ready-") and seconds > _HIDDEN_S_MAX:
            raise Violation("bounded-lag", f"{process.name} hid a message of {queue} for {seconds} s")

    def scanned(self, process: Process, table: Table, more: Item | None) -> None:
        """A process has read a page of a table, and there is more behind that place."""
        if table is JOBS:
            self.walks.scanned(process, more)

    def given_up(self, process: Process, queue: str, body: str) -> None:
        """A message is deleted by the service itself."""
        if queue.startswith("ready-"):
            self.ledger.given_up(process, body)

    def answered(self, process: Process) -> None:
        """A caller was told that its call has succeeded."""
        self.cursors.answered(process)
        self.ticks.answered(process, self.cursors.of(process))
        self.waiters.answered(process)


def due_ms_of(ref: str) -> int:
    """When the item of a ref is due: its sort key begins with the second."""
    return int(ref.partition("|")[2][:10]) * 1_000
