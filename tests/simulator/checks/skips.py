"""Whether skips were right, and whether what was acknowledged holds: judged by what callers were told and by an oracle
that shares no code with the chain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulator.checks.by_hand import is_by_hand
from tests.simulator.checks.told import NEVER_MS, Told
from tests.simulator.oracle import Missed, occurrences, why_firing_is_wrong, why_skip_is_wrong
from tests.simulator.places import is_left_to_team, next_pk
from tests.simulator.rollouts import as_planned
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

_LATE_REASONS = ("skipped_outage", "too_late")
_PUNCTUAL_MS = 5_000
"""Written out again: what is no later than this fires, also behind what was missed."""
_SLACK_MS = 1_500
"""Beside the skew of clocks: items lie on whole seconds, and an answer takes its time."""


class SkipChecks:
    """`_outages`: of a process, and a job of which it has skipped what was missed: when it began, by which policy."""

    def __init__(self, world: World, told: Told) -> None:
        self._world = world
        self._told = told
        self._outages: dict[tuple[Process, str], tuple[int, str]] = {}

    @property
    def _slack_ms(self) -> int:
        return self._world.faults.skew_max_ms + _SLACK_MS

    def started(self, process: Process, ref: str, run: Item) -> None:
        """A first attempt has started: nobody had been told that it would not."""
        job_id, scheduled_at_ms = run.get("job_id"), run.get("scheduled_at_ms", 0)
        if job_id is None or run["attempt"] != 1 or is_by_hand(ref):
            return  # what somebody asks for runs, whatever its job is paused for
        why = ""
        if self._told.is_surely_paused(job_id, scheduled_at_ms, self._slack_ms):
            why = "its job's pause was acknowledged before it was due"
        elif self._told.is_surely_deleted(job_id, scheduled_at_ms, self._slack_ms):
            why = "its job's deletion was acknowledged before it was due"
        elif self._told.is_surely_cancelled(job_id, scheduled_at_ms):
            why = "its cancellation was acknowledged"
        elif self._told.is_surely_skipped(job_id, scheduled_at_ms):
            why = "somebody was told that it is skipped"
        if why:
            raise Violation("cancelled-stays", f"{process.name} started {ref}, but {why}")

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction: what it has skipped may be skipped, what it has fired had to be fired."""
        for table, was, item in changes:
            if was is not None and was.get("status") == "buffered":
                continue  # a wait has ended: `overlaps` judges that
            if table is TIMERS and item is not None and item.get("status") == "skipped":
                owner = self._owner(changes, item)
                if owner is not None:
                    self._check_skip(process, owner, item, is_first=was is not None and was["status"] == "pending")
        for table, was, now in changes:
            if table is JOBS and was is not None and now is not None:
                self._check_fired(process, was, now)

    @staticmethod
    def _owner(changes: tuple[Change, ...], item: Item) -> Item | None:
        """The job of an item as it was before the transaction."""
        return next(
            (was for table, was, _ in changes if table is JOBS and was and was["job_id"] == item.get("job_id")), None
        )

    def _check_skip(self, process: Process, job: Item, item: Item, *, is_first: bool) -> None:
        reason, job_id, scheduled_at_ms = str(item["reason"]), job["job_id"], item["scheduled_at_ms"]
        if not is_first:  # what is skipped before it was put never starts, and bears no label: its job's group has it
            item = item | {"group": job.get("group")}
        if reason not in _LATE_REASONS:
            is_paused = self._world.checks.paused.may_cover(item)
            is_paused = is_paused or self._told.may_be_paused(job_id, scheduled_at_ms, self._slack_ms)
            if reason.startswith("paused ") and not is_paused:
                raise Violation(
                    "every-end-recorded", f"{process.name} skipped {scheduled_at_ms} of {job_id} as paused: it is not"
                )
            if reason.startswith("skipped by ") and not self._told.may_be_skipped(job_id, scheduled_at_ms):
                what = f"{process.name} skipped {scheduled_at_ms} of {job_id}, which nobody wants skipped"
                raise Violation("every-end-recorded", what)
            return
        job = as_planned(self._world, job, self._planned(job) if not is_first else item)
        if reason == "skipped_outage":
            self._outages[process, job_id] = process.earliest_ms(), _policy_of(job)
        if self._world.checks.paused.may_cover(item):
            return  # what became of it by its policy depends on what was kept then
        missed = self._missed(process, job, scheduled_at_ms, int(item["sk"][:10]) * SECOND_MS)
        why = why_skip_is_wrong(missed, reason, job["schedule"], is_first=is_first)
        if why is not None:
            raise Violation(
                "every-end-recorded", f"{process.name} skipped {scheduled_at_ms} of {job_id} as {reason}: {why}"
            )

    def _check_fired(self, process: Process, before: Item, after: Item) -> None:
        """The occurrence that a step has passed and left pending: it was fired."""
        passed_ms = before["next_scheduled_at_ms"]
        if before["version"] != after["version"] or not passed_ms or passed_ms == after["next_scheduled_at_ms"]:
            return
        if before["status"] != "active" or after["status"] == "error":
            return
        fire_at_ms = before["next_fire_at_ms"]
        item = self._planned(before)
        if item is None or item["status"] != "pending" or self._world.checks.paused.may_cover(item):
            return
        planned = as_planned(self._world, before, item)
        missed = self._missed(process, planned, passed_ms, fire_at_ms)
        if self._was_held_back(item):
            missed = replace(missed, policy="all")
        else:
            self._check_outage(process, planned, after)
        why = why_firing_is_wrong(missed, before["schedule"])
        if why is not None:
            raise Violation(
                "every-end-recorded",
                f"{process.name} fired {passed_ms} of {before['job_id']}, which is to be skipped: {why}",
            )
        self._check_instant(process, before, passed_ms)

    def _was_held_back(self, item: Item) -> bool:
        """Whether a bound of what its cell dispatches may have left it to its team's row: then it has waited, and was
        not missed (F10)."""
        return bool(self._world.shape.cells) and is_left_to_team(self._world, item["pk"], item["sk"])

    def _planned(self, job: Item) -> Item | None:
        """The item of a job's next occurrence, by which what it skips with it is decided, too."""
        second, nominal_s = job["next_fire_at_ms"] // SECOND_MS, job["next_scheduled_at_ms"] // SECOND_MS
        sk = f"{second:010d}#{job['team']}#{job['name']}#{nominal_s:010d}"
        return self._world.tables.standing(TIMERS, {"pk": next_pk(self._world, job), "sk": sk})

    def _check_outage(self, process: Process, before: Item, after: Item) -> None:
        """What was missed is told as missed to its end, in however many steps: behind a skip none of it fires, but for
        the newest under `latest` (F8)."""
        seen_ms, was = self._outages.get((process, before["job_id"]), (0, ""))
        until_ms, policy = seen_ms - _PUNCTUAL_MS - _SLACK_MS, _policy_of(before)
        if policy != was:
            return  # planned by other defaults, which were rolled out meanwhile
        last_ms = before["next_fire_at_ms"] if policy == "none" else after["next_fire_at_ms"]
        if policy == "latest" and _left_out(before):
            return  # a newer one may be paused
        if policy in ("none", "latest") and 0 < last_ms < until_ms:
            what = f"{process.name} fired {before['next_scheduled_at_ms']} of {before['job_id']} behind what it skipped"
            raise Violation("every-end-recorded", f"{what} of the same outage, under {policy}")

    def _check_instant(self, process: Process, job: Item, scheduled_at_ms: int) -> None:
        """It is one of the instants of its job's schedule. (After a change it may be one of the schedule before.)"""
        if self._told.changes[job["job_id"]] or job["job_id"] in self._world.garbled or self._world.zone_moved:
            return
        known = occurrences(job["schedule"], scheduled_at_ms - 1, scheduled_at_ms)
        if known is not None and known != [scheduled_at_ms]:
            raise Violation(
                "chain-unbroken",
                f"{process.name} fired {scheduled_at_ms} of {job['job_id']}, no instant of its schedule",
            )

    def _missed(self, process: Process, job: Item, scheduled_at_ms: int, fire_at_ms: int) -> Missed:
        policy = job.get("catch_up", {})
        return Missed(
            scheduled_at_ms,
            fire_at_ms,
            job["tolerance_s"] * SECOND_MS,
            policy.get("policy", "latest"),
            policy.get("last", 0),
            policy.get("max_lateness_s", 0) * SECOND_MS,
            job.get("scheduled_since_ms", 0),
            process.earliest_ms(),
            process.latest_ms(),
            _left_out(job),
        )


def _policy_of(job: Item) -> str:
    return str(job.get("catch_up", {}).get("policy", "latest"))


def _left_out(job: Item) -> list[tuple[int, int]]:
    """The spans of nominal time that somebody has paused, or told a job to skip."""
    paused = [(pause["from_ms"], pause.get("until_ms") or NEVER_MS) for pause in job.get("pauses", ())]
    skipped = [skip["at_ms"] for skip in job.get("skips", ()) if not skip.get("undone_by")]
    return paused + [(at_ms, at_ms + 1) for at_ms in skipped]
