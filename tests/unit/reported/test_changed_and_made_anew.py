"""Reports of jobs that somebody changes, deletes, makes anew, pauses and resumes: what is then due runs, as the preview
says, and what was is remembered of the job that it was of."""

from __future__ import annotations

from typing import Any

import pytest

from tests.actions.world import World
from tests.scenarios.stage import NOW_MS
from tests.unit.reported.reports import holds
from tickwork.core.instants import SECOND_MS, iso, parse_iso

JOB = "/jobs/shop:nightly"
OFTEN: dict[str, Any] = {"rate": "2 seconds"}
YEARLY: dict[str, Any] = {"cron": "0 2 1 1 *"}
TODAY = iso(NOW_MS)[:10]
"""The world begins at midnight."""

type Do = tuple[str, str, dict[str, Any]]


def body(schedule: dict[str, Any], **more: Any) -> dict[str, Any]:
    target = {"pool": "default", "handler": "echo"}
    retry = {"max_attempts": 3, "base_s": 12, "jitter_percent": 0}
    usual = {"team": "shop", "name": "nightly", "target": target, "retry_policy": retry}
    exact = {"tolerance_s": 0, "exact_reason": "the test counts"}
    return usual | exact | {"schedule": schedule} | more


def create(world: World, schedule: dict[str, Any], **more: Any) -> None:
    world.must("POST", "/jobs", body(schedule, **more))


def patch(world: World, **changes: Any) -> Any:
    return world.must("PATCH", JOB, {"version": world.must("GET", JOB)["version"]} | changes)


def cancel_next(world: World, times: int = 1) -> None:
    for _ in range(times):
        at = world.must("GET", JOB)["next"]["scheduled_at"]
        told = world.must("POST", "/runs:cancel", {"runs": [{"job_id": "shop:nightly", "scheduled_at": at}]})
        assert told["runs"][0]["accepted"]


def recreate(world: World, schedule: dict[str, Any], **more: Any) -> None:
    world.must("DELETE", JOB)
    create(world, schedule, **more)


def previewed(world: World, count: int) -> list[str]:
    """What the preview promises to run."""
    rows = world.must("GET", f"{JOB}/next", count=str(count))["occurrences"]
    return [row["scheduled_at"] for row in rows if "will not run" not in (row["note"] or "")]


def started(world: World) -> list[str]:
    return [held.told["scheduled_at"] for held in world.worked.starts]


# --- R2-O-01 ----------------------------------------------------------------------------------------------------------


def _cancelled_then(first: dict[str, Any], then: dict[str, Any], times: int = 1, *, anew: bool = False) -> Any:
    def act(world: World) -> None:
        create(world, first)
        cancel_next(world, times)
        (recreate if anew else patch)(world, schedule=then)

    return act


def _starts_next_year(world: World) -> None:
    create(world, OFTEN | {"start": "2027-12-01T00:00:00Z"})
    patch(world, schedule=OFTEN)


def _paused_for_a_year(world: World) -> None:
    create(world, YEARLY)
    world.must("POST", f"{JOB}/pause", {"reason": "x", "until": "2027-12-01T00:00:00Z"})
    patch(world, schedule=OFTEN)
    world.must("POST", f"{JOB}/resume", {})


def _a_calendar_that_excludes_less(world: World) -> None:
    out = [{"from": TODAY, "to": "2027-03-01"}]
    world.must("PUT", "/calendars/shop:closed", {"ranges": out})
    create(world, {"cron": "*/5 * * * *", "calendars": {"exclude": ["closed"]}})
    world.must("PUT", "/calendars/shop:closed", {"version": 1, "dates": ["2027-12-24"]})
    world.go(301)  # the reconciler meets it within five minutes (docs/api.md)


def _used_up(world: World) -> None:
    create(world, {"rate": "1 second", "count": 1})
    world.go(2)
    world.work()
    world.worked.starts.clear()
    assert world.must("GET", JOB)["status"] == "finished"
    patch(world, schedule=OFTEN)


def _moved_back_and_forth(world: World) -> None:
    create(world, {"rate": "1 hour"})
    cancel_next(world)
    patch(world, schedule=YEARLY)
    cancel_next(world)
    patch(world, schedule=OFTEN)


AHEAD = {
    "cancelled, then every two seconds": (_cancelled_then({"rate": "1 hour"}, OFTEN), 2),
    "not cancelled": (_cancelled_then({"rate": "1 hour"}, OFTEN, 0), 2),
    "yearly, cancelled, then every ten seconds": (_cancelled_then(YEARLY, {"rate": "10 seconds"}), 10),
    "yearly, cancelled, then daily": (_cancelled_then(YEARLY, {"cron": "0 2 * * *"}), 7_200),
    "made anew under its name": (_cancelled_then({"rate": "1 hour"}, OFTEN, anew=True), 2),
    "a single time moved sooner": (_cancelled_then({"at": "2027-03-01T00:00:00Z"}, {"at": f"{TODAY}T00:00:30Z"}), 30),
    "a single time made anew sooner": (
        _cancelled_then({"at": "2027-03-01T00:00:00Z"}, {"at": f"{TODAY}T00:00:30Z"}, anew=True), 30,
    ),
    "three in a row cancelled": (_cancelled_then(YEARLY, OFTEN, 3), 2),
    "a beginning of next year taken away": (_starts_next_year, 2),
    "a pause of a year that is ended": (_paused_for_a_year, 2),
    "a calendar that excludes less": (_a_calendar_that_excludes_less, 600),
    "a count that is used up": (_used_up, 4),
    "cancelled twice among two changes": (_moved_back_and_forth, 2),
    "a union, cancelled, then one of its members": (
        _cancelled_then({"any_of": [YEARLY, {"cron": "0 3 1 2 *"}]}, {"rate": "5 seconds"}), 5,
    ),
}  # fmt: skip


