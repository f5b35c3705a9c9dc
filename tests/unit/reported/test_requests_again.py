"""Reports of clients that repeat a request: after its moment they get the first answer, and it is done once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.actions.world import Body, World
from tests.scenarios.stage import NOW_MS
from tests.unit.reported.reports import holds
from tickwork.core.instants import SECOND_MS, iso

TARGET = {"pool": "default", "handler": "echo"}
JOB = "/jobs/shop:nightly"


def at(seconds: float) -> str:
    return iso(NOW_MS + int(seconds * SECOND_MS))


def job(schedule: Body, **more: Any) -> Body:
    exact = {"tolerance_s": 0, "exact_reason": "the test counts"}
    return {"team": "shop", "name": "nightly", "schedule": schedule, "target": TARGET} | exact | more


def made(world: World) -> None:
    world.must("POST", "/jobs", job({"rate": "1 hour"}))


def nothing(_: World) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Wish:
    method: str
    path: str
    body: Body
    same: tuple[str, ...]
    """What the answer to a repeat has in common with the first one."""
    before: Callable[[World], object] = nothing
    starts: int = 0
    """How many runs it leads to in two minutes."""


def _paused(world: World) -> None:
    made(world)
    world.must("POST", f"{JOB}/pause", {"reason": "stocktaking"})


def _dead(world: World) -> None:
    """A timer that has failed for good, whose ref is known."""
    ref = world.must("POST", "/timers", {"team": "shop", "at": at(2), "target": TARGET, "client_key": "k"})["ref"]
    world.go(3)
    (held,) = world.take()
    world.complete(held, "failed_permanent", error="boom")
    world.worked.starts.clear()
    assert ref == held.ref


def _next_of(world: World) -> None:
    made(world)


_KEYED = {"team": "shop", "target": TARGET, "client_key": "k"}
_ENDS = {"cron": "* * * * *", "end": at(65)}
_OVER = {"rrule": "DTSTART:20261030T000100Z\nRRULE:FREQ=DAILY;UNTIL=20261030T000105Z"}

WISHES: dict[str, Wish] = {
    "a timer at a time": Wish("POST", "/timers", _KEYED | {"at": at(5)}, ("timer_id", "scheduled_at"), starts=1),
    "a timer after a delay": Wish("POST", "/timers", _KEYED | {"delay_s": 5}, ("timer_id", "scheduled_at"), starts=1),
    "a job at a time": Wish("POST", "/jobs", job({"at": at(5)}), ("job_id", "version", "schedule"), starts=1),
    "a job after a delay": Wish("POST", "/jobs", job({"delay": "5s"}), ("job_id", "version", "schedule"), starts=1),
    "a job with an end": Wish("POST", "/jobs", job(_ENDS), ("job_id", "version", "schedule"), starts=1),
    "a job with UNTIL": Wish("POST", "/jobs", job(_OVER), ("job_id", "version", "schedule"), starts=1),
    "a job with a count": Wish("POST", "/jobs", job({"rate": "5s", "count": 2}), ("job_id", "schedule"), starts=2),
    "a change to a time": Wish(
        "PATCH", JOB, {"version": 1, "schedule": {"at": at(5)}}, ("version", "schedule"), made, 1
    ),
    "a change with an end": Wish("PATCH", JOB, {"version": 1, "schedule": _ENDS}, ("version", "schedule"), made, 1),
    "a pause until": Wish("POST", f"{JOB}/pause", {"reason": "x", "until": at(30)}, ("version", "pauses"), made),
    "a resumption": Wish("POST", f"{JOB}/resume", {}, ("version", "changed", "pauses"), _paused),
    "a deletion": Wish("DELETE", JOB, {}, ("job_id", "deleted", "deleted_at"), made),
    "a cancellation": Wish(
        "POST", "/runs:cancel", {"runs": [{"job_id": "shop:nightly", "scheduled_at": at(3_600)}]}, ("runs",), _next_of
    ),
}  # fmt: skip


def ask(world: World, wish: Wish) -> Any:
    answer = world.ask(wish.method, wish.path, None if wish.method == "DELETE" else wish.body)
    assert answer.is_ok, answer
    return {name: answer.body[name] for name in wish.same}


@holds("R2-O-10")
@pytest.mark.parametrize("name", WISHES)
@pytest.mark.parametrize("later_s", [70, 8 * 86_400])
def test_a_request_repeated_after_its_moment_gets_the_first_answer_and_is_done_once(name: str, later_s: int) -> None:
    world, wish = World(), WISHES[name]
    wish.before(world)
    first = ask(world, wish)
    assert ask(world, wish) == first
    world.go_to(NOW_MS + 70 * SECOND_MS, world.work)
    world.at_ms = NOW_MS + later_s * SECOND_MS
    started = len(world.worked.starts)
    assert ask(world, wish) == first
    if later_s == 70:
        world.go(60, world.work)
    assert len(world.worked.starts) == started == wish.starts


@holds("R2-O-10")
def test_a_batch_repeated_when_some_of_it_was_due_is_the_first_one() -> None:
    world = World()
    target = {"team": "shop", "target": TARGET}
    entries = [
        {"at": at(5), "client_key": "a"},
        {"delay_s": 6, "client_key": "b"},
        {"at": at(86_400), "client_key": "c"},
    ]
    batch = {"timers": [target | entry for entry in entries]}
    first = world.must("POST", "/timers:batch", batch)
    world.go(70, world.work)
    again = world.ask("POST", "/timers:batch", batch)
    assert again.status == 201
    assert [one["timer_id"] for one in again.body["timers"]] == [one["timer_id"] for one in first["timers"]]
    assert [one["created"] for one in again.body["timers"]] == [False] * 3
    world.go(60, world.work)
    assert len(world.worked.starts) == 2


@holds("R2-O-10")
def test_a_replay_repeated_while_its_run_goes_on_is_the_first_one() -> None:
    world = World()
    _dead(world)
    run = world.must("GET", "/dead-letters", team="shop")["runs"][0]
    body = {"team": "shop", "runs": [run["ref"]], "reason": "mended"}
    first = world.must("POST", "/dead-letters:replay", body)
    world.go(70)
    assert world.must("POST", "/dead-letters:replay", body) == first
    world.go(1, world.work)
    assert len(world.worked.starts) == 1


@holds("R2-O-10")
def test_a_time_that_has_passed_is_refused_where_nobody_asked_for_it_before() -> None:
    world = World()
    world.must("POST", "/timers", _KEYED | {"at": at(5)})
    world.go(70)
    assert world.ask("POST", "/timers", _KEYED | {"at": at(5), "client_key": "other"}).status == 422
    assert world.ask("POST", "/timers", _KEYED | {"at": at(6)}).status in (409, 422)
    assert world.ask("POST", "/jobs", job({"at": at(5)})).status == 422
