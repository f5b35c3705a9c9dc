"""What the simulator has found, each as a story of its own: the invariant it broke, and the calls that broke it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.faults import DeafQueue, FaultyStore
from tests.support.worlds import (
    NOW_S,
    create_job,
    create_timer,
    every,
    item_of,
    lease_of,
    make_world,
    move,
    sent_refs,
    sent_seconds,
    serve,
    statuses,
    with_store,
)
from tickwork.core.errors import Unsent
from tickwork.core.ids import shard_of
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, LEASES, PASSES, TIMERS
from tickwork.core.ledger.writes import Anyway, Check, Put, Update
from tickwork.core.runs.attempts import StartRequest
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch import creating, leasing
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.jobs import registering
from tickwork.flows.runs import worker_calls
from tickwork.ports import Layout


def test_a_late_advance_can_not_move_the_cursor_back() -> None:
    """cursor-honest: the first try of an advance arrives after a later advance, under the same token."""
    ports, tables = make_world()
    create_timer(ports, 300)
    move(ports, 200)
    store = FaultyStore(tables)
    late = with_store(ports, store)
    holding = leasing.take(late, 0, NOW_S + 200, "me")
    store.lose_reply(lambda writes: "done" in getattr(writes[0], "set", {}), late=True)
    assert leasing.advance(late, holding, NOW_S + 60, release=False)
    assert leasing.advance(late, holding, NOW_S + 120, release=False)
    store.deliver()
    assert lease_of(tables).done == NOW_S + 120


def test_an_advance_whose_reply_was_lost_counts_as_done() -> None:
    """one-owner-effect: the refusal of the second try is our own first success, not a stale token."""
    ports, tables = make_world()
    create_timer(ports, 5)
    move(ports, 5)
    store = FaultyStore(tables)
    store.lose_reply(lambda writes: "done" in getattr(writes[0], "set", {}))
    assert serve(with_store(ports, store)).outcome == "served"
    assert lease_of(tables).done == NOW_S + 5


def test_the_next_of_a_step_whose_reply_was_lost_is_sent() -> None:
    """cursor-honest: the next item falls into the range that was read already, and nobody else would send it."""
    ports, tables = make_world()
    create_job(ports, every(5))
    move(ports, 12)
    store = FaultyStore(tables)
    store.lose_reply(lambda writes: isinstance(writes[0], Check))
    serve(with_store(ports, store))
    assert sent_seconds(ports) == [5, 10]
    assert lease_of(tables).done == NOW_S + 12


def test_the_next_of_a_skip_whose_reply_was_lost_is_sent() -> None:
    """cursor-honest: the item is not pending any more when it is read again, its next is ours all the same."""
    ports, tables = make_world()
    create_job(ports, every(20), catch_up=CatchUp("latest", max_lateness_s=70))
    move(ports, 119)
    store = FaultyStore(tables)
    store.lose_reply(lambda writes: isinstance(writes[0], Check))
    serve(with_store(ports, store))
    passed = {second: status for second, status in statuses(tables).items() if second <= 119}
    assert "skipped" in passed.values()
    assert sent_seconds(ports) == [second for second, status in passed.items() if status == "pending"]
    assert lease_of(tables).done == NOW_S + 119


def test_a_creator_does_not_answer_when_its_message_could_not_be_sent() -> None:
    """cursor-honest: its window has been announced, so nobody but the creator would send it."""
    ports, _ = make_world()
    create_timer(ports, 60)
    move(ports, 1)
    serve(ports)
    with pytest.raises(Unsent):
        create_timer(replace(ports, sender=DeafQueue()), 0)


def test_a_creator_that_repeats_its_call_sends_the_message() -> None:
    ports, _ = make_world()
    create_timer(ports, 60)
    move(ports, 1)
    serve(ports)
    with pytest.raises(Unsent):
        create_timer(replace(ports, sender=DeafQueue()), 0, "my-key")
    run = create_timer(ports, -2, "my-key")  # the pauses between the tries took their time
    assert sent_refs(ports) == [run.key.ref]


def test_the_audit_puts_down_what_it_could_not_send_and_goes_on() -> None:
    """no-lost-timer: the message is lost, and the queue is down when the audit comes by."""
    ports, tables = make_world()
    run = create_timer(ports, 5)
    move(ports, 5)
    serve(ports)
    ports.sender.sent.clear()
    for _ in range(8):
        move(ports, 60)
        serve(ports)
    reconcile(replace(ports, sender=DeafQueue()))
    assert lease_of(tables).audited >= run.key.fire_second
    reconcile(ports)
    assert sent_refs(ports) == [], "not before five minutes"
    move(ports, 301)
    reconcile(ports)
    assert sent_refs(ports) == [run.key.ref]
    assert tables.items(PASSES) == []


def test_a_run_that_lost_its_worker_and_message_after_the_first_audit_is_found_an_hour_later() -> None:
    """every-end-recorded: at the first audit the attempt was alive; then worker and message went together."""
    ports, _ = make_world()
    run = create_timer(ports, 5)
    move(ports, 5)
    serve(ports)
    started = worker_calls.start(ports, StartRequest(run.key, "claim", "worker", 900))
    ports.sender.sent.clear()
    for _ in range(7):
        move(ports, 60)
        serve(ports)
    reconcile(ports)
    assert (sent_refs(ports), started.run.status) == ([], "running")
    for _ in range(60):
        move(ports, 60)
        serve(ports)
    reconcile(ports)
    assert sent_refs(ports) == [run.key.ref]


def test_a_late_heartbeat_does_not_shorten_the_lease() -> None:
    """one-attempt-running: the worker trusts the answer to its later heartbeat."""
    ports, tables = make_world()
    run = create_timer(ports, 0)
    worker_calls.start(ports, StartRequest(run.key, "claim", "worker", 30))
    store = FaultyStore(tables)
    late = with_store(ports, store)
    store.lose_reply(lambda writes: "lease_until_ms" in getattr(writes[0], "set", {}), late=True)
    worker_calls.heartbeat(late, run.key, 1, 30)
    move(ports, 20)
    beat = worker_calls.heartbeat(late, run.key, 1, 30)
    store.deliver()
    assert item_of(tables, run.key)["lease_until_ms"] == beat.lease_until_ms


def test_an_occurrence_that_a_successor_skipped_is_not_sent() -> None:
    """cancelled-stays: the item was read as pending, the job after the skip; the item's own state decides."""
    ports, tables = make_world()
    create_job(ports, every(20), catch_up=CatchUp("none"))
    move(ports, 90)
    stalled = FaultyStore(tables)

    def successor(verb: str, table: object = None, *_: object) -> None:
        if verb == "get_many" and table is JOBS:
            stalled.before = lambda *_: None
            move(ports, 30)
            serve(replace(ports, store=tables))

    stalled.before = successor
    assert serve(with_store(ports, stalled)).outcome == "fenced"
    skipped = {s for s, status in statuses(tables).items() if status == "skipped"}
    assert 20 in skipped
    assert skipped.isdisjoint(sent_seconds(ports))


