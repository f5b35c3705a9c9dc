"""Checks on `start_within_s`: nothing is first started after its deadline, nothing ends of it before, or once started.

The deadline is read from what was asked for, and by arithmetic that shares no code with what it checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwork.core.instants import SECOND_MS
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.core.ledger.writes import Item
    from tickwork.testing.process import Process


class DeadlineChecks:
    def __init__(self, world: World) -> None:
        self._world = world

    def changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        """A run is born, starts for the first time, or expires."""
        if after is None or "run_ref" in after:
            return
        ref, now = f"{after['pk']}|{after['sk']}", after["status"]
        was_started = bool(before) and bool((before or {}).get("attempt"))
        if now == "pending":
            self._check_birth(process, ref, after)
        elif now == "running" and not was_started:
            self._check_start(process, ref, after)
        elif now == "expired":
            self._check_end(process, ref, after, was_started=was_started)

    def _check_birth(self, process: Process, ref: str, item: Item) -> None:
        within_s = self._asked_s(item)
        if within_s is None:
            return
        wanted_ms = _due_ms(item) + within_s * SECOND_MS if within_s else 0
        if item.get("start_by_ms", 0) != wanted_ms:
            what = f"{process.name} wrote {ref} to start by {item.get('start_by_ms')}, and not by {wanted_ms}"
            raise Violation("start-deadline", what)

    def _check_start(self, process: Process, ref: str, item: Item) -> None:
        """By the clock that its start has read, which may have been paused before it wrote."""
        if "start_by_ms" not in item:
            return
        self._world.seen["started by its deadline"] += 1
        if process.earliest_ms() > item["start_by_ms"]:
            late_ms = process.earliest_ms() - item["start_by_ms"]
            raise Violation("start-deadline", f"{process.name} started {ref} {late_ms} ms after its deadline")

    def _check_end(self, process: Process, ref: str, item: Item, *, was_started: bool) -> None:
        self._world.seen[f"expired by {process.name.partition('-')[0]}"] += 1
        deadline_ms = item.get("start_by_ms", 0)
        if not deadline_ms and not was_started:
            return  # for want of a worker: `sight` says whether that is long enough
        if was_started or process.latest_ms() <= deadline_ms:
            raise Violation("start-deadline", f"{process.name} ended {ref} as expired, which was in time")

    def _asked_s(self, item: Item) -> int | None:
        """What was asked for; None where nobody here can say: the job is changed meanwhile, or cannot be read."""
        if "work" in item:
            return int(item["work"].get("start_within_s", 0))
        job_id, told = item.get("job_id", ""), self._world.checks.told
        if told.changes[job_id] or told.deletions[job_id] or job_id in self._world.garbled:
            return None
        work = self._world.work_of(job_id)
        return int(work.get("start_within_s", 0)) if work else None


def _due_ms(item: Item) -> int:
    return int(item["sk"][:10]) * SECOND_MS
