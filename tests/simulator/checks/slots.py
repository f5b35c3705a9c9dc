"""Checks on concurrency tags (F11): no slot has two holders, none is freed late, no limited run starts without one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import JOBS, RESOURCES
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change


class SlotChecks:
    """`_held` maps a team's slot to the run that holds it, as the runs' own items say."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[tuple[str, str], str] = {}

    def changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        """A ledger item has changed."""
        if after is None or "run_ref" in after:
            return
        team = after["sk"].split("#")[1]
        ref = f"{after['pk']}|{after['sk']}"
        if before is not None and before["status"] == "running":
            for slot in before.get("slots", ()):
                if self._held.get((team, slot)) == ref:
                    del self._held[team, slot]
        if after["status"] != "running":
            return
        self._check_limits(process, ref, after)
        for slot in after.get("slots", ()):
            holder = self._held.setdefault((team, slot), ref)
            if holder != ref:
                what = f"{process.name} started {ref} with {slot}, which {holder} holds"
                raise Violation("bounded-concurrency", what)

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction: an attempt that has ended has freed its slots."""
        for _, before, after in changes:
            if before is None or after is None or before.get("status") != "running" or not before.get("slots"):
                continue
            if after["status"] == "running" and after["token"] == before["token"]:
                continue
            team, ref = before["sk"].split("#")[1], f"{before['pk']}|{before['sk']}"
            for slot in before["slots"]:
                resource, _, number = slot.rpartition("#")
                place = {"resource": f"{team}#{resource}", "slot": number}
                row = self._world.tables.standing(RESOURCES, place)
                if row is not None and (row["holder"], row["token"]) == (ref, before["token"]):
                    raise Violation("bounded-concurrency", f"{process.name} ended {ref}, which still holds {slot}")

    def _check_limits(self, process: Process, ref: str, run: Item) -> None:
        limits = self._limits_of(run)
        slots = [slot.rpartition("#") for slot in run.get("slots", ())]
        if limits is None or {name: limits.get(name, 0) for name, _, _ in slots} != limits:
            raise Violation("bounded-concurrency", f"{process.name} started {ref} with {slots}, not a slot of {limits}")
        if any(int(number) >= limits[name] for name, _, number in slots):
            raise Violation("bounded-concurrency", f"{process.name} started {ref} beyond the limit: {slots}")

    def _limits_of(self, run: Item) -> dict[str, int] | None:
        """What the run's definition limits; None when it has none (a poisoned item)."""
        if "work" in run:
            return dict(run["work"].get("resources", {}))
        job = self._world.tables.standing(JOBS, {"job_id": run["job_id"]})
        return None if job is None else dict(job["work"].get("resources", {}))
