"""Run now: a run that somebody asks for, beside the schedule (F13, O7, O8)."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from tests.support.faults import FaultyStore
from tests.support.runs_world import Crash, World

from tickwork.core.errors import AlreadyExists, Held, NotFound, Throttled
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.jobs.overlap import ALLOW, BUFFER_ALL, BUFFER_ONE, CANCEL_OTHER, HOLDERS_MAX, SKIP
from tickwork.core.ledger import kinds
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.messages import ReadyMessage, read_ready
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, LEASES, PAYLOADS, TIMERS
from tickwork.core.ledger.work import RetryPolicy, Work
from tickwork.core.ledger.writes import Anyway, Delete, Is, Update
from tickwork.core.schedule import parse_schedule
from tickwork.flows.audit import history
from tickwork.flows.audit.history import Filter
from tickwork.flows.dispatch import freeing
from tickwork.flows.jobs import calendars, changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import asking, cancelling, dead_letters, naming, worker_calls
from tickwork.flows.runs.asking import Wanted

EVERY_S = 60


@pytest.fixture
def world() -> World:
    return World()


def job_of(world: World, overlap: str = ALLOW, **work: Any) -> str:
    spec = parse_schedule({"rate": f"{EVERY_S}s"}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    new = NewJob("shop", "x", spec, Work("default", "job", **work), 0, CatchUp(), "f", overlap=overlap)
    return registering.create_job(world.ports, new)[0].job_id


def changed_to(world: World, job_id: str, overlap: str) -> Job:
    job = registering.get_job(world.ports, job_id)
    new = NewJob("shop", "x", job.schedule, job.work, 0, job.catch_up, f"to {overlap}", overlap=overlap)
    return changing.update_job(world.ports, job_id, job.version, lambda _: new)


def wanted(job_id: str, client_key: str = "", **how: Any) -> Wanted:
    return Wanted(job_id, "key:shop:ann", "the file came late", client_key=client_key, fingerprint="f", **how)


def run_now(world: World, job_id: str, client_key: str = "", **how: Any) -> LedgerKey:
    """Ask for a run; the window of its second follows."""
    key = asking.ask_for_run(world.ports, wanted(job_id, client_key, **how)).key
    world.scan()
    return key


def chain_of(world: World, job_id: str) -> tuple[Any, ...]:
    job = registering.get_job(world.ports, job_id)
    return job.next, job.fired_through_ms, job.version, job.pauses, job.status, job.last


# --- identity -----------------------------------------------------------------------------------------------------


def test_it_has_an_identity_of_its_own_next_to_the_scheduled_run_of_the_same_second(world: World) -> None:
    scheduled = world.until_due(job_of(world))
    key = run_now(world, "shop:x")
    assert key.scheduled_at_ms == scheduled.scheduled_at_ms
    text = f"shop:x|{iso(key.scheduled_at_ms)}|{key.kind}"
    assert key.run_id == hashlib.sha256(text.encode()).hexdigest()[:32] != scheduled.run_id
    assert kinds.word_of(key.kind) == kinds.MANUAL
    assert parse_ref(key.ref) == key


def test_two_in_one_second_are_two_runs(world: World) -> None:
    job_of(world)
    one, other = run_now(world, "shop:x"), run_now(world, "shop:x")
    assert one.run_id != other.run_id
    assert len(world.messages(one)) == len(world.messages(other)) == 1


def test_its_message_says_what_it_is_and_which_occurrence_it_stands_beside(world: World) -> None:
    scheduled = world.until_due(job_of(world))
    key = run_now(world, "shop:x")
    message = world.message(key)
    assert (message["kind"], message["run_id"]) == ("manual", key.run_id)
    assert (message["occurrence_id"], message["occurrence"]) == (scheduled.run_id, key.occurrence)
    assert not {"kind", "occurrence_id", "occurrence"} & world.message(scheduled).keys()


def test_a_retry_of_it_is_of_it_and_of_no_other(world: World) -> None:
    job_of(world, retry=RetryPolicy(base_s=1, jitter_percent=0))
    key, other = run_now(world, "shop:x"), run_now(world, "shop:x")
    world.fail(key, world.must_start(key).token)
    message = world.until_retry(key)
    retry = parse_ref(message["retry_ref"])
    assert (retry.run_id, naming.run_of_ref(world.ports, retry)) == (key.run_id, key)
    text = ReadyMessage(other, Work("default", "job"), 2, 1, "s", retry_ref=retry.ref).to_json()
    with pytest.raises(ValueError, match="not of this run"):
        read_ready(text)
    world.complete(key, world.must_start(key, message=message).token)
    assert world.run(key).status == "succeeded"


# --- beside the schedule ------------------------------------------------------------------------------------------


def test_it_is_sent_at_once_and_leaves_the_chain_as_it_was(world: World) -> None:
    job_id = job_of(world)
    world.until_due(job_id)
    world.after(7)
    before = chain_of(world, job_id)
    key = run_now(world, job_id)
    assert len(world.messages(key)) == 1
    world.complete(key, world.must_start(key).token)
    assert chain_of(world, job_id) == before
    assert len(world.messages(world.until_due(job_id))) == 1


def test_it_runs_on_a_paused_job_and_leaves_the_pause_as_it_was(world: World) -> None:
    job_id = job_of(world)
    changing.pause_job(world.ports, job_id, "ops", "a move")
    before = chain_of(world, job_id)
    key = run_now(world, job_id)
    assert world.must_start(key).status == "running"
    assert chain_of(world, job_id) == before
    assert world.run(world.until_due(job_id)).status == "skipped"


def test_a_job_that_has_finished_can_be_run_and_one_that_is_deleted_cannot(world: World) -> None:
    at = parse_schedule({"at": iso(world.clock.at_ms + 5_000)}, now_ms=world.clock.at_ms, job_id="shop:x").spec
    registering.create_job(world.ports, NewJob("shop", "x", at, Work("default", "job"), 0, CatchUp(), "f"))
    world.until_due("shop:x")
    assert registering.get_job(world.ports, "shop:x").status == "finished"
    assert world.messages(run_now(world, "shop:x"))
    registering.delete_job(world.ports, "shop:x")
    with pytest.raises(NotFound):
        run_now(world, "shop:x")


def test_it_does_not_wait_with_an_occurrence_whose_definition_could_not_be_read(world: World) -> None:
    """That is tried again at growing distance; a run by hand has its work with it, and needs nothing of its job."""
    job_id = job_of(world)
    schedule = registering.get_job(world.ports, job_id).schedule
    due = registering.get_job(world.ports, job_id).next_key("main")
    assert due is not None
    world.store.commit([Update(JOBS, {"job_id": job_id}, Anyway("garbled"), set={"schedule": 7})])
    for _ in range(10):
        world.after(20)
        world.scan()
    world.store.commit([Update(JOBS, {"job_id": job_id}, Anyway("mended"), set={"schedule": schedule})])
    world.after(1)  # into a second that no window has served
    key = run_now(world, job_id)
    assert not world.messages(due), "it is not tried again yet"
    assert len(world.messages(key)) == 1


def test_what_it_does_is_fixed_when_it_is_asked_for(world: World) -> None:
    job_id = job_of(world, payload='{"day":1}')
    key = run_now(world, job_id, work=lambda work: replace(work, payload='{"day":2}'))
    job = registering.get_job(world.ports, job_id)
    new = NewJob("shop", "x", job.schedule, replace(job.work, handler="other"), 0, job.catch_up, "g")
    changing.update_job(world.ports, job_id, job.version, lambda _: new)
    message = world.message(key)
    assert (message["handler"], message["payload"]) == ("job", {"day": 2})
    world.fail(key, world.must_start(key).token)
    assert world.until_retry(key)["handler"] == "job"


def test_a_long_payload_is_kept_apart_and_ends_with_its_run_and_not_with_the_jobs(world: World) -> None:
    long = f'"{"x" * 900}"'
    job_id = job_of(world, payload=long)
    own = registering.get_job(world.ports, job_id).work.payload_id
    key = run_now(world, job_id, work=lambda work: replace(work, payload=long, payload_id=None))
    started = world.start(key, message=world.message(key))
    assert getattr(started, "payload", None) == long
    kept = {item["payload_id"]: item for item in world.store.items(PAYLOADS)}
    assert len(kept) == 2
    assert "expires_at_s" not in kept[own]
    assert all("expires_at_s" in item for name, item in kept.items() if name != own)


# --- overlap ------------------------------------------------------------------------------------------------------


def test_under_skip_it_is_refused_while_another_run_holds_the_job_and_names_it(world: World) -> None:
    scheduled = world.until_due(job_of(world, SKIP))
    world.must_start(scheduled)
    before = world.store.items(TIMERS)
    with pytest.raises(Held, match="running") as refused:
        run_now(world, "shop:x")
    assert scheduled.occurrence in refused.value.detail
    assert world.store.items(TIMERS) == before


def test_under_skip_the_next_scheduled_one_sees_it_and_is_skipped_with_its_name(world: World) -> None:
    job_of(world, SKIP)
    key = run_now(world, "shop:x")  # nothing of the job has fired yet
    world.must_start(key, lease_s=900)
    due = world.run(world.until_due("shop:x"))
    assert (due.status, due.reason) == ("skipped", "overlap")
    assert due.held_by is not None
    assert due.held_by["occurrence"] == key.occurrence
    with pytest.raises(Held):
        run_now(world, "shop:x")
    world.complete(key, 1)
    assert world.messages(world.until_due("shop:x"))


def test_one_that_was_asked_for_beside_the_others_is_not_held_and_holds_nobody(world: World) -> None:
    scheduled = world.until_due(job_of(world, SKIP))
    key = run_now(world, "shop:x", beside=True)
    world.complete(scheduled, world.must_start(scheduled).token)
    world.must_start(key, lease_s=900)
    assert world.messages(world.until_due("shop:x"))


def test_under_allow_it_runs_beside_and_after_a_change_to_skip_it_is_waited_for(world: World) -> None:
    job_id = job_of(world)
    world.must_start(world.until_due(job_id))
    world.after(7)
    keys = [run_now(world, job_id) for _ in range(3)]
    for key in keys[1:]:
        world.complete(key, world.must_start(key).token)
    world.complete(world.next_key(job_id), 1)
    changed_to(world, job_id, SKIP)
    for item in world.store.items(TIMERS):  # the first scheduled one has ended, too
        if (run := Run.from_item(item)).status == "running":
            world.complete(run.key, 1)
    due = world.run(world.until_due(job_id))
    assert due.reason == "overlap"
    assert due.held_by is not None
    assert due.held_by["run_id"] == keys[0].run_id


def test_it_is_waited_for_also_where_the_index_does_not_show_it_yet(world: World, monkeypatch: Any) -> None:
    job_id = job_of(world)
    key = run_now(world, job_id)
    changed_to(world, job_id, SKIP)
    monkeypatch.setattr(world.store, "query_index", lambda *_, **__: ([], None))
    assert world.run(world.until_due(job_id)).reason == "overlap"
    world.complete(key, world.must_start(key).token)
    assert world.messages(world.until_due(job_id))


@pytest.mark.parametrize("overlap", [ALLOW, SKIP])
def test_a_job_that_is_made_anew_waits_for_it_too(world: World, overlap: str) -> None:
    job_id = job_of(world, overlap)
    key = run_now(world, job_id)  # nothing of the job has fired, and nothing fires before the next
    registering.delete_job(world.ports, job_id)
    job_of(world, SKIP)
    with pytest.raises(Held):
        run_now(world, job_id)
    assert world.run(world.until_due(job_id)).reason == "overlap"
    world.complete(key, world.must_start(key).token)
    assert world.messages(world.until_due(job_id))


def test_a_job_names_no_more_runs_than_it_may_and_the_index_has_the_others(world: World) -> None:
    job_id = job_of(world)
    world.until_due(job_id)
    keys = [run_now(world, job_id) for _ in range(HOLDERS_MAX + 2)]
    assert len(registering.get_job(world.ports, job_id).holders) == HOLDERS_MAX
    changed_to(world, job_id, SKIP)
    for item in world.store.items(TIMERS):
        if (run := Run.from_item(item)).status == "pending" and run.key not in (world.next_key(job_id), keys[0]):
            world.complete(run.key, world.must_start(run.key).token)
    due = world.run(world.until_due(job_id))
    assert due.held_by is not None
    assert due.held_by["run_id"] == keys[0].run_id


def test_a_replay_of_it_takes_the_job_like_any_other(world: World) -> None:
    job_id = job_of(world, SKIP)
    key = run_now(world, job_id)
    world.fail(key, world.must_start(key).token, permanent=True)
    scheduled = world.until_due(job_id)
    order = dead_letters.Order("ops", "mended", 1, world.clock.at_ms)
    assert [one.refusal for one in dead_letters.replay_runs(world.ports, [key], order)] == ["held"]
    world.complete(scheduled, world.must_start(scheduled).token)
    assert [one.refusal for one in dead_letters.replay_runs(world.ports, [key], order)] == [""]
    assert world.run(world.until_due(job_id)).reason == "overlap"


def test_a_replay_of_one_beside_the_others_is_beside_them_too(world: World) -> None:
    job_id = job_of(world, SKIP)
    scheduled = world.until_due(job_id)
    key = run_now(world, job_id, beside=True)
    world.fail(key, world.must_start(key).token, permanent=True)
    order = dead_letters.Order("ops", "mended", 1, world.clock.at_ms)
    assert [one.refusal for one in dead_letters.replay_runs(world.ports, [key], order)] == [""]
    world.complete(scheduled, world.must_start(scheduled).token)
    assert world.messages(world.until_due(job_id))


def test_a_replay_of_one_of_a_job_that_has_fired_nothing_leaves_a_job_that_can_be_stepped(world: World) -> None:
    job_id = job_of(world, SKIP)
    key = run_now(world, job_id)
    world.fail(key, world.must_start(key).token, permanent=True)
    order = dead_letters.Order("ops", "mended", 1, world.clock.at_ms)
    dead_letters.replay_runs(world.ports, [key], order)
    assert world.run(world.until_due(job_id)).reason == "overlap"


def test_one_that_waits_for_it_goes_when_it_ends_and_is_not_overtaken_by_another(world: World) -> None:
    job_id = job_of(world, BUFFER_ONE)
    key = run_now(world, job_id)
    token = world.must_start(key, lease_s=900).token
    due = world.until_due(job_id)
    assert world.run(due).status == "buffered"
    with pytest.raises(Held, match="running"):
        run_now(world, job_id)
    world.complete(key, token)
    assert len(world.messages(due)) == 1


def held(world: World, overlap: str, **more: Any) -> tuple[str, LedgerKey]:
    """A job, and the scheduled run that holds it."""
    job_id = job_of(world, overlap, **more)
    first = world.until_due(job_id)
    world.must_start(first, lease_s=900)
    return job_id, first


def status(world: World, key: LedgerKey) -> str:
    return world.run(key).status


@pytest.mark.parametrize("commits", [1, 2, 3, None])
def test_whoever_is_answered_that_it_waits_has_a_look_at_it_with_a_tick(world: World, commits: int | None) -> None:
    """Also when the try before died, behind whichever write, or its reply was lost."""
    job_id, _ = held(world, BUFFER_ONE)
    ahead = Update(
        LEASES, {"slice": "main#0000"}, Anyway("a test"), set={"ticked": world.clock.at_ms // SECOND_MS + 300}
    )
    world.store.commit([ahead])
    if commits is None:
        faulty = FaultyStore(world.store)  # type: ignore[arg-type]
        faulty.lose_reply(lambda writes: any("held_by" in str(one) for one in writes))
        asked = asking.ask_for_run(replace(world.ports, store=faulty), wanted(job_id, "key-1"))
    else:
        world.store.crash_after_commits = commits
        with suppress(Crash):
            asking.ask_for_run(world.ports, wanted(job_id, "key-1"))
        world.store.crash_after_commits = None
        world.after(2)
        again = wanted(job_id, "key-1")
        asked = asking.asked_before(world.ports, again) or asking.ask_for_run(world.ports, again)
    assert asked.run is not None
    assert asked.run.status == "buffered"
    looks = [int(item["sk"][:10]) for item in world.store.items(TIMERS) if "#look" in str(item["sk"])]
    ticks = [json.loads(message.body)["second"] for queue, message in world.outbox.sent if queue == "ticks"]
    assert set(looks) & set(ticks)


@pytest.mark.parametrize("overlap", [BUFFER_ONE, BUFFER_ALL])
def test_it_waits_where_what_is_due_would_wait_and_goes_when_its_job_is_free(world: World, overlap: str) -> None:
    job_id, first = held(world, overlap)
    asked = asking.ask_for_run(world.ports, wanted(job_id))
    run = world.run(asked.key)
    assert asked.run is not None
    assert (asked.is_new, asked.run.status, run.status, run.reason) == (True, "buffered", "buffered", "overlap")
    assert run.held_by is not None
    assert run.held_by["run_id"] == first.run_id
    assert world.messages(asked.key) == []
    world.complete(first, world.run(first).token)
    assert (status(world, asked.key), len(world.messages(asked.key))) == ("pending", 1)
    world.must_start(asked.key)
    assert world.run(world.until_due(job_id)).held_by["run_id"] == asked.key.run_id  # type: ignore[index]


def test_under_cancel_other_it_has_what_runs_cancelled_and_replaces_what_waits(world: World) -> None:
    job_id, first = held(world, CANCEL_OTHER)
    due = world.until_due(job_id)
    key = run_now(world, job_id)
    assert (status(world, due), world.run(due).replaced_by) == ("skipped", key.occurrence)
    assert world.run(first).cancel_requested
    worker_calls.acknowledge_cancel(world.ports, first, world.run(first).token)
    assert len(world.messages(key)) == 1
    again = run_now(world, job_id)
    assert (status(world, key), len(world.messages(again))) == ("cancelled", 1), "it was queued"


def test_a_scheduled_one_replaces_it_in_its_turn(world: World) -> None:
    job_id, _ = held(world, CANCEL_OTHER)
    key = run_now(world, job_id)
    due = world.until_due(job_id)
    assert (status(world, key), world.run(key).replaced_by, status(world, due)) == (
        "skipped",
        due.occurrence,
        "buffered",
    )


def test_of_two_in_one_second_the_second_replaces_the_first_and_is_looked_at(world: World) -> None:
    job_id, _ = held(world, CANCEL_OTHER)
    keys = [run_now(world, job_id) for _ in range(4)]
    assert [status(world, key) for key in keys] == ["skipped"] * 3 + ["buffered"]
    looked = [item["run_ref"] for item in world.store.items(TIMERS) if str(item["sk"]).endswith("#look")]
    assert keys[-1].ref in looked


@pytest.mark.parametrize("overlap", [BUFFER_ONE, BUFFER_ALL, CANCEL_OTHER])
def test_who_says_so_is_refused_and_does_not_wait(world: World, overlap: str) -> None:
    job_id, first = held(world, overlap)
    with pytest.raises(Held, match=first.occurrence):
        asking.ask_for_run(world.ports, replace(wanted(job_id), waits=False))
    assert not world.run(first).cancel_requested


def test_it_waits_in_its_turn_behind_what_waits_already(world: World) -> None:
    job_id, first = held(world, BUFFER_ALL)
    due = world.until_due(job_id)
    key = run_now(world, job_id)
    assert world.run(due).behind == key.ref
    world.complete(first, world.run(first).token)
    assert (len(world.messages(due)), world.messages(key)) == (1, [])
    world.complete(due, world.must_start(due).token)
    assert len(world.messages(key)) == 1


def test_one_that_waits_leaves_a_pause_as_it_was_and_runs_in_it(world: World) -> None:
    job_id, first = held(world, BUFFER_ONE)
    key = run_now(world, job_id)
    changing.pause_job(world.ports, job_id, "ann", "deploy")
    world.complete(first, world.run(first).token)
    assert len(world.messages(key)) == 1


def test_of_a_job_that_has_fired_nothing_one_waits_for_another_and_the_chain_goes_on(world: World) -> None:
    job_id = job_of(world, BUFFER_ONE)
    first, second = run_now(world, job_id), run_now(world, job_id)
    world.complete(first, world.must_start(first).token)
    assert len(world.messages(second)) == 1
    due = world.until_due(job_id)
    assert (status(world, due), world.run(due).held_by["run_id"]) == ("buffered", second.run_id)  # type: ignore[index]


def test_the_same_request_is_answered_with_the_one_that_waits_and_sees_to_it(world: World, monkeypatch: Any) -> None:
    job_id, first = held(world, BUFFER_ONE)
    key = run_now(world, job_id, "late-file")
    with monkeypatch.context() as nobody_looks:
        nobody_looks.setattr(freeing, "free_job", lambda *_: None)
        world.complete(first, world.run(first).token)
    again = asking.asked_before(world.ports, wanted(job_id, "late-file"))
    assert again is not None
    assert again.run is not None
    assert (again.key, again.run.status, len(world.messages(key))) == (key, "pending", 1)


def test_one_that_waits_can_be_cancelled_and_is_forgotten(world: World) -> None:
    job_id, first = held(world, BUFFER_ONE)
    key = run_now(world, job_id)
    cancelling.cancel_run(world.ports, key, "not wanted")
    due = world.until_due(job_id)
    assert (status(world, key), status(world, due)) == ("cancelled", "buffered")
    world.complete(first, world.run(first).token)
    assert (world.messages(key), len(world.messages(due))) == ([], 1)


def test_who_cancels_one_that_is_queued_lets_go_what_waits_for_it(world: World) -> None:
    job_id = job_of(world, BUFFER_ONE)
    key = run_now(world, job_id)
    due = world.until_due(job_id)
    cancelling.cancel_run(world.ports, key, "not wanted")
    assert len(world.messages(due)) == 1


def test_a_crash_after_any_write_leaves_no_run_or_one_that_goes() -> None:
    for overlap in (BUFFER_ONE, CANCEL_OTHER):
        for after in range(1, 7):
            world = World()
            job_id, first = held(world, overlap)
            before = {item["sk"] for item in world.store.items(TIMERS)}
            world.store.crash_after_commits = after
            with suppress(Crash):
                run_now(world, job_id)
            world.store.crash_after_commits = None
            made = [item for item in world.store.items(TIMERS) if item["sk"] not in before]
            keys = [Run.from_item(item).key for item in made if "#manual." in item["sk"]]
            world.clock.at_ms += 51_000
            world.scan()
            if overlap == BUFFER_ONE:
                world.complete(first, world.run(first).token)
            elif keys:
                assert world.run(first).cancel_requested, after
                worker_calls.acknowledge_cancel(world.ports, first, world.run(first).token)
            assert all(world.messages(key) for key in keys), (overlap, after)


def test_a_message_that_was_not_sent_is_sent_by_the_look(world: World, monkeypatch: Any) -> None:
    job_id, first = held(world, BUFFER_ONE)
    key = run_now(world, job_id)
    with monkeypatch.context() as dies:
        dies.setattr(freeing, "send_all", lambda *_: None)
        world.complete(first, world.run(first).token)
    assert (status(world, key), world.messages(key)) == ("pending", [])
    world.clock.at_ms += 51_000
    world.scan()
    assert len(world.messages(key)) == 1


def test_one_that_waits_is_not_overtaken_also_when_nothing_holds_the_job_any_more(world: World) -> None:
    job_id = job_of(world, BUFFER_ONE)
    key = run_now(world, job_id)
    world.must_start(key, lease_s=900)
    due = world.until_due(job_id)
    ended = {"status": "succeeded", "ended_at_ms": world.clock.at_ms}  # and who has ended it died before he looked
    world.ports.store.commit([Update(TIMERS, key.as_item(), Is("status", "running"), set=ended)])
    with pytest.raises(Held) as refused:
        run_now(world, job_id)
    assert due.occurrence in refused.value.detail


# --- what comes between the look and the write ---------------------------------------------------------------------


def test_a_scheduled_one_that_fires_between_its_look_and_its_write_holds_it(world: World) -> None:
    job_id = job_of(world, SKIP)
    scheduled = world.next_key(job_id)
    world.clock.at_ms = scheduled.fire_at_ms
    seen: list[int] = []

    def interfere() -> None:
        seen.append(1)
        world.scan()

    _before_the_put(world, interfere)
    with pytest.raises(Held):
        run_now(world, job_id)
    assert seen
    assert len(world.messages(scheduled)) == 1


def test_a_change_of_the_policy_between_its_look_and_its_write_is_obeyed(world: World) -> None:
    job_id = job_of(world)
    world.must_start(world.until_due(job_id))
    _before_the_put(world, lambda: changed_to(world, job_id, SKIP))
    with pytest.raises(Held):
        run_now(world, job_id)


@pytest.mark.parametrize("beside", [False, True])
def test_a_deletion_between_its_look_and_its_write_leaves_no_run(world: World, beside: bool) -> None:
    job_id = job_of(world)
    _before_the_put(world, lambda: registering.delete_job(world.ports, job_id))
    with pytest.raises(NotFound):
        run_now(world, job_id, beside=beside)
    assert not [item for item in world.store.items(TIMERS) if "manual" in item["sk"]]


def _before_the_put(world: World, interfere: Any) -> None:
    """Do something just before the transaction that makes the run."""
    commit, done = world.store.commit, []

    def watched(writes: Any) -> Any:
        if not done and any("manual." in str(getattr(write, "item", {}).get("sk", "")) for write in writes):
            done.append(1)
            interfere()
        return commit(writes)

    world.store.commit = watched  # type: ignore[method-assign]


# --- repeats and crashes ------------------------------------------------------------------------------------------


def test_the_same_request_gets_the_first_run_at_any_later_time(world: World) -> None:
    job_id = job_of(world, SKIP)
    key = run_now(world, job_id, "from-ci-17")
    for _ in range(2):
        again = asking.asked_before(world.ports, wanted(job_id, "from-ci-17"))
        assert again is not None
        assert (again.key, again.is_new) == (key, False)
        world.complete(key, world.must_start(key).token) if not world.run(key).ended else None
        world.after(500)
    registering.delete_job(world.ports, job_id)
    world.store.commit([Delete(TIMERS, key.as_item(), Anyway("its time to live is over"))])
    again = asking.asked_before(world.ports, wanted(job_id, "from-ci-17"))
    assert again is not None
    assert (again.key, again.run) == (key, None)


def test_a_client_key_is_of_one_request_and_of_one_job(world: World) -> None:
    job_id = job_of(world)
    key = run_now(world, job_id, "from-ci-17")
    with pytest.raises(AlreadyExists, match="from-ci-17"):
        asking.asked_before(world.ports, replace(wanted(job_id, "from-ci-17"), fingerprint="other"))
    other = world.job("other")
    assert asking.asked_before(world.ports, wanted(other, "from-ci-17")) is None
    assert run_now(world, other, "from-ci-17") != key


def test_two_same_requests_at_once_are_one_run(world: World) -> None:
    job_id = job_of(world)
    first: list[LedgerKey] = []

    def interfere() -> None:
        world.after(3)
        first.append(run_now(world, job_id, "once"))

    _before_the_put(world, interfere)
    asked = asking.ask_for_run(world.ports, wanted(job_id, "once"))
    assert ([asked.key], asked.is_new) == (first, False)
    assert len([item for item in world.store.items(TIMERS) if "manual" in item["sk"]]) == 1


@pytest.mark.parametrize("overlap", [ALLOW, SKIP])
def test_a_crash_after_any_write_loses_no_run_and_makes_no_second(overlap: str) -> None:
    world = World()
    job_id = job_of(world, overlap)
    before = len(world.store.commits)
    run_now(world, job_id, "once")
    writes = len(world.store.commits) - before
    assert writes >= 2
    for nth in range(1, writes + 1):
        world = World()
        job_id = job_of(world, overlap)
        world.store.crash_after_commits = nth
        with pytest.raises(Crash):
            run_now(world, job_id, "once")
        world.store.crash_after_commits = None
        world.after(20)
        asked = asking.asked_before(world.ports, wanted(job_id, "once")) or asking.ask_for_run(
            world.ports, wanted(job_id, "once")
        )
        world.scan()
        keys = [Run.from_item(item).key for item in world.store.items(TIMERS) if "manual" in item["sk"]]
        assert keys == [asked.key]
        assert world.messages(asked.key), f"crashed after write {nth}"


def test_one_whose_answer_was_lost_is_told_as_its_own(world: World) -> None:
    """Also under `skip`: it is not held by itself."""
    job_id = job_of(world, SKIP)
    commit, lost = world.store.commit, []

    def losing(writes: Any) -> Any:
        result = commit(writes)
        if not lost and any("manual." in str(getattr(write, "item", {}).get("sk", "")) for write in writes):
            lost.append(1)
            raise Throttled("the reply is lost")
        return result

    world.store.commit = losing  # type: ignore[method-assign]
    asked = asking.ask_for_run(world.ports, wanted(job_id))
    world.scan()
    assert lost
    assert asked.is_new
    assert len(world.messages(asked.key)) == 1


def test_one_that_a_scanner_has_passed_is_sent_by_who_asks_for_it(world: World) -> None:
    job_id = job_of(world)
    _after_the_put(world, world.scan)
    key = asking.ask_for_run(world.ports, wanted(job_id, "once")).key
    assert world.messages(key)


def test_one_whose_asker_died_is_sent_by_the_repeat_when_no_window_comes(world: World) -> None:
    job_id = job_of(world)
    world.scan()  # its second is announced
    _after_the_put(world, _die)
    with pytest.raises(Crash):
        asking.ask_for_run(world.ports, wanted(job_id, "once"))
    asked = asking.asked_before(world.ports, wanted(job_id, "once"))
    assert asked is not None
    assert len(world.messages(asked.key)) == 1


def _die() -> None:
    raise Crash


def _after_the_put(world: World, then: Any) -> None:
    commit, done = world.store.commit, []

    def watched(writes: Any) -> Any:
        result = commit(writes)
        if not done and any("manual." in str(getattr(write, "item", {}).get("sk", "")) for write in writes):
            done.append(1)
            then()
        return result

    world.store.commit = watched  # type: ignore[method-assign]


# --- what people see and do ---------------------------------------------------------------------------------------


def test_history_shows_it_and_lists_of_timers_do_not(world: World) -> None:
    job_id = job_of(world)
    key = run_now(world, job_id)
    shown = [view.run for view in history.job_runs(world.ports, job_id, limit=20, after=None).found]
    (run,) = [run for run in shown if run.key == key]
    assert (run.created_by, run.because) == ("key:shop:ann", "the file came late")
    timer = world.timer()
    wide = Filter("shop", "", key.fire_at_ms - 60_000, key.fire_at_ms + 60_000)
    found = history.list_timers(world.ports, wide, limit=20, after=None)
    assert [view.run.key for view in found.found] == [timer]


def test_it_is_found_by_its_name_and_by_its_run_id(world: World) -> None:
    scheduled = world.until_due(job_of(world))
    key = run_now(world, "shop:x")
    assert naming.find_run(world.ports, "shop:x", key.scheduled_at_ms, key.kind) == key
    assert naming.find_run(world.ports, "shop:x", key.scheduled_at_ms) == scheduled
    assert naming.find_run_id(world.ports, "shop:x", key.run_id) == key
    assert naming.find_run_id(world.ports, "shop:x", scheduled.run_id) == scheduled
    with pytest.raises(NotFound):
        naming.find_run(world.ports, "shop:x", key.scheduled_at_ms, kinds.kind_of("manual", "f" * 16))


def test_its_name_is_never_taken_for_the_scheduled_run_of_its_second(world: World) -> None:
    job_of(world)
    key = run_now(world, "shop:x")
    with pytest.raises(NotFound):
        naming.find_run(world.ports, "shop:x", key.scheduled_at_ms)


def test_cancelling_it_leaves_the_chain_as_it_was(world: World) -> None:
    job_id = job_of(world)
    key = run_now(world, job_id)
    before = chain_of(world, job_id)
    assert cancelling.cancel_run(world.ports, key, "a mistake").status == "cancelled"
    assert chain_of(world, job_id) == before
    assert registering.get_job(world.ports, job_id).cancelled == ()
    assert world.start(key, message=world.message(key)).discard  # type: ignore[union-attr]


def test_cancelling_it_leaves_the_occurrence_of_its_second_alone(world: World) -> None:
    job_id = job_of(world)
    scheduled = world.next_key(job_id)
    world.clock.at_ms = scheduled.scheduled_at_ms
    key = asking.ask_for_run(world.ports, wanted(job_id)).key
    assert key.scheduled_at_ms == scheduled.scheduled_at_ms
    cancelling.cancel_run(world.ports, key, "a mistake")
    assert registering.get_job(world.ports, job_id).cancelled == ()
    world.scan()
    assert len(world.messages(scheduled)) == 1


def test_a_dead_one_is_a_dead_letter_of_its_job(world: World) -> None:
    job_id = job_of(world)
    key = run_now(world, job_id)
    world.fail(key, world.must_start(key).token, permanent=True)
    dead = dead_letters.list_dead(world.ports, "shop", dead_letters.Wanted(job_id), limit=5, after=None)
    assert [run.key for run in dead.found] == [key]


# --- freezes ------------------------------------------------------------------------------------------------------


def _frozen(world: World, from_s: int) -> str:
    day = world.clock.at_ms + from_s * SECOND_MS
    span = {"from": iso(day).rstrip("Z"), "to": iso(day + 3_600_000).rstrip("Z")}
    spec = {"ranges": [span], "zone": "UTC", "hard": True}
    calendars.put_calendar(world.ports, "shop", "freeze", spec, None)
    schedule = {"rate": "60s", "calendars": {"exclude": ["freeze"]}}
    parsed = parse_schedule(schedule, now_ms=world.clock.at_ms, job_id="shop:x").spec
    registering.create_job(world.ports, NewJob("shop", "x", parsed, Work("default", "job"), 0, CatchUp(), "f"))
    return "shop:x"


def test_inside_a_hard_calendar_it_is_refused_with_the_end_of_that(world: World) -> None:
    job_id = _frozen(world, 5)
    world.after(10)
    with pytest.raises(Held, match="freeze"):
        run_now(world, job_id)


def test_one_that_comes_to_its_worker_inside_a_freeze_is_put_off_and_keeps_what_it_does(world: World) -> None:
    job_id = _frozen(world, 5)
    key = run_now(world, job_id, work=lambda work: replace(work, payload='{"day":2}'))
    world.after(10)
    assert getattr(world.start(key), "reason", None) == "put_off"
    assert world.until_retry(key)["payload"] == {"day": 2}


def test_a_job_item_of_another_version_keeps_what_it_says(world: World) -> None:
    """Only what it writes is written: what an older or a newer version has put there stays."""
    job_id = job_of(world)
    before = world.store.get(JOBS, {"job_id": job_id})
    run_now(world, job_id)
    after = world.store.get(JOBS, {"job_id": job_id})
    assert before is not None
    assert after is not None
    assert {name: after[name] for name in before} == before
    assert after.keys() - before.keys() == {"holders"}


def test_a_job_that_is_made_anew_waits_for_a_run_that_its_predecessor_was_asked_for(world: World) -> None:
    job_id = job_of(world, SKIP)
    key = run_now(world, job_id)
    world.must_start(key, lease_s=300)
    registering.delete_job(world.ports, job_id)
    assert job_of(world, SKIP) == job_id
    scheduled = world.until_due(job_id)
    assert (world.run(scheduled).status, world.run(scheduled).held_by) == ("skipped", held_by_running(key))


def held_by_running(key: LedgerKey) -> dict[str, str]:
    return {"run_id": key.run_id, "occurrence": key.occurrence, "status": "running"}


def test_one_that_is_replayed_under_allow_is_named_and_found_and_is_one_all_the_same(world: World) -> None:
    job_id = job_of(world)
    world.until_due(job_id)
    key = run_now(world, job_id)
    world.fail(key, world.must_start(key).token, permanent=True)
    order = dead_letters.Order("ops", "again", 10, world.clock.at_ms + SECOND_MS)
    (replayed,) = dead_letters.replay_runs(world.ports, [key], order)
    assert not replayed.refusal
    run_now(world, job_id)  # names what is alive of those before
    changed_to(world, job_id, SKIP)
    scheduled = world.until_due(job_id)
    assert world.run(scheduled).status == "skipped"
