"""Checks on overlap: where runs may not, none is dispatched beside another of its job, or before an older one that
waits; a skipped one names what held it; and what waits, one at most, is let go or dropped when it may be.

They follow each item of a job by itself: what its chain has passed and left pending was dispatched, as was what had
waited and is pending again, and lives until it ends. They know nothing of holders. That a run which waits comes to an
end is asked when the world has come to rest (`convergence`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulator.checks.by_hand import is_by_hand
from tests.simulator.places import next_pk
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
_STRICT = ("skip", "buffer_one", "buffer_all", "cancel_other")
_HELD_UP = ("overlap", "buffer_full")
_USUAL = 100
_INDEX_BEHIND_MS = 60_000


class OverlapChecks:
    """`_items`: of each job its items as they stand, by ref; `_dispatched`: those that its chain has passed; `_came`:
    the how many-th it was that has come to wait."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: dict[str, dict[str, Item]] = defaultdict(dict)
        self._dispatched: set[str] = set()
        self._came: dict[str, int] = {}

    def items_of(self, job_id: str) -> list[Item]:
        return list(self._items[job_id].values())

    def is_dispatched(self, ref: str) -> bool:
        return ref in self._dispatched

    def live_of(self, process: Process, job_id: str) -> list[Item]:
        """The runs of a job that have been dispatched and have not ended."""
        job = self._world.tables.standing(JOBS, {"job_id": job_id}) or {}
        return [one for ref, one in self._items[job_id].items() if self._is_live(process, job, ref)]

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
        if ref.endswith("#look") and (after or {}).get("status") != "pending":
            _, team, name, *_ = str(item["sk"]).split("#")
            self._check_looked_at(process, f"{team}:{name}")
        if job_id is None or "run_ref" in item:
            return []
        if after is None:
            self._items[job_id].pop(ref, None)
            return []
        self._items[job_id][ref] = after
        was, now = (before or {}).get("status"), after["status"]
        if after.get("beside"):
            return []
        job = self._world.tables.standing(JOBS, {"job_id": job_id})
        if is_by_hand(ref) and before is None and now == "pending":
            self._dispatched.add(ref)
            return [(job, ref)] if job is not None else []
        if now == "pending" and was != "pending":
            self._dispatched.discard(ref)
        if was == now == "buffered":
            return []  # another one waits behind it
        if was == "buffered":
            self._check_released(process, job or {}, after)
        elif now == "skipped" != was:
            self._check_skip(process, after)
        elif now == "buffered":
            self._check_buffered(process, after)
        is_fired = (was, now) in {("dead", "waiting"), ("buffered", "pending")}
        if (was, now) == ("buffered", "pending"):
            self._dispatched.add(ref)
        return [(job, ref)] if is_fired and job is not None else []

    def _job_changed(self, before: Item, after: Item) -> list[tuple[Item, str]]:
        """The occurrence that a step has passed and left pending was fired."""
        passed_ms = before.get("next_scheduled_at_ms")
        if before["version"] != after["version"] or not passed_ms or passed_ms == after["next_scheduled_at_ms"]:
            return []
        fire_at_ms = before["next_fire_at_ms"]
        pk = next_pk(self._world, before)
        sk = f"{fire_at_ms // SECOND_MS:010d}#{before['team']}#{before['name']}#{passed_ms // SECOND_MS:010d}"
        item = self._items[before["job_id"]].get(f"{pk}|{sk}")
        if item is None or item["status"] != "pending" or after.get("fired_through_ms", 0) < passed_ms:
            return []
        self._dispatched.add(f"{pk}|{sk}")
        return [(before, f"{pk}|{sk}")]

    def _check_alone(self, process: Process, job: Item, ref: str) -> None:
        mine = self._items[job["job_id"]][ref]
        is_asked_for = bool(mine.get("replays")) or is_by_hand(ref)
        if self._world.shape.roll_outs is not None and is_asked_for and follows_overlap(job):
            return  # it goes by what is in force when somebody asks, which a process may not know yet
        job = as_planned(self._world, job, mine)
        came = self._came.get(ref, len(self._came))
        older = [one for one in self._waiting(job["job_id"]) if self._came[_ref_of(one)] < came]
        if older and not (is_by_hand(ref) and job.get("overlap", "allow") == "allow"):
            raise Violation("no-overtaking", f"{process.name} fired {ref} before {older[0]['sk']}, which waits")
        if job.get("overlap", "allow") not in _STRICT or job.get("status") == "deleted":
            return
        if "stale_index" in self._world.classes and 2 * self._world.faults.skew_max_ms > _INDEX_BEHIND_MS:
            return  # that an index is behind is known by what was fired a minute ago, and by clocks
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
        if why not in _HELD_UP and item.get("released_at_ms"):
            return  # it had waited before, and says for whom; what it is skipped for now is something else
        if (why in _HELD_UP) != (by is not None):
            raise Violation("overlap-named", f"{process.name} skipped {item['sk']} for {why!r}, held by {by}")
        if by is None:
            return
        self._world.seen["item overlap"] += 1
        self._check_holder(process, item, by)

    def _check_holder(self, process: Process, item: Item, by: Item) -> None:
        holders = [one for one in self._items[item["job_id"]].values() if _run_of(one) == by["occurrence"]]
        ended_ms = [one.get("ended_at_ms", 0) for one in holders]
        began_ms = process.earliest_ms() - 2 * self._world.faults.skew_max_ms
        if not holders or all(0 < at_ms < began_ms for at_ms in ended_ms):
            what = f"{process.name} had {item['sk']} {item['status']} because of {by}, which had ended"
            raise Violation("overlap-named", what)

    def _waiting(self, job_id: str) -> list[Item]:
        return [one for one in self._items[job_id].values() if one["status"] == "buffered"]

    def _check_buffered(self, process: Process, item: Item) -> None:
        """No more wait than may, and each says for whom; the look at the oldest stands."""
        ref, waiting = _ref_of(item), self._waiting(item["job_id"])
        self._came[ref] = len(self._came)
        job = self._world.tables.standing(JOBS, {"job_id": item["job_id"]}) or {}
        room = {"buffer_one": 1, "buffer_all": job.get("buffer_max") or _USUAL}.get(job.get("overlap", ""), 0)
        room = len(waiting) if job.get("overlap") == "cancel_other" else room  # checks/giving_way
        if len(waiting) > room and self._is_named(job):
            raise Violation("one-waits", f"{process.name} has {ref} wait beside {len(waiting) - 1} others of its job")
        if item.get("reason") != "overlap" or not item.get("held_by"):
            raise Violation("overlap-named", f"{process.name} has {ref} wait, and does not say for whom: {item}")
        self._check_holder(process, item, item["held_by"])
        self._world.seen[f"{min(len(waiting), 3)} wait"] += 1
        self._check_looked_at(process, item["job_id"])

    def _check_looked_at(self, process: Process, job_id: str) -> None:
        """The oldest that waits is looked at."""
        waiting = sorted(self._waiting(job_id), key=lambda one: self._came[_ref_of(one)])
        if not waiting:
            return
        ref = _ref_of(waiting[0])
        # One before it that was cancelled while it waited is looked at first, and stepped over.
        stepped_over = {
            _ref_of(one)
            for one in self._items[job_id].values()
            if one["status"] == "cancelled" and self._came.get(_ref_of(one), len(self._came)) < self._came[ref]
        }
        looks = [one for one in self._world.tables.items(TIMERS) if one.get("run_ref") in {ref, *stepped_over}]
        if not any(one["status"] == "pending" for one in looks) and ref not in self._world.gone:
            raise Violation("no-lost-timer", f"{process.name} has {ref} wait, and nobody is to look at it")

    def _check_released(self, process: Process, job: Item, after: Item) -> None:
        """A wait has ended: how, and by whom. Who cancels one that is not the oldest leaves the others as they are."""
        if after["status"] != "cancelled":
            self._check_looked_at(process, after["job_id"])
        ref, now, reason = f"{after['pk']}|{after['sk']}", after["status"], str(after.get("reason", ""))
        paused = [
            pause
            for pause in job.get("pauses", ())
            if pause["from_ms"] <= process.latest_ms() and process.earliest_ms() < pause.get("until_ms", 10**15)
        ]
        if now == "pending":
            by = {"api": "the one that ended the holder", "scanner": "a look"}.get(process.kind, process.kind)
            self._world.seen[f"released by {by}"] += 1
            if job.get("overlap", "allow") == "skip" or job.get("status") == "deleted":
                what = f"{process.name} let {ref} go, which its job ({job.get('status')}) does not have start any more"
                raise Violation("cancelled-stays", what)
            surely = [one for one in paused if self._is_surely_in(process, one) and not is_by_hand(ref)]
            if surely:
                raise Violation("cancelled-stays", f"{process.name} let {ref} go in the pause {surely[0]}")
            if not any(self._may_start(one, after, process.earliest_ms()) for one in self._by(job, after)):
                raise Violation("every-end-recorded", f"{process.name} let {ref} go later than its job lets it")
        elif now == "skipped":
            self._world.seen["item overlap dropped"] += 1
            if reason.startswith("paused") and not paused:
                raise Violation("every-end-recorded", f"{process.name} dropped {ref} in a pause that there is not")
            if reason == "too_late" and all(
                self._may_start(one, after, process.latest_ms()) for one in self._by(job, after)
            ):
                raise Violation("every-end-recorded", f"{process.name} dropped {ref} as too late, and it was not")
            if reason == "overlap" and job.get("overlap") != "skip" and self._is_named(job):
                raise Violation("every-end-recorded", f"{process.name} dropped {ref}, which its policy has wait")

    @staticmethod
    def _is_surely_in(process: Process, pause: Item) -> bool:
        return bool(pause["from_ms"] <= process.earliest_ms() and process.latest_ms() < pause.get("until_ms", 10**15))

    def _by(self, job: Item, item: Item) -> list[Item]:
        """The job as one that waits goes by it: as it was planned by; where its runs may overlap by now, perhaps as it
        is, by defaults that a process may or may not know."""
        planned = as_planned(self._world, job, item)
        may_overlap = job.get("overlap", "allow") == "allow" or follows_overlap(job)
        if self._world.shape.roll_outs is None or not may_overlap:
            return [planned]
        return [planned, job, as_planned(self._world, job, {"defaults": 0})]

    @staticmethod
    def _may_start(job: Item, item: Item, now_ms: int) -> bool:
        """Whether it is not later, at that time, than its job has it."""
        bound_s = job.get("catch_up", {}).get("max_lateness_s", 0)
        return not bound_s or now_ms - int(item["sk"][:10]) * SECOND_MS <= bound_s * SECOND_MS

    def _is_named(self, job: Item) -> bool:
        """Whether nobody's hand has been at the job."""
        return bool(job) and job["job_id"] not in self._world.garbled


def _ref_of(item: Item) -> str:
    return f"{item['pk']}|{item['sk']}"


def _run_of(item: Item) -> str:
    return parse_ledger_key(item["pk"], item["sk"]).occurrence
