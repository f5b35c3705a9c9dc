"""Checks on the tries of set-aside rows (F14): what waits for somebody is tried again soon after he is back. And on the
order of a team (F10): nothing of it that is due now goes before what its row holds.

A row is tried by the window that its lease's next try brings. So the lease names the first of its rows' tries, the
distance between two tries is bounded, and whoever sets a try sends the tick for it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tickwork.core.dispatch import set_aside
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import LEASES, SET_ASIDE
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

_DISTANCE_S = {"pool": 30, "shard": 30, "job": 300, "jobs": 30, "all": 30, "team": 1, "pause": 3_600}
"""Written out again: the longest that somebody who is back waits for the next try."""


_SPARE_TIMES = 2
"""What is put behind the cursor meanwhile is sent beside it."""


class RowChecks:
    """`_set`: by process the slices whose next try it has moved, each with the try that stood before."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._set: dict[Process, dict[str, int]] = {}
        self._late: dict[tuple[Process, str], set[str]] = defaultdict(set)

    def sent(self, process: Process, message: dict[str, Any]) -> None:
        """What a window sends of the time before its cursor (a backlog, rows) takes a fifth of its slice's capacity, of
        two seconds at most, each of the two as much (F8). Of one-shots: the step of a chain may bring others."""
        ref, (slice_id, _, token) = str(message["ref"]), str(message["dispatched_by"]).rpartition("#")
        if process.kind != "scanner" or "~" not in ref or message.get("retry_ref"):
            return
        lease = self._world.tables.standing(LEASES, {"slice": slice_id})
        if lease is None or str(lease["token"]) != token:
            return  # it was superseded while it stood still: what it repeats was due by the cursor that it knew
        second, team, *_ = ref.partition("|")[2].split("#")
        row = self._world.tables.standing(SET_ASIDE, {"slice": slice_id, "who": f"team#{team}"})
        if int(second) > lease["done"]:
            if row is not None and process.tokens.get(slice_id) == lease["token"]:
                raise Violation("team-order", f"{process.name} sent {ref}, and {team} has a row in {slice_id}")
            return
        if row is not None:
            return  # what a team had due beyond its part has its own turns
        late = self._late[process, slice_id]
        late.add(ref)
        capacity = process.ports.layout.slice_capacity_per_s
        if len(late) > _SPARE_TIMES * 2 * 2 * max(1, capacity // 5):
            raise Violation("isolation", f"{process.name} sent {len(late)} late ones of {slice_id} at once")

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction: the leases it touched name the first try of their rows."""
        touched: set[str] = set()
        for table, before, after in changes:
            if table is LEASES and after is not None:
                touched.add(after["slice"])
                if before is not None and before.get("aside_s", 0) != after.get("aside_s", 0):
                    self._set.setdefault(process, {}).setdefault(after["slice"], before.get("aside_s", 0))
            elif table is SET_ASIDE and after is not None:
                touched.add(after["slice"])
                if before is not None and before["next_try_s"] == after["next_try_s"]:
                    continue  # it was set by another's clock
                distance_s = after["next_try_s"] - process.latest_ms() // SECOND_MS
                if distance_s > _DISTANCE_S[str(after["who"]).partition("#")[0]] + 1:
                    what = f"{process.name} has {after['who']} of {after['slice']} wait {distance_s} s for a try"
                    raise Violation("isolation", what)
        for slice_id in sorted(touched):
            self._check_first(process, slice_id)
            count = sum(row["slice"] == slice_id for row in self._world.tables.items(SET_ASIDE))
            if count > set_aside.ROWS_MAX + 1:  # one more, of all, takes what fails beyond the bound
                raise Violation("isolation", f"{process.name} has {slice_id} with {count} rows")

    def _check_first(self, process: Process, slice_id: str) -> None:
        first = self.first_try(slice_id)
        lease = self._world.tables.standing(LEASES, {"slice": slice_id})
        if first and lease is not None and not 0 < lease.get("aside_s", 0) <= first:
            what = f"{process.name}: a row of {slice_id} is to be tried at {first}, its lease says {lease['aside_s']}"
            raise Violation("isolation", what)

    def first_try(self, slice_id: str) -> int:
        """When the first of a slice's rows is to be tried; 0: it has none."""
        rows = self._world.tables.items(SET_ASIDE)
        return min((int(row["next_try_s"]) for row in rows if row["slice"] == slice_id), default=0)

    def may_step(self, slice_id: str, ref: str) -> bool:
        """Whether a row has still to step the chain of an item's job, or may have."""
        _, _, sk = ref.partition("|")
        _, team, job, *_ = sk.split("#")
        waiting = (str(row["who"]) for row in self._world.tables.items(SET_ASIDE) if row["slice"] == slice_id)
        return any(not who.startswith("job#") or who == f"job#{team}:{job}" for who in waiting)

    def tries_of(self, process: Process) -> dict[str, int]:
        """The slices whose next try the process has moved, each with that try: whoever sets it sends its tick. One that
        stands as the process found it was another's to send."""
        tries = {slice_id: self.first_try(slice_id) for slice_id in self._set.get(process, ())}
        return {slice_id: second for slice_id, second in tries.items() if second != self._set[process][slice_id]}
