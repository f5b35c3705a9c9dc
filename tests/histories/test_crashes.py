"""A process may be killed at any call: the calls after it never happen, and somebody repeats the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from tests.support.fakes import FakeClock
from tests.support.faults import Countdown, FaultyStore, Killed
from tests.support.worlds import (
    NOW_S,
    WORK,
    create_job,
    create_timer,
    every,
    job_item,
    lease_of,
    make_world,
    move,
    sent_refs,
    sent_seconds,
    serve,
    statuses,
    with_store,
)
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.jobs import changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import cancelling, worker_calls
from tickwork.ports import Ports

CALLS_MAX = 60


def killed_at(ports: Ports, tables: object, calls: int, flow: Callable[[Ports], object]) -> bool:
    """Whether the flow was killed at its n-th call (False: it has fewer)."""
    try:
        flow(Countdown(ports, tables, calls).ports)
    except Killed:
        return True
    return False


def every_kill() -> range:
    return range(CALLS_MAX)


def test_a_window_killed_at_any_call_is_repeated_by_the_next() -> None:
    """chain-unbroken, no-lost-timer: every occurrence is sent, the job has its next, the cursor is honest."""
    for calls in every_kill():
        ports, tables = make_world()
        create_job(ports, every(20), catch_up=CatchUp("all"))
        create_timer(ports, 30)
        move(ports, 65)
        was_killed = killed_at(ports, tables, calls, serve)
        move(ports, 11)  # the dead owner's lease lapses
        assert serve(ports).outcome == "served"
        assert set(sent_seconds(ports)) >= {20, 30, 40, 60}, f"killed at call {calls}"
        assert job_item(tables)["next_scheduled_at_ms"] == (NOW_S + 80) * 1000
        assert lease_of(tables).done == NOW_S + 76
        if not was_killed:
            return
    raise AssertionError("a window of four items should not take so many calls")


def test_a_creation_that_was_answered_is_sent_wherever_its_first_try_was_killed() -> None:
    """no-lost-timer: the client repeats what was not answered, with its key."""
    for calls in every_kill():
        ports, tables = make_world()
        create_timer(ports, 100)
        move(ports, 1)
        serve(ports)
        was_killed = killed_at(ports, tables, calls, lambda dying: create_timer(dying, 0, "my-key"))
        run = create_timer(ports, 0, "my-key")
        assert run.key.ref in sent_refs(ports), f"killed at call {calls}"
        if not was_killed:
            return
    raise AssertionError("a creation should not take so many calls")


def test_a_job_that_was_answered_has_its_next_wherever_its_creation_was_killed() -> None:
    """chain-unbroken from the first moment."""
    for calls in every_kill():
        ports, tables = make_world()
        was_killed = killed_at(ports, tables, calls, lambda dying: create_job(dying, every(20)))
        create_job(ports, every(20))
        assert statuses(tables) == {20: "pending"}, f"killed at call {calls}"
        if not was_killed:
            return
    raise AssertionError("a creation should not take so many calls")


def test_a_failure_killed_at_any_call_leads_to_its_retry() -> None:
    """every-end-recorded: the message comes back, the worker says it again, or the audit finds it."""
    for calls in every_kill():
        ports, tables = make_world()
        run = create_timer(ports, 0)
        worker_calls.start(ports, StartRequest(run.key, "claim", "worker", 30))
        fail = partial(worker_calls.fail, key=run.key, token=1, error="broken", permanent=False)
        was_killed = killed_at(ports, tables, calls, fail)
        assert fail(ports).status == "waiting"
        move(ports, 30)
        serve(ports)
        retry = next(body for body in ports.sender.bodies("ready-default") if body["attempt"] == 2)
        assert retry["ref"] == run.key.ref, f"killed at call {calls}"
        if not was_killed:
            return
    raise AssertionError("a failure should not take so many calls")


def test_a_deletion_killed_at_any_call_leaves_nothing_behind() -> None:
    """cancelled-stays and every-end-recorded."""
    for calls in every_kill():
        ports, tables = make_world()
        create_job(ports, every(20))
        was_killed = killed_at(ports, tables, calls, lambda dying: registering.delete_job(dying, "pay:nightly"))
        registering.delete_job(ports, "pay:nightly")
        move(ports, 100)
        serve(ports)
        assert (statuses(tables), sent_refs(ports)) == ({20: "cancelled"}, []), f"killed at call {calls}"
        if not was_killed:
            return
    raise AssertionError("a deletion should not take so many calls")


def to_every(seconds: int) -> Callable[[Job], NewJob]:
    return lambda job: NewJob("pay", "nightly", every(seconds), WORK, 0, job.catch_up, f"every {seconds}")


def test_a_change_killed_at_any_call_is_finished_by_its_repetition() -> None:
    """no-lost-timer, one-run: the old occurrence is given up, the new one is sent, also behind the cursor."""
    for calls in every_kill():
        ports, tables = make_world()
        create_job(ports, every(60))
        move(ports, 10)
        serve(ports)
        move(ports, -5)  # the caller's clock is late: the new occurrence lies behind the cursor
        change = partial(changing.update_job, job_id="pay:nightly", version=1, revise=to_every(6))
        was_killed = killed_at(ports, tables, calls, change)
        assert change(ports).version == 2
        assert statuses(tables) == {6: "pending", 12: "pending", 60: "cancelled"}
        if was_killed and not sent_seconds(ports):  # it had moved the chain on and died: the audit's to find
            move(ports, 400)
            serve(ports)
            reconcile(ports)
        assert 6 in sent_seconds(ports), f"killed at call {calls}"
        if not was_killed:
            return
    raise AssertionError("a change should not take so many calls")


@pytest.mark.parametrize(
    ("disturb", "left"),
    [
        (lambda ports: changing.update_job(ports, "pay:nightly", 1, to_every(50)), {"cancelled"}),
        (lambda ports: changing.pause_job(ports, "pay:nightly", "ops", "now"), {"skipped"}),
        (lambda ports: registering.delete_job(ports, "pay:nightly"), {"cancelled"}),
        (
            lambda ports: cancelling.cancel_run(
                ports, registering.get_job(ports, "pay:nightly").next_key("main"), "no"
            ),
            None,
        ),
    ],
    ids=["change", "pause", "delete", "cancel"],
)
def test_what_is_acknowledged_between_any_two_calls_of_a_window_holds(
    disturb: Callable[[Ports], object], left: set[str] | None
) -> None:
    """cancelled-stays, chain-unbroken: the occurrence is either fired before, or never sent. The clock of whoever
    disturbs is a second behind, so that the occurrence being fired is still ahead of it."""
    fired = given_up = 0
    for call in every_kill():
        ports, tables = make_world()
        create_job(ports, every(20))
        move(ports, 20)
        late = replace(ports, clock=FakeClock(ports.clock.now_ms() - 1_000))
        scanner = Countdown(ports, tables, call)

        def once(scanner: Countdown = scanner, late: Ports = late) -> None:
            scanner.left = -1
            disturb(late)

        scanner.instead = once
        serve(scanner.ports)
        serve(ports)
        twenty = statuses(tables)[20]
        assert (sent_seconds(ports) == [20]) == (twenty == "pending"), f"at call {call}: {twenty}"
        assert sent_seconds(ports) in ([20], [])
        fired += twenty == "pending"
        given_up += twenty != "pending"
        if left is not None:
            assert twenty in left | {"pending"}
        job = job_item(tables)
        if job["status"] == "active":
            assert statuses(tables)[job["next_scheduled_at_ms"] // 1_000 - NOW_S] == "pending"
        if scanner.left >= 0:  # the window has no n-th call
            break
    assert fired
    assert given_up


def test_an_owner_that_pauses_22_seconds_and_wakes_can_not_move_the_cursor() -> None:
    """one-owner-effect: its advance is refused by the token, and counted. Its messages die at start."""
    ports, tables = make_world()
    run = create_timer(ports, 5)
    move(ports, 5)
    paused = FaultyStore(tables)
    successor: list[str] = []

    def pause(verb: str, *arguments: object) -> None:
        if verb == "commit" and "done" in getattr(arguments[0][0], "set", {}):
            paused.before = lambda *_: None
            move(ports, 22)
            successor.append(serve(ports).outcome)

    paused.before = pause
    report = serve(with_store(ports, paused))
    assert (report.outcome, successor) == ("fenced", ["served"])
    assert ports.signals.counts["scheduler.dispatch_rejected_stale_token_total"] == 1
    assert sent_refs(ports) == [run.key.ref] * 2
    first = worker_calls.start(ports, StartRequest(run.key, "one", "worker", 30))
    second = worker_calls.start(ports, StartRequest(run.key, "two", "worker", 30))
    assert not isinstance(first, Declined)
    assert isinstance(second, Declined)
    assert (second.reason, second.discard) == ("held", False)


def test_a_paused_owner_with_a_running_monotonic_clock_sends_nothing_more() -> None:
    """The lease is checked before each batch, with its margin: even the repeated messages stay away."""
    ports, tables = make_world()
    create_timer(ports, 5)
    move(ports, 5)
    paused = FaultyStore(tables)

    def pause(verb: str, *_: object) -> None:
        if verb == "query":
            paused.before = lambda *_: None
            move(ports, 22)
            serve(ports)

    paused.before = pause
    assert serve(with_store(ports, paused)).outcome == "fenced"
    assert len(sent_refs(ports)) == 1


def test_a_dead_owner_is_followed_within_12_seconds() -> None:
    """F7: its lease lapses after 10 s; whoever comes then serves the slice."""
    ports, tables = make_world()
    create_timer(ports, 5)
    move(ports, 5)
    assert killed_at(ports, tables, 4, serve)
    move(ports, 9)
    assert serve(ports).outcome == "held"
    move(ports, 1.5)
    assert serve(ports).outcome == "served"


@pytest.mark.parametrize(
    ("catch_up", "sent", "skipped"),
    [
        (CatchUp(), [180], [60, 120]),
        (CatchUp("last", 2), [120, 180], [60]),
        (CatchUp("all"), [60, 120, 180], []),
        (CatchUp("none"), [], [60, 120, 180]),
        (CatchUp("all", max_lateness_s=100), [120, 180], [60]),
    ],
    ids=["latest", "last two", "all", "none", "all, but not too late"],
)
def test_after_three_hours_the_catch_up_policy_decides(catch_up: CatchUp, sent: list[int], skipped: list[int]) -> None:
    """Each missed occurrence is run or recorded with the reason, in order, and the chain goes on (F8)."""
    ports, tables = make_world()
    names = [f"job-{number}" for number in range(30)]
    for name in names:
        create_job(ports, every(3_600), name=name, catch_up=_minutes(catch_up))
    move(ports, 3 * 3_600 + 90)
    for _ in range(20):
        serve(ports)
    minutes = [second // 60 for second in sent_seconds(ports)]
    assert sorted(minutes) == sorted(minute for minute in sent for _ in names)
    records = dict.fromkeys(skipped, "skipped") | dict.fromkeys([*sent, 240], "pending")
    assert statuses_of(tables, names) == dict.fromkeys(names, records)
    assert all(job_item(tables, name)["next_scheduled_at_ms"] == (NOW_S + 4 * 3_600) * 1000 for name in names)
    reconciled = reconcile(ports)
    assert reconciled.without_next == 0


def _minutes(catch_up: CatchUp) -> CatchUp:
    return replace(catch_up, max_lateness_s=catch_up.max_lateness_s * 60)


def statuses_of(tables: object, names: list[str]) -> dict[str, dict[int, str]]:
    found: dict[str, dict[int, str]] = {name: {} for name in names}
    for item in tables.items(TIMERS):
        _, _, name, scheduled = item["sk"].split("#")
        found[name][(int(scheduled) - NOW_S) // 60] = item["status"]
    return found


def test_a_tombstone_survives_the_reconciler() -> None:
    ports, tables = make_world()
    create_job(ports, every(20))
    registering.delete_job(ports, "pay:nightly")
    reconcile(ports)
    assert tables.get(JOBS, {"job_id": "pay:nightly"})["status"] == "deleted"
