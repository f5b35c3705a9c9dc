"""Skipping one coming occurrence by its nominal instant, and taking that back (F12)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.runs_world import Crash, World
from tickwork.core.dispatch import chain
from tickwork.core.errors import BadSchedule, InvalidField, NotFound, TooLate, TooMany
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.jobs.overlap import SKIP
from tickwork.core.jobs.skips import SKIPS_AHEAD_MAX
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import AUDIT, JOBS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import parse_schedule
from tickwork.flows.jobs import calendars, changing, registering, skipping
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import asking, cancelling

EVERY_S = 60


@pytest.fixture
def world() -> World:
    return World()


def job_of(world: World, spec: dict[str, Any] | None = None, **more: Any) -> str:
    spec = spec or {"rate": f"{EVERY_S}s"}
    schedule = parse_schedule(spec, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = replace(NewJob("shop", "x", schedule, Work("default", "job"), 0, CatchUp(), "f"), **more)
    return registering.create_job(world.ports, new)[0].job_id


def job(world: World) -> Job:
    return registering.get_job(world.ports, "shop:x")


def upcoming(world: World, number: int = 0) -> int:
    """The nominal instant of the next occurrence, or one after it."""
    found = job(world).next
    assert found is not None
    return found.scheduled_at_ms + number * EVERY_S * SECOND_MS


def skip(world: World, at_ms: int, by: str = "ann", reason: str = "the bank is closed") -> Job:
    return skipping.skip_occurrence(world.ports, "shop:x", at_ms, by, reason)


def unskip(world: World, at_ms: int, by: str = "ann") -> bool:
    return skipping.unskip_occurrence(world.ports, "shop:x", at_ms, by)[1]


def run_at(world: World, at_ms: int) -> Run:
    (item,) = [one for one in world.store.items(TIMERS) if one.get("scheduled_at_ms") == at_ms]
    return Run.from_item(item)


def come_to(world: World, at_ms: int) -> Run:
    """Time passes, window by window, until an instant is settled."""
    while job(world).fired_through_ms < at_ms:
        world.until_due("shop:x")
    return run_at(world, at_ms)


@pytest.mark.parametrize("number", [0, 1, 3])
def test_one_that_is_skipped_is_recorded_so_with_who_and_why_and_the_others_run(world: World, number: int) -> None:
    job_of(world)
    at_ms = upcoming(world, number)
    skip(world, at_ms)
    run = come_to(world, at_ms)
    assert (run.status, run.reason, run.attempt) == ("skipped", "skipped by ann: the bank is closed", 0)
    assert not world.messages(run.key)
    others = [one for n in range(-number, 2) if n for one in [come_to(world, at_ms + n * EVERY_S * SECOND_MS)]]
    assert all(len(world.messages(one.key)) == 1 for one in others)
    assert job(world).skips == ()


def test_what_is_taken_back_runs(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world, 1)
    skip(world, at_ms)
    assert unskip(world, at_ms)
    assert world.messages(come_to(world, at_ms).key)


def test_both_may_be_repeated(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world)
    first = skip(world, at_ms)
    assert skip(world, at_ms).version == first.version
    assert skip(world, at_ms, by="bob", reason="other").skips == first.skips, "the first has said it"
    assert unskip(world, at_ms)
    version = job(world).version
    assert unskip(world, at_ms), "the same person is told the same again"
    assert not unskip(world, at_ms, by="bob")
    assert job(world).version == version
    assert skip(world, at_ms).version == version + 1, "that is a new wish"
    assert come_to(world, at_ms).status == "skipped"


def test_a_repeat_is_answered_also_when_the_time_has_passed(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world)
    skip(world, at_ms)
    come_to(world, at_ms)
    assert skip(world, at_ms).fired_through_ms == at_ms
    for other in ({"by": "bob"}, {"reason": "another"}):
        with pytest.raises(TooLate, match="skipped by ann"):
            skip(world, at_ms, **other)
    with pytest.raises(TooLate, match="skipped at its time"):
        unskip(world, at_ms)


def test_one_that_was_dispatched_is_refused_with_what_became_of_it(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world)
    run = come_to(world, at_ms)
    for status in ("pending", "running", "succeeded"):
        with pytest.raises(TooLate, match=f"dispatched, and is {status}"):
            skip(world, at_ms)
        if status == "pending":
            world.must_start(run.key)
        if status == "running":
            world.complete(run.key, 1)
    assert not unskip(world, at_ms)
    with pytest.raises(TooLate, match="passed"):
        skip(world, at_ms - 7 * SECOND_MS)


def test_one_that_is_due_and_was_not_dispatched_yet_is_skipped(world: World) -> None:
    """By its nominal instant; when it fires is another question."""
    job_of(world)
    at_ms = upcoming(world)
    world.clock.at_ms = at_ms + 2 * SECOND_MS
    skip(world, at_ms)
    assert come_to(world, at_ms).status == "skipped"


def test_an_instant_that_the_schedule_has_not_is_refused_with_the_nearest(world: World) -> None:
    job_of(world)
    first = upcoming(world)
    for at_ms, nearest in (
        (first + 61 * SECOND_MS, [first + 60_000, first + 120_000]),
        (first + 59 * SECOND_MS + 1, [first, first + 60_000]),
        (first - 30 * SECOND_MS, [first]),
        (first + 500, [first, first + 60_000]),
    ):
        with pytest.raises(InvalidField) as refused:
            skip(world, at_ms)
        assert refused.value.remedy.endswith(": " + " and ".join(iso(one) for one in nearest)), iso(at_ms)
        assert refused.value.field == "scheduled_at"
    assert job(world).version == 1


def test_behind_the_end_of_a_schedule_the_last_one_is_the_nearest(world: World) -> None:
    start = iso(world.clock.at_ms + 5 * SECOND_MS)
    job_of(world, {"rate": "60s", "count": 3, "start": start})
    last = upcoming(world, 2)
    with pytest.raises(InvalidField) as refused:
        skip(world, last + 60 * SECOND_MS)
    assert refused.value.remedy.endswith(f": {iso(last)}")


def test_what_a_calendar_excludes_is_no_occurrence(world: World) -> None:
    at_ms = world.clock.at_ms
    span = {"from": iso(at_ms + 90_000).rstrip("Z"), "to": iso(at_ms + 190_000).rstrip("Z")}
    calendars.put_calendar(world.ports, "shop", "closed", {"ranges": [span], "zone": "UTC"}, None)
    job_of(world, {"rate": "60s", "calendars": {"exclude": ["closed"]}})
    with pytest.raises(InvalidField):
        skip(world, upcoming(world, 1))


def test_a_cancelled_one_and_a_finished_job_have_nothing_to_skip(world: World) -> None:
    job_of(world)
    key = world.next_key("shop:x")
    cancelling.cancel_run(world.ports, key, "no")
    with pytest.raises((TooLate, InvalidField)):
        skip(world, key.scheduled_at_ms)
    far = upcoming(world, 3)
    registering.delete_job(world.ports, "shop:x")
    with pytest.raises(NotFound):
        skip(world, far)
    at = parse_schedule({"at": iso(world.clock.at_ms + 5_000)}, now_ms=world.clock.at_ms, job_id="shop:y").spec
    registering.create_job(world.ports, NewJob("shop", "y", at, Work("default", "job"), 0, CatchUp(), "f"))
    world.until_due("shop:y")
    with pytest.raises(TooLate, match="finished"):
        skipping.skip_occurrence(world.ports, "shop:y", world.clock.at_ms + 60_000, "ann", "no")


def test_it_survives_changes_pauses_and_runs_by_hand(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world, 2)
    skip(world, at_ms)
    standing = job(world)
    other = parse_schedule({"rate": "120s"}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = NewJob("shop", "x", other, standing.work, 0, standing.catch_up, "slower")
    changing.update_job(world.ports, "shop:x", standing.version, lambda _: new)
    changing.pause_job(world.ports, "shop:x", "ops", "a move", world.clock.at_ms + 1_000)
    changing.resume_job(world.ports, "shop:x", "ops")
    asking.ask_for_run(world.ports, asking.Wanted("shop:x", "ann", "late"))
    back = replace(new, schedule=standing.schedule, fingerprint="back")
    changing.update_job(world.ports, "shop:x", job(world).version, lambda _: back)
    assert come_to(world, at_ms).status == "skipped"


def test_a_job_that_is_made_anew_has_none(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world, 1)
    skip(world, at_ms)
    registering.delete_job(world.ports, "shop:x")
    job_of(world)
    assert job(world).skips == ()


def test_the_list_is_bounded_and_what_is_passed_makes_room(world: World) -> None:
    job_of(world)
    for number in range(SKIPS_AHEAD_MAX):
        skip(world, upcoming(world, number))
    far = upcoming(world, SKIPS_AHEAD_MAX)
    with pytest.raises(TooMany):
        skip(world, far)
    come_to(world, upcoming(world))
    skip(world, far)
    assert len(job(world).skips) == SKIPS_AHEAD_MAX


def test_after_an_outage_one_that_is_skipped_is_not_taken_for_the_newest(world: World) -> None:
    """Catch-up `latest` runs the newest that is to run, and the record of each says why."""
    job_of(world)
    at = [upcoming(world, number) for number in range(4)]
    skip(world, at[3])
    world.clock.at_ms = at[3] + 1_000
    world.scan()
    assert [run_at(world, one).reason for one in at] == [
        "skipped_outage",
        "skipped_outage",
        "",
        "skipped by ann: the bank is closed",
    ]
    assert len(world.messages(run_at(world, at[2]).key)) == 1


def test_the_reason_is_the_skips_and_not_overlap_or_the_pause(world: World) -> None:
    job_of(world, overlap=SKIP)
    run = come_to(world, upcoming(world))
    world.must_start(run.key, lease_s=900)
    at_ms = upcoming(world)
    skip(world, at_ms)
    changing.pause_job(world.ports, "shop:x", "ops", "a move")
    skipped = come_to(world, at_ms)
    assert (skipped.reason, skipped.held_by) == ("skipped by ann: the bank is closed", None)


def test_a_parked_job_still_skips_its_last(world: World, monkeypatch: Any) -> None:
    job_of(world)
    at_ms = upcoming(world)
    skip(world, at_ms)
    stored = world.store.get(JOBS, {"job_id": "shop:x"})
    assert stored is not None

    def broken(*_: Any, **__: Any) -> None:
        raise BadSchedule("no zone data")

    monkeypatch.setattr(chain, "following", broken)
    world.until_due("shop:x")
    assert job(world).status == "error"
    assert run_at(world, at_ms).reason == "skipped by ann: the bank is closed"


# --- races and crashes --------------------------------------------------------------------------------------------


def test_a_step_that_was_planned_without_it_is_refused_and_decides_again(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world)
    world.clock.at_ms = at_ms
    commit, done = world.store.commit, []

    def watched(writes: Any) -> Any:
        steps = any(getattr(write, "set", {}).get("fired_through_ms") for write in writes)
        if steps and not done:
            done.append(1)
            skip(world, at_ms)
        return commit(writes)

    world.store.commit = watched  # type: ignore[method-assign]
    world.scan()
    assert done
    assert run_at(world, at_ms).status == "skipped"


def test_one_that_is_dispatched_between_the_look_and_the_write_is_refused(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world)
    world.clock.at_ms = at_ms
    world.store.before_commit = world.scan
    with pytest.raises(TooLate, match="dispatched"):
        skip(world, at_ms)
    assert len(world.messages(run_at(world, at_ms).key)) == 1


def test_a_crash_after_the_write_is_repeated_without_another(world: World) -> None:
    job_of(world)
    at_ms = upcoming(world)
    commits = len(world.store.commits)
    skip(world, at_ms)
    writes = len(world.store.commits) - commits
    for nth in range(1, writes + 1):
        again = World()
        job_of(again)
        again.store.crash_after_commits = nth
        with pytest.raises(Crash):
            skip(again, at_ms)
        again.store.crash_after_commits = None
        assert len(skip(again, at_ms).skips) == 1
        assert job(again).version == 2
        entries = [one for one in again.store.items(AUDIT) if one.get("action") == "job.occurrence_skipped"]
        assert len(entries) == 1
        assert come_to(again, at_ms).status == "skipped"
