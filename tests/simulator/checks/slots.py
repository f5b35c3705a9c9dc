"""Checks on concurrency tags (F11): no slot has two holders, none is freed late, no limited run starts without one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change


class SlotChecks:
    """`_held` maps a team's slot to the run that holds it, as the runs' own items say; `_limits` a job to what it has
    limited, since when; `_fired` a job to what it limited while it fired, up to which nominal instant."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: dict[tuple[str, str], str] = {}
        self._since_ms: dict[tuple[str, str, str], int] = {}
        self._lost: set[tuple[str, str, str]] = set()
        self._limits: dict[str, list[tuple[int, dict[str, int]]]] = defaultdict(list)
        self._fired: dict[str, list[tuple[int, dict[str, int]]]] = defaultdict(list)

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
        if before is None or (before["status"], before.get("token")) != (after["status"], after.get("token")):
            for slot in (before or {}).get("slots", ()):
                self._since_ms.pop((team, slot, ref), None)  # it may take the same one again, and then since then
            if after["status"] == "running":
                self._check_limits(process, ref, after, frozenset((before or {}).get("slots", ())))
        if after["status"] != "running":
            return
        for slot in after.get("slots", ()):
            if (team, slot, ref) in self._lost:
                continue
            holder = self._held.setdefault((team, slot), ref)
            self._since_ms.setdefault((team, slot, ref), self._world.kernel.now_ms)
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

    def _check_limits(self, process: Process, ref: str, run: Item, kept: frozenset[str]) -> None:
        """The slots are those that the definition asked for, or one that it had while the call was under way. `kept`:
        what the attempt before held, whose lease has lapsed; who goes on with one of them adds no holder."""
        choices = self._limits_of(process, run)
        slots = [slot.rpartition("#") for slot in run.get("slots", ())]
        names = {name for name, _, _ in slots}
        fitting = [limits for limits in choices if limits.keys() == names]
        if not fitting:
            raise Violation(
                "bounded-concurrency", f"{process.name} started {ref} with {slots}, not a slot of {choices}"
            )
        if not any(all(int(number) < limits[name] for name, _, number in slots) for limits in fitting):
            raise Violation("bounded-concurrency", f"{process.name} started {ref} beyond the limit: {slots}")
        for name in {slot.rpartition("#")[0] for slot in run.get("slots", ()) if slot not in kept}:
            self._check_count(process, ref, run["sk"].split("#")[1], name, max(limits[name] for limits in fitting))

    def _check_count(self, process: Process, ref: str, team: str, name: str, limit: int) -> None:
        """Whatever numbers they have: after a limit was lowered those beyond it count too. (Two definitions may think
        differently of the limit: what has started beside it, this start need not have seen.)"""
        held = [(slot, holder) for (of, slot), holder in self._held.items() if of == team and holder != ref]
        others = sum(
            self._since_ms[team, slot, holder] < process.began_true_ms
            for slot, holder in held
            if slot.rpartition("#")[0] == name
        )
        if others >= limit:
            what = f"{process.name} started {ref} beside {others} that hold {name}, of which there are {limit}"
            raise Violation("bounded-concurrency", what)

    def vanished(self, row: Item) -> None:
        """A row was taken out past every rule: its slot is free, whoever held it."""
        team, _, resource = str(row["resource"]).partition("#")
        slot = f"{resource}#{row['slot']}"
        self._held.pop((team, slot), None)
        self._lost.add((team, slot, row["holder"]))

    def job_changed(self, before: Item | None, after: Item | None) -> None:
        """A definition has changed: what it fires from now on asks for other slots."""
        if after is not None and isinstance(after["work"], dict):
            limits = dict(after["work"].get("resources", {}))
            standing = self._limits[after["job_id"]]
            if not standing or standing[-1][1] != limits:
                standing.append((self._world.kernel.now_ms, limits))
            if before is not None and before["fired_through_ms"] < after["fired_through_ms"]:
                self._fired[after["job_id"]].append((after["fired_through_ms"], limits))

    def _limits_of(self, process: Process, run: Item) -> list[dict[str, int]]:
        """What the definition limited that fired the run; of one that is not fired yet, what its job's has limited at
        any time since the call began. None when it has none (a poisoned item)."""
        if "work" in run:
            return [dict(run["work"].get("resources", {}))]
        fired = [limits for through_ms, limits in self._fired[run["job_id"]] if through_ms >= run["scheduled_at_ms"]]
        if fired:
            return fired[:1]
        standing = self._limits[run["job_id"]]
        ends_ms = [at_ms for at_ms, _ in standing[1:]] + [self._world.kernel.now_ms]
        return [
            limits for (_, limits), end_ms in zip(standing, ends_ms, strict=True) if end_ms >= process.began_true_ms
        ]
