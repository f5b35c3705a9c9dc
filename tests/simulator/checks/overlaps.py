"""Checks on overlap: under `skip` no run is dispatched beside another of its job, and a skipped one names what held it.

They follow each item of a job by itself: what its chain has passed and left pending was dispatched, and lives until it
ends. They know nothing of holders.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulator.checks.by_hand import is_by_hand
from tests.simulator.rollouts import as_planned, follows_overlap
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import parse_ledger_key
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

_LIVE = frozenset({"running", "waiting"})
_CLOCKS_MS = 2_000


class OverlapChecks:
    """`_items`: of each job its items as they stand, by ref; `_dispatched`: those that its chain has passed."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: dict[str, dict[str, Item]] = defaultdict(dict)
        self._dispatched: set[str] = set()

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction."""
        fired: list[tuple[Item, str]] = []
        for table, before, after in changes:
            if table is TIMERS:
                fired += self._item_changed(process, before, after)
        for table, before, after in changes:
            if table is JOBS and before is not None and after is not None:
                fired += self._job_changed(before, after)
        for job, ref in fired:
            self._check_alone(process, job, ref)

    def _item_changed(self, process: Process, before: Item | None, after: Item | None) -> list[tuple[Item, str]]:
        item = after or before or {}
        job_id, ref = item.get("job_id"), f"{item.get('pk')}|{item.get('sk')}"
        if job_id is None or "run_ref" in item:
            return []
        if after is None:
            self._items[job_id].pop(ref, None)
            return []
        self._items[job_id][ref] = after
        if after.get("beside"):
            return []
        job = self._world.tables.standing(JOBS, {"job_id": job_id})
        if is_by_hand(ref) and before is None:
            self._dispatched.add(ref)
            return [(job, ref)] if job is not None else []
        if after["status"] == "pending" and (before is None or before["status"] != "pending"):
            self._dispatched.discard(ref)
        if after["status"] == "skipped" and (before or {}).get("status") != "skipped":
            self._check_skip(process, after)
        is_replay = before is not None and (before["status"], after["status"]) == ("dead", "waiting")
        return [(job, ref)] if is_replay and job is not None else []

    def _job_changed(self, before: Item, after: Item) -> list[tuple[Item, str]]:
        """The occurrence that a step has passed and left pending was fired."""
        passed_ms = before.get("next_scheduled_at_ms")
        if before["version"] != after["version"] or not passed_ms or passed_ms == after["next_scheduled_at_ms"]:
            return []
        fire_at_ms = before["next_fire_at_ms"]
        pk = f"{self._world.cell}#{before['next_shard']:04d}#{fire_at_ms // 60_000:08d}"
        sk = f"{fire_at_ms // SECOND_MS:010d}#{before['team']}#{before['name']}#{passed_ms // SECOND_MS:010d}"
        item = self._items[before["job_id"]].get(f"{pk}|{sk}")
        if item is None or item["status"] != "pending" or after.get("fired_through_ms", 0) < passed_ms:
            return []
        self._dispatched.add(f"{pk}|{sk}")
        return [(before, f"{pk}|{sk}")]

    def _check_alone(self, process: Process, job: Item, ref: str) -> None:
        item = self._items[job["job_id"]][ref]
        is_asked_for = bool(item.get("replays")) or is_by_hand(ref)
        if self._world.shape.roll_outs is not None and is_asked_for and follows_overlap(job):
            return  # it goes by what is in force when somebody asks, which a process may not know yet
        job = as_planned(self._world, job, item)
        if job.get("overlap", "allow") != "skip" or job.get("status") == "deleted":
            return
        self._world.seen["fired under skip"] += 1
        others = [other for other in self._items[job["job_id"]] if other != ref and self._is_live(process, job, other)]
        if others:
            raise Violation("no-overlap", f"{process.name} fired {ref} beside {others[0]}")

    def _is_live(self, process: Process, job: Item, ref: str) -> bool:
        item = self._items[job["job_id"]][ref]
        if item.get("beside"):
            return False
        if item.get("cancel_requested") and item["status"] == "running":
            return bool(item["lease_until_ms"] + _CLOCKS_MS >= process.latest_ms())
        return item["status"] in _LIVE or (item["status"] == "pending" and ref in self._dispatched)

    def _check_skip(self, process: Process, item: Item) -> None:
        """It says what held it, and that had not ended before somebody began to look."""
        by, why = item.get("held_by"), item.get("reason")
        if (why == "overlap") != (by is not None):
            raise Violation("overlap-named", f"{process.name} skipped {item['sk']} for {why!r}, held by {by}")
        if by is None:
            return
        self._world.seen["item overlap"] += 1
        holders = [one for one in self._items[item["job_id"]].values() if _run_of(one) == by["occurrence"]]
        ended_ms = [one.get("ended_at_ms", 0) for one in holders]
        began_ms = process.earliest_ms() - 2 * self._world.faults.skew_max_ms
        if not holders or all(0 < at_ms < began_ms for at_ms in ended_ms):
            raise Violation("overlap-named", f"{process.name} skipped {item['sk']} because of {by}, which had ended")


def _run_of(item: Item) -> str:
    return parse_ledger_key(item["pk"], item["sk"]).occurrence
