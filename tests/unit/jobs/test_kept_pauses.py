"""A pause of one job that keeps what is due: the newest runs when it is over, or all do, or what its end says (F12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.support.runs_world import Crash, World
from tickwork.core.errors import InvalidField
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.jobs.pauses import ALL, KEEPS_MAX_MS, LATEST, SKIP
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import parse_schedule
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.jobs.resuming import Starting

EVERY_S = 60
ID = "shop:x"


@pytest.fixture
def world() -> World:
    return World()


def job_of(world: World, **more: Any) -> list[int]:
    """A job of every minute that is due nowhere else; its first instants."""
    first_ms = world.clock.at_ms // SECOND_MS * SECOND_MS + EVERY_S * SECOND_MS
    spec = {"rate": f"{EVERY_S}s", "anchor": iso(first_ms)}
    schedule = parse_schedule(spec, now_ms=world.clock.at_ms, job_id=ID).spec
    new = NewJob("shop", "x", schedule, Work("default", "job"), 0, CatchUp("all"), "f", overlap="allow", **more)
    registering.create_job(world.ports, new)
    return [first_ms + n * EVERY_S * SECOND_MS for n in range(12)]


def job(world: World) -> Job:
    return registering.get_job(world.ports, ID)


def pause(world: World, at_resume: str, until_ms: int = 0, reason: str = "a move") -> Job:
    return changing.pause_job(world.ports, ID, "ann", reason, until_ms, at_resume)


def resume(world: World, at_resume: str = "", starting: Starting | None = None) -> bool:
    return changing.resume_job(world.ports, ID, "bob", at_resume, starting)[1]


def come_to(world: World, at_ms: int) -> None:
    """Time passes, with a window every half minute."""
    while world.clock.at_ms < at_ms:
        world.clock.at_ms = min(at_ms, world.clock.at_ms + 30 * SECOND_MS)
        world.scan()


def fates(world: World) -> dict[int, str]:
    """What became of each nominal instant; `sent` where its message is out."""
    found: dict[int, str] = {}
    for item in world.store.items(TIMERS):
        run = Run.from_item(item)
        if run.status == "cancelled" and "moved" in (run.reason or ""):
            continue
        assert run.key.scheduled_at_ms not in found, "two of one instant"
        found[run.key.scheduled_at_ms] = "sent" if world.messages(run.key) else run.status
    return found


@pytest.mark.parametrize("ends_itself", [True, False])
@pytest.mark.parametrize(
    ("at_resume", "becomes"),
    [(ALL, ["sent"] * 3), (LATEST, ["skipped", "skipped", "sent"]), (SKIP, ["skipped"] * 3)],
)
def test_what_is_due_in_a_pause_becomes_what_it_says_when_it_is_over(
    world: World, at_resume: str, becomes: list[str], ends_itself: bool
) -> None:
    at = job_of(world)
    come_to(world, at[1] - 1)
    over_ms = at[3] + 20 * SECOND_MS
    pause(world, at_resume, over_ms if ends_itself else 0)
    come_to(world, over_ms - SECOND_MS)
    kept = [at_ms for at_ms in at[1:4] if fates(world).get(at_ms) == "sent"]
    assert not kept, "nothing of it has started in the pause"
    world.clock.at_ms = over_ms
    if not ends_itself:
        assert resume(world)
    come_to(world, at[4])
    assert [fates(world)[at_ms] for at_ms in at[:5]] == ["sent", *becomes, "sent"]


@pytest.mark.parametrize(("at_resume", "count"), [("", 3), (LATEST, 1), (SKIP, 0)])
def test_whoever_resumes_may_say_what_becomes_of_what_has_waited_and_is_told_what_starts(
    world: World, at_resume: str, count: int
) -> None:
    at = job_of(world)
    pause(world, ALL)
    come_to(world, at[2] + SECOND_MS)
    starting = Starting()
    resume(world, at_resume, starting)
    come_to(world, at[3] - SECOND_MS)
    sent = [at_ms for at_ms in at[:3] if fates(world)[at_ms] == "sent"]
    assert (starting.count, [key.scheduled_at_ms for key in starting.first]) == (count, sent)
    assert len(sent) == count


def test_what_was_skipped_meanwhile_cannot_be_asked_for_at_the_end(world: World) -> None:
    at = job_of(world)
    pause(world, SKIP)
    come_to(world, at[1])
    with pytest.raises(InvalidField, match="skipped, and recorded"):
        resume(world, ALL)
    assert resume(world, SKIP)


def test_it_waits_as_the_jobs_one_pending_item_at_the_end_of_the_pause(world: World) -> None:
    at = job_of(world)
    until_ms = at[5] + 1
    paused = pause(world, LATEST, until_ms)
    assert paused.next is not None
    assert (paused.next.scheduled_at_ms, paused.next.fire_at_ms) == (at[0], at[5] + SECOND_MS)
    pending = [Run.from_item(one).key for one in world.store.items(TIMERS) if one["status"] == "pending"]
    assert pending == [paused.next_key("main")]


def test_one_without_an_end_ends_after_a_year_and_a_longer_one_is_refused(world: World) -> None:
    job_of(world)
    now_ms = world.clock.at_ms
    with pytest.raises(InvalidField, match="366 days"):
        pause(world, ALL, now_ms + KEEPS_MAX_MS + 1)
    assert pause(world, ALL).pauses[-1].until_ms == now_ms + KEEPS_MAX_MS


def test_what_is_due_between_the_occurrence_that_fires_and_the_end_waits_too(world: World) -> None:
    """The pending one is of before the pause: only what comes after it is kept."""
    at = job_of(world)
    world.clock.at_ms = at[0] + 5 * SECOND_MS
    pause(world, ALL)
    come_to(world, at[2])
    assert fates(world)[at[0]] == "sent"
    assert fates(world)[at[1]] == "pending"
    resume(world)
    come_to(world, at[2] + 30 * SECOND_MS)
    assert fates(world)[at[1]] == "sent"


def test_another_pause_takes_over_what_waits_and_one_that_would_skip_is_refused(world: World) -> None:
    at = job_of(world)
    pause(world, ALL)
    come_to(world, at[1])
    with pytest.raises(InvalidField, match="this one would not"):
        pause(world, SKIP, reason="another")
    pause(world, LATEST, at[3] + SECOND_MS, reason="another")
    assert len(job(world).pauses) == 1
    come_to(world, at[3])
    assert "sent" not in fates(world).values()
    come_to(world, at[4] - SECOND_MS)
    assert [fates(world)[at_ms] for at_ms in at[:4]] == ["skipped"] * 3 + ["sent"]


def test_again_with_the_same_words_is_a_no_op_and_with_an_end_it_is_not(world: World) -> None:
    at = job_of(world)
    version = pause(world, ALL).version
    world.after(3)
    assert pause(world, ALL).version == version
    assert pause(world, LATEST).version == version + 1
    assert pause(world, LATEST, at[5]).pauses[-1].until_ms == at[5]
    assert resume(world)
    version = job(world).version
    assert resume(world), "the same person is told the same again"
    assert job(world).version == version


def test_a_change_and_a_skip_meanwhile_count_when_it_is_over(world: World) -> None:
    at = job_of(world)
    pause(world, ALL, at[3] + SECOND_MS)
    come_to(world, at[0] + SECOND_MS)
    standing = job(world)
    new = NewJob("shop", "x", standing.schedule, Work("default", "other"), 0, CatchUp("all"), "g", overlap="allow")
    changing.update_job(world.ports, ID, standing.version, lambda _: new)
    come_to(world, at[4])
    handlers = {one["handler"] for run in world.store.items(TIMERS) for one in world.messages(Run.from_item(run).key)}
    assert handlers == {"other"}
    assert [fates(world)[at_ms] for at_ms in at[:5]] == ["sent"] * 5


@pytest.mark.parametrize("crash_after", [1])
@pytest.mark.parametrize("what", ["pause", "resume"])
def test_a_crash_behind_the_write_loses_nothing_and_the_repeat_sees_to_it(
    world: World, what: str, crash_after: int
) -> None:
    at = job_of(world)
    if what == "resume":
        pause(world, ALL)
        come_to(world, at[1] + SECOND_MS)
    world.store.crash_after_commits = crash_after
    with pytest.raises(Crash):
        pause(world, ALL, at[1] + 2 * SECOND_MS) if what == "pause" else resume(world)
    come_to(world, world.clock.at_ms + SECOND_MS)
    assert (pause(world, ALL, at[1] + 2 * SECOND_MS) is not None) if what == "pause" else resume(world)
    come_to(world, at[2])
    assert [fates(world)[at_ms] for at_ms in at[:3]] == ["sent"] * 3


def test_over_http_a_job_shows_that_it_waits_and_its_resumption_what_starts(world: World) -> None:
    at = job_of(world)
    api = ApiUnderTest(world.ports)
    status, shown = api.call("POST", f"/jobs/{ID}/pause", {"reason": "a move", "at_resume": "latest"})
    assert (status, shown["status"], shown["pauses"][-1]["at_resume"]) == (200, "paused", "latest")
    assert shown["next"]["scheduled_at"] == iso(at[0])
    _, ahead = api.call("GET", f"/jobs/{ID}/next", count="1")
    assert ahead["occurrences"][0]["note"].startswith("waits for the end of a pause, as latest")
    come_to(world, at[1] + SECOND_MS)
    status, shown = api.call("POST", f"/jobs/{ID}/resume", {})
    assert (status, shown["changed"]) == (200, True)
    one = {"occurrence": f"{ID}@{iso(at[1])}", "scheduled_at": iso(at[1])}
    assert shown["starts"] == {"count": 1, "at_least": False, "first": [one]}