def test_a_job_deleted_between_scan_and_read_does_not_stop_the_reconciler() -> None:
    ports, tables = make_world()
    create_job(ports, every(20), name="first")
    create_job(ports, every(20), name="second")
    store = FaultyStore(tables)

    def delete_after_scan(verb: str, *_: object) -> None:
        if verb == "get":
            store.before = lambda *_: None
            registering.delete_job(replace(ports, store=tables), "pay:first")

    store.before = delete_after_scan
    assert reconcile(with_store(ports, store)).jobs_checked == 2


def test_items_that_nobody_can_read_hold_up_nobody() -> None:
    """bounded-lag of others: each is set aside, the timer beside them is sent, ticked and audited."""
    ports, tables = make_world()
    good = create_timer(ports, 5)
    for number, attributes in enumerate(
        (
            {"status": "dreaming"},
            {"status": "pending", "run_ref": "nowhere", "attempt": 2},
            {"status": "pending", "work": 7},
            {"status": "running", "work": 7, "lease_until_ms": 1},
        )
    ):
        key = LedgerKey("main", 0, (NOW_S + 5) * 1000, "pay", f"bad-{number}", (NOW_S + 5) * 1000)
        tables.commit([Put(TIMERS, key.as_item() | attributes, Anyway("planted"))])
    odd = LedgerKey("main", 0, (NOW_S + 5) * 1000, "pay", "odd", (NOW_S + 5) * 1000)
    tables.commit([Put(TIMERS, {"pk": odd.pk, "sk": f"{odd.sk}#manual.1", "status": "pending"}, Anyway("planted"))])
    assert issue_ticks(ports) > 0
    move(ports, 5)
    assert serve(ports).outcome == "served"
    assert sent_refs(ports) == [good.key.ref]
    for _ in range(8):
        move(ports, 60)
        serve(ports)
    reconcile(ports)
    assert lease_of(tables).audited > good.key.fire_second


