"""Checks on who waits for a slot (F11): whoever frees one wakes somebody, no row of one that waits is taken away, a
message that wakes a retry names it, and no start is turned away while slots are free and nobody waits longer."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from tickwork.core.ledger.tables import RESOURCES, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

_WAITS = frozenset({"pending", "waiting"})
_LOOKED_AT = 5
"""Rows that one call looks behind, before it leaves the rest to the next."""
_CHANGES_KEPT = 20
_COMES_WITHIN_MS = 5_000
"""So long a slot is kept for whoever has been woken."""


class WaiterChecks:
    """`_changed` maps a resource to its last changes: when, and by whom."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._changed: dict[str, deque[tuple[int, Process]]] = defaultdict(lambda: deque(maxlen=_CHANGES_KEPT))
        self._freed: dict[Process, dict[str, int]] = defaultdict(dict)
        self._woke: dict[Process, set[str]] = defaultdict(set)
        self._waits_since_ms: dict[Process, dict[str, int]] = defaultdict(dict)
        self._cleared: dict[Process, set[str]] = defaultdict(set)

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction: rows have come and gone."""
        for table, was, now in changes:
            if table is not RESOURCES:
                continue
            row = now or was
            assert row is not None
            resource = str(row["resource"])
            if was is not None and now is None and "holder" in was:
                self._freed[process][resource] = self._world.kernel.now_ms
            elif now is not None and not now.get("woken_at_ms"):
                self._freed[process].pop(resource, None)  # a call of many has taken the slot again, or waits for it
            if now is not None and now.get("woken_at_ms"):
                self._woke[process].add(resource)
            if was is None and now is not None and "ref" in now:
                self._waits_since_ms[process][resource] = self._world.kernel.now_ms
            if was is not None and now is None and "ref" in was:
                self._cleared[process].add(resource)
                self._check_left(process, was)
            self._changed[resource].append((self._world.kernel.now_ms, process))

    def _check_left(self, process: Process, row: Item) -> None:
        """A row goes when its run has started, or ended, or waits for another time: else it still has its place."""
        run = self._run(row)
        if run is None or run["status"] not in _WAITS or len(self._resources(run)) != 1:
            return
        if "work" not in run and self._world.checks.told.changes[run["job_id"]]:
            return  # by another definition it waits elsewhere
        if row["slot"].split("#")[1] == f"{_due_ms(run):013d}":
            what = f"{process.name} took away the place of {row['ref']} at {row['resource']}, which is {run['status']}"
            raise Violation("bounded-concurrency", what)

    def sent(self, process: Process, message: dict[str, Any]) -> None:
        """A message for a run that waits for a retry names it: another dies at start."""
        pk, _, sk = str(message["ref"]).partition("|")
        run = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
        if message["dispatched_by"] != "slot" or run is None or run["status"] != "waiting":
            return
        if message["attempt"] == run.get("attempt", 0) + 1 and not message.get("retry_ref"):
            what = f"{process.name} woke {message['ref']}, which waits for a retry, without naming it"
            raise Violation("bounded-concurrency", what)

    def answered(self, process: Process) -> None:
        """Whoever says that all is well and has freed a slot has woken somebody, if anybody waited."""
        for resource, freed_ms in self._freed.pop(process, {}).items():
            if process.met_failure or resource in self._woke[process] or self._was_changed(process, resource, freed_ms):
                continue
            rows = [row for row in self._rows(resource) if not row.get("woken_at_ms")]
            waiting = [row for row in rows[:_LOOKED_AT] if self._is_startable(process, row)]
            others = [row for row in self._rows(resource) if row.get("woken_at_ms")]
            if waiting and not others and process.state == "running":
                what = f"{process.name} freed a slot of {resource} and woke nobody, and {waiting[0]['ref']} waits"
                raise Violation("bounded-concurrency", what)

    def declined(self, process: Process, ref: str, asked_ms: int) -> None:
        """A start was told that there is no slot: there is none, or it is kept for who waits longer."""
        pk, _, sk = ref.partition("|")
        run = self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})
        if run is None or run["status"] not in _WAITS or process.met_failure:
            return
        resources = self._resources(run)
        if len(resources) != 1 or ("work" not in run and self._world.checks.told.changes[run["job_id"]]):
            return
        ((name, limit),) = resources.items()
        resource = f"{sk.split('#')[1]}#{name}"
        since_ms = max(asked_ms, self._waits_since_ms[process].get(resource, 0))  # who takes a place looks once more
        if resource in self._freed[process] or self._was_changed(process, resource, since_ms):
            return  # what it has freed itself may be for others
        if resource in self._woke[process] | self._cleared[process]:
            return  # a place that was left over stood before it, and is gone now: it has called itself
        held = [row for row in self._world.tables.items(RESOURCES) if row["resource"] == resource and "holder" in row]
        mine = f"~wait#{_due_ms(run):013d}#{hashlib.sha256(ref.encode()).hexdigest()[:16]}"
        older = [row for row in self._rows(resource) if row["slot"] < mine and row["ref"] != ref]
        if len(held) + sum(self._may_come(process, row) for row in older) < limit:
            what = (
                f"{process.name} found no slot of {resource} for {ref}: {len(held)} of {limit} held, {older} before it"
            )
            raise Violation("bounded-concurrency", what)

    def _was_changed(self, process: Process, resource: str, since_ms: int) -> bool:
        """Whether somebody else has come between."""
        return any(by is not process and at_ms >= since_ms for at_ms, by in self._changed[resource])

    def _may_come(self, process: Process, row: Item) -> bool:
        """Whether one that waits may still be expected: none of its pool was woken in vain."""
        rows = [other for other in self._rows(str(row["resource"])) if other["pool"] == row["pool"]]
        last_ms = process.earliest_ms() - _COMES_WITHIN_MS - 2 * self._world.faults.skew_max_ms
        return not any(0 < other.get("woken_at_ms", 0) < last_ms for other in rows)

    def _is_startable(self, process: Process, row: Item) -> bool:
        run = self._run(row)
        if run is None or run["status"] not in _WAITS or _due_ms(run) > process.earliest_ms():
            return False
        return bool(row["slot"].split("#")[1] == f"{_due_ms(run):013d}") and bool(self._resources(run))

    def _rows(self, resource: str) -> list[Item]:
        rows = [row for row in self._world.tables.items(RESOURCES) if row["resource"] == resource and "ref" in row]
        return sorted(rows, key=lambda row: str(row["slot"]))

    def _run(self, row: Item) -> Item | None:
        pk, _, sk = str(row["ref"]).partition("|")
        return self._world.tables.standing(TIMERS, {"pk": pk, "sk": sk})

    def _resources(self, run: Item) -> dict[str, int]:
        work = run.get("work") or self._world.work_of(run.get("job_id", ""))
        return dict(work.get("resources", {})) if isinstance(work, dict) else {}


def _due_ms(run: Item) -> int:
    return max(int(run["sk"][:10]) * 1_000, int(run.get("retry_at_ms", 0)))
