"""Checks on `cancel_other`: whoever holds a job while one waits for it is asked to end, for that and for nothing else;
one waits, and it is the newest; what it replaces names it.

That two are never at once, and that what waits goes or ends, is asked of it as of every policy (`overlaps`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulator.checks.by_hand import is_by_hand
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import parse_ledger_key
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.core.runs.endings import retry_key
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.checks.overlaps import OverlapChecks
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

_POLICY, _WHY = "cancel_other", "cancel_other: "
_LOOKS_MAX = 2
"""Looks in a row that leave a holder unasked: one may have met a change in the middle of it, or a busy store."""


_VALUE = (
    "version",
    "next_scheduled_at_ms",
    "holders",
    "held_through_ms",
    "buffer_first",
    "buffer_last",
    "buffer_count",
)


class GivingWayChecks:
    """`_left`: of each job, how many looks in a row have moved on and left a run that holds it unasked; `_moved_ms`:
    when it, or what became of a run of it, was last another than before."""

    def __init__(self, world: World, overlaps: OverlapChecks) -> None:
        self._world, self._overlaps = world, overlaps
        self._left: dict[str, int] = defaultdict(int)
        self._moved_ms: dict[str, int] = defaultdict(int)

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction, and after the checks on overlap have heard of it."""
        began = 0
        for table, before, after in changes:
            if after is not None and "job_id" in after and (before or {}).get("status") != after.get("status"):
                self._moved_ms[after["job_id"]] = self._world.kernel.now_ms
            if table is JOBS and after is not None and any((before or {}).get(one) != after.get(one) for one in _VALUE):
                self._moved_ms[after["job_id"]] = self._world.kernel.now_ms
            if table is not TIMERS or after is None:
                continue
            if "run_ref" in after:
                self._given_back(after, before)
                self._looked(process, after, before, changes)
            elif "job_id" in after and not after.get("beside"):
                began += self._changed(process, before or {}, after)
        if began:
            self._check_one_waits(process, changes)

    def _job(self, job_id: str) -> Item:
        """The job, where it has that policy and nobody's hand has been at it."""
        job = self._world.tables.standing(JOBS, {"job_id": job_id}) or {}
        return job if job.get("overlap") == _POLICY and job_id not in self._world.garbled else {}

    def _changed(self, process: Process, before: Item, after: Item) -> int:
        """What became of a run. Whether it waits now."""
        was, now = before.get("status"), after["status"]
        why = str(after.get("cancel_requested") or (after.get("reason", "") if now == "cancelled" else ""))
        if why.startswith(_WHY) and not before.get("cancel_requested"):
            self._check_asked(process, before, after)
        if now == "skipped" != was and after.get("reason") == "replaced":
            self._check_replaced(process, after)
        job = self._job(after["job_id"])
        if job.get("status") in ("active", "finished") and now == "skipped" != was and after.get("reason") == "overlap":
            raise Violation("newest-fires", f"{process.name} skipped {after['sk']}, which is to replace what waits")
        if job and was in ("pending", "waiting") and now == "running" and self._left[after["job_id"]] >= _LOOKS_MAX:
            raise Violation("gives-way", f"{process.name} started {after['sk']}, for which one has waited two looks")
        if job and (was, now) == ("buffered", "pending"):
            self._left[after["job_id"]] = 0
            newer = [one for one in self._waiting(after["job_id"]) if one["scheduled_at_ms"] > after["scheduled_at_ms"]]
            if newer and not is_by_hand(after["sk"]):
                raise Violation("newest-fires", f"{process.name} let {after['sk']} go before {newer[0]['sk']}")
        return int(bool(job) and now == "buffered" and was != "buffered")

    def _check_asked(self, process: Process, before: Item, after: Item) -> None:
        """One waits for it, under that policy, at that very moment; and it was dispatched."""
        ref, job_id = f"{after['pk']}|{after['sk']}", after["job_id"]
        if job_id in self._world.garbled:
            return
        if not self._job(job_id) or not self._waiting(job_id):
            raise Violation("gives-way", f"{process.name} cancelled {ref} for nobody")
        if before.get("status") == "pending" and not self._overlaps.is_dispatched(ref):
            raise Violation("gives-way", f"{process.name} cancelled {ref}, which holds nothing yet")
        self._world.seen[f"gave way {before.get('status')}"] += 1

    def _check_replaced(self, process: Process, after: Item) -> None:
        job_id, by = after["job_id"], after.get("replaced_by")
        if job_id in self._world.garbled:
            return
        if not self._job(job_id):
            raise Violation("gives-way", f"{process.name} had {after['sk']} replaced, which its policy does not")
        found = [one for one in self._overlaps.items_of(job_id) if _occurrence(one) == by]
        came_ms = max((int(one["scheduled_at_ms"]) for one in found), default=0)
        due_ms = max((int(one["sk"][:10]) * SECOND_MS for one in found), default=0)
        # A run by hand is of the second in which it was asked for: what was planned for before may come after it.
        is_newer = after["scheduled_at_ms"] <= came_ms or (found and is_by_hand(after["sk"]))
        if not is_newer or due_ms > process.latest_ms():
            raise Violation(
                "overlap-named", f"{process.name} had {after['sk']} replaced by {by}, no newer one that is due"
            )
        self._world.seen["item replaced"] += 1

    def _looked(self, process: Process, after: Item, before: Item | None, changes: tuple[Change, ...]) -> None:
        """A look that moves on has asked whoever holds the job."""
        is_moved = after["status"] == "pending" and before is None and any(_is_spent(change) for change in changes)
        if not is_moved or not str(after["sk"]).endswith("#look"):
            return
        _, team, name, *_ = str(after["sk"]).split("#")
        job_id = f"{team}:{name}"
        live = self._overlaps.live_of(process, job_id) if self._job(job_id) else []
        unasked = [one for one in live if not one.get("cancel_requested") and not self._lacks_retry(one)]
        self._left[job_id] = self._left[job_id] + 1 if unasked and self._waiting(job_id) else 0
        stood_still = self._moved_ms[job_id] < process.began_true_ms
        if self._left[job_id] > (0 if stood_still else _LOOKS_MAX):
            raise Violation("gives-way", f"{process.name} looks on while {unasked[0]['sk']} goes on unasked")

    def _given_back(self, after: Item, before: Item | None) -> None:
        """A retry that somebody's hand had taken out is there again: a look that began before may have been refused."""
        key = parse_ledger_key(after["pk"], after["sk"])
        if before is None and "attempt" in after and key.ref in self._world.gone:
            self._moved_ms[key.job_id] = self._world.kernel.now_ms

    def _lacks_retry(self, run: Item) -> bool:
        """Whether it waits for a retry that somebody's hand has taken out. The two end together or not at all, so that
        who asks is refused until the audit has given it back."""
        if run["status"] != "waiting":
            return False
        retry = retry_key(parse_ledger_key(run["pk"], run["sk"]), run["retry_at_ms"], run.get("attempt", 0) + 1)
        return retry.ref in self._world.gone and self._world.tables.standing(TIMERS, retry.as_item()) is None

    def _check_one_waits(self, process: Process, changes: tuple[Change, ...]) -> None:
        for job_id in {after["job_id"] for _, _, after in changes if after and after.get("status") == "buffered"}:
            waiting = len(self._waiting(job_id))
            waited = waiting
            for _, before, after in changes:
                if after is not None and after.get("job_id") == job_id and "run_ref" not in after:
                    waited += int((before or {}).get("status") == "buffered") - int(after.get("status") == "buffered")
            if self._job(job_id) and waiting > 1 >= waited:
                raise Violation("one-waits", f"{process.name} has {waiting} wait of {job_id}: the newest is to")

    def _waiting(self, job_id: str) -> list[Item]:
        return [one for one in self._overlaps.items_of(job_id) if one["status"] == "buffered"]


def _is_spent(change: Change) -> bool:
    _, _, after = change
    return bool(after) and str((after or {}).get("sk", "")).endswith("#look") and (after or {})["status"] == "spent"


def _occurrence(item: Item) -> str:
    return parse_ledger_key(item["pk"], item["sk"]).occurrence