def test_a_slow_creator_that_dies_is_audited_even_before_the_first_cursor() -> None:
    """every-end-recorded: another clock has made the slice's cursors meanwhile, ahead of the item."""
    ports, tables = make_world()
    move(ports, 60)
    issue_ticks(ports)  # makes the lease, by a clock a minute ahead
    key = LedgerKey("main", 0, NOW_S * 1000, "pay", "orphan", NOW_S * 1000)
    tables.commit(
        [Put(TIMERS, key.as_item() | {"status": "pending", "work": {"pool": "default", "handler": "job"}}, Anyway("x"))]
    )
    for _ in range(8):
        move(ports, 60)
        serve(ports)
    reconcile(ports)
    assert key.ref in sent_refs(ports)


def test_a_lagging_cursor_wakes_a_scanner_though_no_tick_is_missing() -> None:
    """bounded-lag: a ticker whose clock ran ahead has issued them all, and they were lost."""
    ports, tables = make_world()
    issue_ticks(ports)
    lease = lease_of(tables)
    ahead = Update(LEASES, {"slice": lease.slice}, Anyway("x"), set={"ticking": NOW_S + 900, "ticked": NOW_S + 900})
    tables.commit([ahead])
    ports.sender.sent.clear()
    move(ports, 120)
    assert issue_ticks(ports) == 1


def test_a_chain_that_comes_to_a_slice_without_cursors_gives_it_some_before_its_item() -> None:
    """cursor-honest: after a change from one shard to two, a creator's chain step put a next item, already due, into a
    slice that nobody had served; its cursors were made later, and began behind the item (seed 12192)."""
    before, tables = make_world(Layout(shards=1, slices=2))
    name = next(name for name in map(str, range(100)) if shard_of(f"pay:{name}", 2) == 1)
    job = create_job(before, every(15), name=name)
    assert job.next is not None
    first = replace(job.next, shard=0)
    move(before, 15)
    leasing.take(before, 0, NOW_S + 15, "a scanner that dies at once")
    after = replace(before, layout=Layout(shards=2, slices=2, shards_before=1), slices_seen=set())
    move(after, 16)

    creating.follow_up(after, [job.occurrence_key("main", first)])
    move(after, 1)
    leasing.ensure_lease(after, 1, NOW_S + 32)
    serve(after, 1)

    assert sent_seconds(after) == [15, 30]
    assert statuses(tables) == {15: "pending", 30: "pending", 45: "pending"}


def test_seconds_that_passed_before_the_first_ticker_looked_wake_a_scanner_at_once() -> None:
    """bounded-lag: a timer of the very first seconds of a slice fell between its cursors and the ticker's look, got no
    tick, and waited for the one of the minute's end (seeds 16574 and 17469)."""
    ports, _ = make_world()
    create_timer(ports, 1)
    move(ports, 4)
    issue_ticks(ports)
    sender: Any = ports.sender
    assert NOW_S + 4 in {tick["second"] for tick in sender.bodies("ticks") if tick["slice"] == 0}