@holds("R2-O-01")
@pytest.mark.parametrize("name", AHEAD)
def test_what_the_preview_promises_after_a_change_begins_at_once(name: str) -> None:
    act, within_s = AHEAD[name]
    world = World()
    act(world)
    promised = previewed(world, 3)
    assert parse_iso(promised[0]) <= NOW_MS + within_s * SECOND_MS, promised
    world.work_to(parse_iso(promised[-1]) + SECOND_MS)
    assert [at for at in started(world) if at >= promised[0]][: len(promised)] == promised


# --- R2-O-02 ----------------------------------------------------------------------------------------------------------

OLD, NEW = {"is": "old"}, {"is": "new"}
FAR_MS = NOW_MS + 7_200 * SECOND_MS
"""Long after the retry; a year of windows would take a minute of ours."""
FAR = {"at": iso(FAR_MS)}
ECHO, OTHER = {"pool": "default", "handler": "echo"}, {"pool": "default", "handler": "other"}


def _anew(world: World) -> None:
    recreate(world, FAR, target=OTHER, payload=NEW)


def _payload_changed(world: World) -> None:
    patch(world, payload=NEW, schedule=FAR)


def _all_changed(world: World) -> None:
    patch(world, payload=NEW, target=OTHER, schedule=FAR)


def _deleted(world: World) -> None:
    world.must("DELETE", JOB)


def _anew_twice(world: World) -> None:
    recreate(world, FAR, payload={"is": "between"})
    recreate(world, FAR, target=OTHER, payload=NEW)


def _anew_with_one_attempt(world: World) -> None:
    recreate(world, FAR, target=OTHER, payload=NEW, retry_policy={"max_attempts": 1})


CHANGED = {
    "made anew": _anew,
    "another payload": _payload_changed,
    "another handler and payload": _all_changed,
    "deleted": _deleted,
    "made anew twice": _anew_twice,
    "made anew with fewer attempts": _anew_with_one_attempt,
}


@holds("R2-O-02")
@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("first", ["failed", "failed_permanent", "lost"])
def test_an_old_run_goes_on_with_its_own_handler_and_payload_and_the_new_job_waits(name: str, first: str) -> None:
    world = World()
    create(world, {"at": iso(NOW_MS + 2_000)}, payload=OLD)
    world.go(2)
    (held,) = world.take()
    if first != "lost":
        world.complete(held, first, error="boom")
    CHANGED[name](world)
    if first == "failed_permanent":
        again = {"team": "shop", "runs": [held.ref], "reason": "mended"}
        assert world.must("POST", "/dead-letters:replay", again)["runs"][0]["replayed"]
    world.work_to(world.at_ms + 3_600 * SECOND_MS)
    attempts = world.worked.of(held.run_id)
    assert [(one.told["handler"], one.payload) for one in attempts] == [("echo", OLD)] * 2
    assert len(world.worked.starts) == 2, "nothing of the new job runs before its time"
    if name != "deleted":
        world.worked.starts.clear()
        world.work_to(FAR_MS + SECOND_MS)
        told = [(one.told["handler"], one.payload) for one in world.worked.starts]
        assert told == [("echo" if name == "another payload" else "other", NEW)]


# --- R2-O-19 ----------------------------------------------------------------------------------------------------------


def _resumed(world: World, seconds: int) -> None:
    world.must("POST", f"{JOB}/pause", {"reason": "stocktaking"})
    world.go(seconds, world.work)
    world.must("POST", f"{JOB}/resume", {})


def _ended_by_itself(world: World, seconds: int) -> None:
    until = iso(world.at_ms + seconds * SECOND_MS)
    world.must("POST", f"{JOB}/pause", {"reason": "stocktaking", "until": until})
    world.go(seconds, world.work)


def _while_nothing_was_served(world: World, seconds: int) -> None:
    """An outage of ours is over before anybody has looked at what the pause covered."""
    world.must("POST", f"{JOB}/pause", {"reason": "stocktaking"})
    world.at_ms += seconds * SECOND_MS
    world.must("POST", f"{JOB}/resume", {})
    world.window()


def _paused_again(world: World, seconds: int) -> None:
    _resumed(world, seconds // 2)
    _resumed(world, seconds - seconds // 2)


@holds("R2-O-19")
@pytest.mark.parametrize("over", [_resumed, _ended_by_itself, _while_nothing_was_served, _paused_again])
@pytest.mark.parametrize("policy", ["latest", "all", "none"])
@pytest.mark.parametrize(("every", "seconds"), [("10 minutes", 1_510), ("10 seconds", 57)])
def test_what_elapsed_during_a_pause_does_not_run_and_the_next_runs_at_its_time(
    over: Any, policy: str, every: str, seconds: int
) -> None:
    world = World()
    create(world, {"rate": every, "anchor": iso(NOW_MS)}, catch_up={"policy": policy})
    world.go(5)
    paused_ms = world.at_ms
    over(world, seconds)
    resumed_ms = world.at_ms
    promised = previewed(world, 2)
    world.work_to(parse_iso(promised[-1]) + SECOND_MS)
    assert [at for at in started(world) if parse_iso(at) >= paused_ms] == promised
    assert parse_iso(promised[0]) >= resumed_ms
    runs = world.must("GET", f"{JOB}/runs", limit="100")["runs"]
    covered = [one for one in runs if paused_ms <= parse_iso(one["scheduled_at"]) < resumed_ms]
    assert len(covered) == (2 if every == "10 minutes" else 6)
    assert {(one["status"], one["reason"]) for one in covered} == {("skipped", "paused by local: stocktaking")}
