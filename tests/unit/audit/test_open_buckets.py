"""Nothing pending or waiting is beyond the audit's sight while its record lives; what cannot run expires (F16)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.worlds import create_job, create_timer, every, item_of, job_item, make_world, move, sent_refs, serve
from tickwork.core.audit import passes
from tickwork.core.errors import Throttled
from tickwork.core.instants import DAY_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.scopes import TEAM, Scope
from tickwork.core.ledger import deadlines
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, LEASES, PASSES, TIMERS, Table
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Delete, Update
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.core.runs.endings import retry_key
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.jobs import pausing
from tickwork.flows.runs import worker_calls
from tickwork.flows.runs.worker_calls import Started
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

DAY_S = 86_400


class Throttling:
    """A store some of whose reads are throttled."""

    def __init__(self, inner: MemoryStore, is_throttled: Any) -> None:
        self._inner, self._is_throttled = inner, is_throttled

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._inner, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if self._is_throttled(name, *arguments):
                raise Throttled("always")
            return verb(*arguments, **named)

        return call


def pass_days(ports: Ports, days: float, every_s: int = 6 * 3_600) -> None:
    """Time passes, with a window and a run of the reconciler now and then."""
    for _ in range(int(days * DAY_S) // every_s):
        move(ports, every_s)
        for _ in range(3):  # after so long a backlog is opened first
            serve(ports)
        reconcile(ports)


def timer_without_worker(ports: Ports) -> LedgerKey:
    run = create_timer(ports, 5)
    move(ports, 5)
    serve(ports)
    return run.key


def test_a_run_that_no_worker_takes_is_sent_again_at_growing_distance_and_expires_after_13_days() -> None:
    ports, tables = make_world()
    key = timer_without_worker(ports)
    pass_days(ports, 12.5)
    assert item_of(tables, key)["status"] == "pending"
    assert 5 <= len(sent_refs(ports)) <= 9, "each look sends it again, and there are few"
    pass_days(ports, 1.5)
    item = item_of(tables, key)
    assert (item["status"], item["reason"]) == ("expired", passes.why_expired(Work("default", "job")))
    assert item["expires_at_s"] == item["ended_at_ms"] // SECOND_MS + ports.layout.retention_s
    assert tables.items(PASSES) == [], "its bucket is closed"


def test_an_expired_run_is_not_started_by_the_message_that_is_left() -> None:
    ports, _ = make_world()
    key = timer_without_worker(ports)
    pass_days(ports, 14.5)
    declined = worker_calls.start(ports, StartRequest(key, "claim", "worker", 60))
    assert isinstance(declined, Declined)
    assert (declined.reason, declined.discard) == ("expired", True)


def test_a_run_that_starts_on_the_twelfth_day_succeeds() -> None:
    ports, tables = make_world()
    key = timer_without_worker(ports)
    pass_days(ports, 12.5)
    started = worker_calls.start(ports, StartRequest(key, "claim", "worker", 60))
    assert isinstance(started, Started)
    worker_calls.complete(ports, key, started.run.token)
    pass_days(ports, 3)
    assert item_of(tables, key)["status"] == "succeeded"
    assert tables.items(PASSES) == []


def test_what_ends_before_the_day_audit_leaves_no_row() -> None:
    ports, tables = make_world()
    key = timer_without_worker(ports)
    started = worker_calls.start(ports, StartRequest(key, "claim", "worker", 60))
    assert isinstance(started, Started)
    worker_calls.complete(ports, key, started.run.token)
    for _ in range(30):
        move(ports, 3_600)
        serve(ports)
        reconcile(ports)
        assert tables.items(PASSES) == []


def test_after_an_outage_of_twenty_days_a_run_has_its_own_thirteen() -> None:
    """It was sent when the outage was over: its message is fresh."""
    ports, tables = make_world()
    key = create_timer(ports, 5).key
    move(ports, 20 * DAY_S)
    pass_days(ports, 12)
    assert item_of(tables, key)["status"] == "pending"
    pass_days(ports, 3)
    assert item_of(tables, key)["status"] == "expired"


def test_a_run_that_waits_for_a_retry_that_is_gone_gets_it_back() -> None:
    ports, tables = make_world()
    key = timer_without_worker(ports)
    started = worker_calls.start(ports, StartRequest(key, "claim", "worker", 60))
    assert isinstance(started, Started)
    worker_calls.fail(ports, key, started.run.token, "boom", permanent=False)
    waiting = item_of(tables, key)
    retry = retry_key(key, waiting["retry_at_ms"], 2)
    tables.commit([Delete(TIMERS, retry.as_item(), Anyway("vanished"))])
    move(ports, 7 * 60)
    serve(ports)
    assert reconcile(ports).retries_restored == 1
    again = sent_refs(ports)
    assert again[-1] == key.ref
    assert reconcile(ports).retries_restored == 0


def test_a_retry_that_is_gone_is_missed_also_long_after_the_day_audit() -> None:
    ports, tables = make_world()
    key = timer_without_worker(ports)
    pass_days(ports, 3)
    started = worker_calls.start(ports, StartRequest(key, "claim", "worker", 60))
    assert isinstance(started, Started)
    worker_calls.fail(ports, key, started.run.token, "boom", permanent=False)
    retry = retry_key(key, item_of(tables, key)["retry_at_ms"], 2)
    tables.commit([Delete(TIMERS, retry.as_item(), Anyway("vanished"))])
    sent = len(sent_refs(ports))
    pass_days(ports, 3)
    assert len(sent_refs(ports)) > sent


def test_the_pending_next_of_a_job_is_not_expired_but_moved_on() -> None:
    """chain-unbroken: its chain comes first, whatever has held it up."""
    ports, tables = make_world()
    create_job(ports, every(86_400), catch_up=CatchUp("all"))
    item = job_item(tables)
    key = LedgerKey("main", item["next_shard"], item["next_fire_at_ms"], "pay", "nightly", item["next_scheduled_at_ms"])
    row = passes.OpenBucket("main#0000", key.fire_second, key.fire_second // BUCKET_S, key.fire_second)
    tables.commit([passes.put_row(row)])
    move(ports, 15 * DAY_S)
    for _ in range(3):
        reconcile(ports)
    assert item_of(tables, key)["status"] == "pending"
    assert job_item(tables)["next_scheduled_at_ms"] >= key.scheduled_at_ms


def test_a_throttled_shard_costs_the_audit_of_that_shard_only_and_only_for_a_while() -> None:
    ports, tables = make_world(Layout(shards=4, slices=2))
    keys = [create_timer(ports, 5).key for _ in range(24)]
    assert {key.shard for key in keys} == {0, 1, 2, 3}
    move(ports, 5)
    for slice_no in (0, 1):
        serve(ports, slice_no)
    ports.sender.sent.clear()
    for _ in range(8):
        move(ports, 60)
        for slice_no in (0, 1):
            serve(ports, slice_no)
    of_shard = f"main#0003#{keys[0].fire_second // BUCKET_S:08d}"
    busy = Throttling(tables, lambda verb, *a: verb == "query" and a[0] is TIMERS and a[1] == of_shard)
    with pytest.raises(Throttled):
        reconcile(replace(ports, store=busy))
    assert set(sent_refs(ports)) == {key.ref for key in keys if key.shard != 3}
    move(ports, 301)
    reconcile(ports)
    assert set(sent_refs(ports)) == {key.ref for key in keys}


def test_a_definition_that_the_store_is_too_busy_for_does_not_end_the_walk() -> None:
    ports, tables = make_world()
    for number in range(3):
        create_job(ports, every(20), name=f"job-{number}")
    for number in range(3):
        lost = job_item(tables, f"job-{number}")
        key = LedgerKey(
            "main", lost["next_shard"], lost["next_fire_at_ms"], "pay", f"job-{number}", lost["next_scheduled_at_ms"]
        )
        tables.commit([Delete(TIMERS, key.as_item(), Anyway("vanished"))])
    busy = Throttling(tables, lambda verb, *a: verb == "get" and a[1] == {"job_id": "pay:job-1"})
    with pytest.raises(Throttled):
        reconcile(replace(ports, store=busy))
    pending = {item["job_id"] for item in tables.items(TIMERS) if item["status"] == "pending"}
    assert pending == {"pay:job-0", "pay:job-2"}
    assert reconcile(ports).without_next == 1


def test_the_walk_over_the_definitions_goes_on_where_its_time_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    ports, tables = make_world()
    monkeypatch.setattr("tickwork.flows.audit.checking_jobs.JOBS_PAGE", 2)
    for number in range(7):
        create_job(ports, every(3_600), name=f"job-{number}")
    looked: list[str] = []
    seen = Throttling(tables, lambda verb, *a: bool(verb == "scan" and looked.append(str(a[0].name))))
    checked = 0
    for _ in range(4):
        checked += reconcile(replace(ports, store=seen), budget_ms=0).jobs_checked
    assert checked == 7
    assert len(looked) == 4, "one page a run: none is read twice"
    assert tables.get(PASSES, passes.walk_key("main")) is None


def test_a_walk_that_began_in_the_middle_goes_round() -> None:
    ports, tables = make_world()
    for number in range(5):
        create_job(ports, every(3_600), name=f"job-{number}")
    tables.commit([passes.put_place("main", {"job_id": "pay:job-2"})])
    assert reconcile(ports).jobs_checked == 7, "two that were left, and all five"
    assert tables.get(PASSES, passes.walk_key("main")) is None


def test_the_audit_of_a_long_arrears_stops_in_time_and_goes_on() -> None:
    ports, tables = make_world()
    create_timer(ports, 5)
    for _ in range(200):
        move(ports, 60)
        serve(ports)
    before = tables.get(LEASES, {"slice": "main#0000"})
    assert before is not None
    slow = Throttling(tables, lambda verb, *a: bool(verb == "query" and move(ports, 1)))
    report = reconcile(replace(ports, store=slow), budget_ms=20_000)
    after = tables.get(LEASES, {"slice": "main#0000"})
    assert after is not None
    assert report.unfinished
    assert before["audited"] < after["audited"] < after["done"] - 300
    for _ in range(100):
        if not reconcile(replace(ports, store=slow), budget_ms=20_000).unfinished:
            break
    else:
        pytest.fail("the audit never caught up")


def test_a_job_that_is_just_being_fired_is_not_counted_as_without_next() -> None:
    """The scan saw it before its window, the read of its next item after that."""
    ports, tables = make_world()
    create_job(ports, every(20))
    stale = [dict(item) for item in tables.items(JOBS)]
    move(ports, 20)
    serve(ports)
    key = next(item for item in tables.items(TIMERS) if item["status"] == "pending" and "attempt" not in item)
    worker_calls.start(ports, StartRequest(_first_key(tables), "claim", "worker", 60))
    assert key

    class Behind:
        def __getattr__(self, name: str) -> Any:
            return getattr(tables, name)

        def scan(self, table: Table, **_: Any) -> Any:
            return stale, None

    assert reconcile(replace(ports, store=Behind())).without_next == 0  # type: ignore[arg-type]


def _first_key(tables: MemoryStore) -> LedgerKey:
    first = min((item for item in tables.items(TIMERS)), key=lambda item: item["scheduled_at_ms"])
    return LedgerKey("main", 0, int(first["sk"][:10]) * 1000, "pay", "nightly", first["scheduled_at_ms"])


def test_expiring_leaves_alone_what_has_just_been_started() -> None:
    ports, tables = make_world()
    key = timer_without_worker(ports)
    move(ports, 14 * DAY_MS // SECOND_MS)
    run = next(iter(tables.items(TIMERS)))
    assert run["status"] == "pending"
    worker_calls.start(ports, StartRequest(key, "claim", "worker", 60))
    late = deadlines.expire(Run.from_item(run), "nobody came", ports.clock.now_ms(), 1)
    assert isinstance(late, Update)
    tables.commit([late])
    assert item_of(tables, key)["status"] == "running"


@pytest.mark.parametrize("paused_days", [5, 20])
def test_what_has_waited_for_the_end_of_a_pause_has_its_own_thirteen_days_from_then(paused_days: int) -> None:
    """Its message is sent when the pause is over."""
    ports, tables = make_world()
    serve(ports)
    scope = Scope("pay", TEAM, "pay")
    key = create_timer(ports, 5).key
    pausing.pause_scope(ports, scope, Pause("ana", "a freeze", 0))
    pass_days(ports, paused_days)
    assert sent_refs(ports) == []
    pausing.resume_scope(ports, scope, "ana")
    pass_days(ports, 12)
    assert sent_refs(ports)
    assert item_of(tables, key)["status"] == "pending"
    pass_days(ports, 21)
    assert item_of(tables, key)["status"] == "expired"
