"""Checks on recurring jobs: chain-unbroken, every-end-recorded (no occurrence is left out), and that a chain is only
moved by who may (one-owner-effect)."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tests.simulator.checks.by_hand import is_by_hand
from tests.simulator.oracle import occurrences
from tests.simulator.places import next_pk, next_place, slice_of
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, LEASES, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.core.schedule import Calendar, Schedule, ScheduleRefused, next_after, parse_calendar, schedule_from_spec
from tickwork.core.schedule.limits import START_GRACE_MS
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

_GAP_MAX = 500
_DEFINITION = ("schedule", "work", "tolerance_s", "catch_up", "pauses")


class ChainChecks:
    """`items` maps a job's nominal instants to the key of their ledger item; `calendars` a team to the versions of its
    calendar, each with the instant since which it stands."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._items: dict[tuple[str, int], Item] = {}
        self._calendars: dict[str, list[tuple[int, Calendar]]] = defaultdict(list)
        self._since_ms: dict[str, int] = {}
        self._read: dict[tuple[Process, str], set[int]] = defaultdict(set)

    def read(self, process: Process, jobs: list[Item]) -> None:
        """A process knows definitions as they were."""
        for job in jobs:
            if isinstance(job.get("version"), int):
                self._read[process, job["job_id"]].add(job["version"])

    def changed(self, process: Process, before: Item | None, after: Item | None) -> None:
        if after is None:
            raise Violation("chain-unbroken", f"{process.name} deleted the job {before}")
        if before is not None and before["status"] != after["status"]:
            self._world.seen[f"job {before['status']} -> {after['status']}"] += 1
        if before is not None and after.get("last") and after["last_scheduled_at_ms"] < _last_ms(before):
            what = f"{process.name} noted an older run as the last of {after['job_id']}: {after.get('last')}"
            raise Violation("every-end-recorded", what)
        self._check_told_since(process, before, after)
        if before is not None and before["version"] == after["version"]:
            self._check_same(process, before, after)
            self._check_since(process, before, after)
            self._check_order(process, before, after)
        elif before is not None and before["schedule"] != after["schedule"]:
            self._since_ms[after["job_id"]] = process.earliest_ms()
        if before is None or before["next_scheduled_at_ms"] == after["next_scheduled_at_ms"]:
            return
        if before["status"] != "active" or after["status"] not in ("active", "finished", "error"):
            return
        if before["version"] != after["version"]:
            self._check_change(process, before)
            self._check_silence(process, after)
            return
        self._check_fence(process, before)
        if process.kind == "scanner" and before["version"] not in self._read[process, after["job_id"]]:
            what = f"{process.name} stepped {after['job_id']}, whose version {before['version']} it has not read"
            raise Violation("chain-unbroken", what)
        if before["next_scheduled_at_ms"] in after.get("cancelled", ()):
            return
        if after["fired_through_ms"] < before["next_scheduled_at_ms"] and not self._is_planned_anew(before, after):
            what = f"{process.name} moved {after['job_id']} without passing {before['next_scheduled_at_ms']}"
            raise Violation("chain-unbroken", what)

    def _is_planned_anew(self, before: Item, after: Item) -> bool:
        """Whether zone data or a calendar has changed, and the occurrence that was next is one no more."""
        is_gone = self._world.tables.standing(TIMERS, self._next_key(before).as_item()) is None
        return bool(is_gone and before["planned_with"] != after["planned_with"])

    def _check_same(self, process: Process, before: Item, after: Item) -> None:
        """Whoever changes a definition moves its version: a step that was planned without the change is refused."""
        changed = [name for name in _DEFINITION if before.get(name) != after.get(name)]
        if changed:
            what = f"{process.name} changed {changed} of {after['job_id']} without a new version"
            raise Violation("chain-unbroken", what)

    def _check_order(self, process: Process, before: Item, after: Item) -> None:
        """Jitter spreads an occurrence up to the next one, and never beyond: they do not change places (T5). One that a
        change has kept goes by the schedule before it."""
        if self._world.checks.told.changes[after["job_id"]]:
            return
        at_ms, fire_ms = after["next_scheduled_at_ms"], before["next_fire_at_ms"]
        if (
            at_ms > before["next_scheduled_at_ms"]
            and fire_ms > at_ms
            and before["planned_with"] == after["planned_with"]
        ):
            what = f"{process.name} went on to {at_ms} of {after['job_id']}, and the one before it is due at {fire_ms}"
            raise Violation("chain-unbroken", what)

    def _check_since(self, process: Process, before: Item, after: Item) -> None:
        """Nobody has asked for what a schedule names of the time before the job got it."""
        last, since_ms = after["next_scheduled_at_ms"], self._since_ms.get(after["job_id"], 0)
        if last and last != before["next_scheduled_at_ms"] and last <= since_ms:
            what = f"{process.name} went on to {last} of {after['job_id']}, whose schedule is of {since_ms}"
            raise Violation("one-run", what)

    def _check_told_since(self, process: Process, before: Item | None, after: Item) -> None:
        """A schedule is as old as its last change: any other that makes it younger forgets what was missed."""
        since_ms = after.get("scheduled_since_ms", 0)
        if before is None or before["status"] != after["status"] or since_ms == before.get("scheduled_since_ms", 0):
            return
        if before["schedule"] == after["schedule"] and after["job_id"] not in self._world.garbled:
            what = f"{process.name} made the schedule of {after['job_id']} one of {since_ms}, and did not change it"
            raise Violation("every-end-recorded", what)

    def _check_change(self, process: Process, before: Item) -> None:
        """A change of the definition gives up only what was not due yet when it was asked for."""
        scheduled_at_ms = before["next_scheduled_at_ms"]
        if self._world.checks.groups.may_be_cancelled(before):
            return  # what is due of a cancelled job does not come back with it
        if scheduled_at_ms <= process.earliest_ms():
            what = f"{process.name} changed {before['job_id']}, and gave up {scheduled_at_ms}, which was due"
            raise Violation("every-end-recorded", what)

    def _check_silence(self, process: Process, after: Item) -> None:
        """A change is followed by no silence: each instant of the new schedule before the one it puts next had passed,
        or was cancelled by somebody."""
        next_ms = after["next_scheduled_at_ms"]
        if not next_ms or after["status"] != "active" or self._world.zone_moved:
            return
        since_ms = max(process.latest_ms(), self._world.kernel.now_ms + self._world.faults.skew_max_ms)
        for at_ms in occurrences(after["schedule"], since_ms, next_ms - 1) or []:
            place = self._items.get((after["job_id"], at_ms))
            item = self._world.tables.standing(TIMERS, place) if place else None
            if item is None or item["status"] != "cancelled":
                what = f"{process.name} changed {after['job_id']}, which is silent from {at_ms} to {next_ms}"
                raise Violation("chain-unbroken", what)

    def calendar_changed(self, after: Item | None) -> None:
        """A calendar has another version from now on."""
        if after is not None and "team" in after:
            calendar = parse_calendar({**after["spec"], "name": after["name"], "version": after["version"]})
            self._calendars[after["team"]].append((self._world.kernel.now_ms, calendar))

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction: the jobs it touched are whole."""
        touched: dict[str, Item | None] = {}
        for table, before, after in changes:
            if table is TIMERS and is_by_hand((after or before or {}).get("sk", "")):
                continue  # it is none of the chain
            if after is None or "job_id" not in after:
                if table is TIMERS and before is not None and "job_id" in before:
                    self._items.pop((before["job_id"], before["scheduled_at_ms"]), None)
                    touched.setdefault(before["job_id"], None)
                continue
            if table is TIMERS:
                self._items[after["job_id"], after["scheduled_at_ms"]] = {"pk": after["pk"], "sk": after["sk"]}
                touched.setdefault(after["job_id"], None)
            elif table is JOBS:
                touched[after["job_id"]] = before
        for job_id, before in touched.items():
            job = self._world.tables.standing(JOBS, {"job_id": job_id})
            if job is None:
                raise Violation("chain-unbroken", f"an item of {job_id}, which is not there")
            self._check_whole(job)
            self._check_behind(process, job, changes)
            if before is not None and before["status"] == "active":
                self._check_gap(process, before, job)
                self._check_passed(before, job)
            elif before is not None and before["status"] == "error":
                self._check_unparked(process, before, job)

    def ended_as_next(self, changes: tuple[Change, ...]) -> set[str]:
        """The occurrences that ended as their job's next: never passed by firing, so nobody may send them."""
        nexts = {
            (before["job_id"], before["next_scheduled_at_ms"])
            for table, before, _ in changes
            if table is JOBS and before is not None
        }
        return {
            f"{after['pk']}|{after['sk']}"
            for table, _, after in changes
            if table is TIMERS and after is not None and (after.get("job_id"), after.get("scheduled_at_ms")) in nexts
            if not is_by_hand(after["sk"])
        } - {f"{after['pk']}|{after['sk']}" for _, _, after in changes if after and after.get("status") == "pending"}

    def _check_fence(self, process: Process, before: Item) -> None:
        """A scanner moves the chains of its slice only while its token stands."""
        slice_id = slice_of(self._world, next_pk(self._world, before))
        granted = process.tokens.get(slice_id)
        if granted is None:
            return
        lease = self._world.tables.standing(LEASES, {"slice": slice_id})
        if lease is not None and lease["token"] > granted:
            what = f"{process.name} (token {granted}) moved a chain of {slice_id}, which is at token {lease['token']}"
            raise Violation("one-owner-effect", what)

    def _check_whole(self, job: Item) -> None:
        if job["status"] != "active":
            return
        scheduled_at_ms = job["next_scheduled_at_ms"]
        if scheduled_at_ms <= job["fired_through_ms"]:
            raise Violation("chain-unbroken", f"the next of {job['job_id']} was passed already: {job}")
        key = self._next_key(job)
        item = self._world.tables.standing(TIMERS, key.as_item())
        if item is None and key.ref in self._world.gone:
            return  # somebody's hand has taken it out: the reconciler puts it back
        if item is None or item["status"] != "pending":
            status = "missing" if item is None else item["status"]
            raise Violation("chain-unbroken", f"the next of {job['job_id']} ({key.ref}) is {status}")

    def _check_behind(self, process: Process, job: Item, changes: tuple[Change, ...]) -> None:
        """What a step has skipped lies behind: the job says how far its chain has come (T6, W10)."""
        skipped = [
            item["scheduled_at_ms"]
            for table, was, item in changes
            if table is TIMERS and item is not None and item.get("job_id") == job["job_id"]
            if item["status"] == "skipped" and (was is None or was["status"] == "pending")
        ]
        if skipped and max(skipped) > job["fired_through_ms"]:
            what = (
                f"{process.name} skipped {max(skipped)} of {job['job_id']}, which has come to {job['fired_through_ms']}"
            )
            raise Violation("chain-unbroken", what)

    def _check_passed(self, before: Item, after: Item) -> None:
        """The occurrence that was next: given up by whoever changed the job, skipped while the job was paused."""
        passed_ms = before["next_scheduled_at_ms"]
        place = ("next_scheduled_at_ms", "next_fire_at_ms", "next_shard")
        if not passed_ms or [before[name] for name in place] == [after[name] for name in place]:
            return
        item = self._world.tables.standing(TIMERS, self._next_key(before).as_item())
        status = item["status"] if item else "missing"
        if before["version"] != after["version"] and status == "pending":
            raise Violation("one-run", f"a change of {before['job_id']} has left {passed_ms} pending")
        is_paused = any(
            pause["from_ms"] <= passed_ms < pause.get("until_ms", passed_ms + 1) for pause in before.get("pauses", ())
        )
        if status == "missing" and self._is_planned_anew(before, after):
            return
        if is_paused and status not in ("skipped", "cancelled") and after["status"] != "error":
            raise Violation("cancelled-stays", f"{before['job_id']} passed {passed_ms}, {status}, while it was paused")

    def _next_key(self, job: Item) -> LedgerKey:
        at_ms, fire_ms = job["next_scheduled_at_ms"], job["next_fire_at_ms"]
        return LedgerKey(*next_place(self._world, job), fire_ms, job["team"], job["name"], at_ms)

    def _check_gap(self, process: Process, before: Item, after: Item) -> None:
        """Every nominal instant between the old next and the new one has its record."""
        first, last = before["next_scheduled_at_ms"], after["next_scheduled_at_ms"]
        if before["version"] != after["version"] or after["status"] not in ("active", "finished") or first == last:
            return
        if before["planned_with"] != after["planned_with"] and (after["job_id"], first) not in self._items:
            return  # planned anew: the occurrence that was next is one no more
        wrong = [self._wrong_gap(before, after, calendars) for calendars in self._calendars_of(process, before)]
        if all(wrong):
            raise wrong[0] or AssertionError

    def _check_unparked(self, process: Process, before: Item, after: Item) -> None:
        """A job that goes on after it was parked goes on where it stood: what was due is fired or on record."""
        if before["version"] != after["version"] or after["status"] != "active" or not before["fired_through_ms"]:
            return
        if "calendars" in self._spec_of(after):  # what a calendar left out is neither late nor missed
            return
        resumed = before | {"next_scheduled_at_ms": before["fired_through_ms"]}
        if (wrong := self._wrong_gap(resumed, after, {})) is not None:
            raise wrong

    def _schedule_of(self, job: Item) -> Schedule:
        return schedule_from_spec(self._spec_of(job))

    def _spec_of(self, job: Item) -> dict[str, Any]:
        """A job's schedule as it is stored; of one that somebody has garbled, what it was before."""
        try:
            schedule_from_spec(job["schedule"])
        except ScheduleRefused:
            return self._world.garbled[job["job_id"]]
        return dict(job["schedule"])

    def _wrong_gap(self, before: Item, after: Item, calendars: dict[str, Calendar]) -> Violation | None:
        """What is wrong with a step of the chain, by one version of its calendars."""
        job_id, schedule = after["job_id"], self._schedule_of(before)
        since_ms = after.get("scheduled_since_ms", 0) if schedule.is_recurring else 0
        last = after["next_scheduled_at_ms"]
        at_ms: int | None = before["next_scheduled_at_ms"]
        for _ in range(_GAP_MAX):
            at_ms = next_after(schedule, max(at_ms, since_ms), calendars) if at_ms is not None else None
            if at_ms == (last or None) or _is_begun_at_once(schedule, last, since_ms, calendars):
                return None
            if at_ms is None or (last and at_ms > last):
                return Violation("chain-unbroken", f"{job_id} went to {last}, not one of its instants")
            if (job_id, at_ms) not in self._items:
                return Violation("every-end-recorded", f"{job_id} left out {at_ms} without a record")
        return Violation("every-end-recorded", f"{job_id} left out more than {_GAP_MAX} instants")

    def _calendars_of(self, process: Process, job: Item) -> list[dict[str, Calendar]]:
        """The calendars of a job as they stood at any time since the process began: it may have read any of them."""
        spec = self._spec_of(job)
        if "calendars" not in spec:
            return [{}]
        standing = self._calendars[job["team"]]
        ends_ms = [at_ms for at_ms, _ in standing[1:]] + [self._world.kernel.now_ms]
        (name,) = spec["calendars"]["exclude"]
        return [
            {name: calendar}
            for (_, calendar), end_ms in zip(standing, ends_ms, strict=True)
            if end_ms >= process.began_true_ms
        ]


def _is_begun_at_once(schedule: Schedule, at_ms: int, since_ms: int, calendars: dict[str, Calendar]) -> bool:
    """Who starts a rate, or a rule, at the present means the present: its very first instant is due though it passed a
    moment before the change was carried out."""
    if not at_ms <= since_ms <= at_ms + START_GRACE_MS + SECOND_MS:
        return False
    return next_after(schedule, 0, calendars) == at_ms


def _last_ms(job: Item) -> int:
    """The nominal time of the last run that a job has noted; one that is made anew has none."""
    return int(job.get("last_scheduled_at_ms", 0))
