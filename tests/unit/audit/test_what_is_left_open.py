"""What a pass of the audit could not finish is remembered as it was: since when it waits, and that it is to be read
again soon; and a job that was parked goes on where it stood (F8, F16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.support.worlds import (
    create_job,
    every,
    item_of,
    job_item,
    make_world,
    move,
    sent_refs,
    serve,
    statuses,
)
from tests.unit.audit.test_open_buckets import Throttling, pass_days, timer_without_worker
from tickwork.core.errors import OutcomeUnknown, Throttled
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.keys import BUCKET_S, LedgerKey, parse_ref
from tickwork.core.ledger.tables import JOBS, LEASES, PASSES, TIMERS
from tickwork.core.ledger.writes import Anyway, Committed, Delete, Put, Refused, Update, Write
from tickwork.core.runs.attempts import StartRequest
from tickwork.flows.audit.auditing import look_at_open_buckets
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.audit.repairs import Repairs, deadline_in
from tickwork.flows.runs import worker_calls
from tickwork.ports import Ports
from tickwork.testing.memory import MemoryStore


def row_of(tables: MemoryStore, key: LedgerKey) -> dict[str, Any]:
    (row,) = (item for item in tables.items(PASSES) if item.get("bucket") == key.fire_second // BUCKET_S)
    return row


def look_in_vain(ports: Ports, tables: MemoryStore, key: LedgerKey) -> dict[str, Any]:
    """The next look at what is open cannot read it; the row that it leaves."""
    busy = Throttling(tables, lambda verb, *a: verb == "query" and a[:2] == (TIMERS, key.pk))
    move(ports, max(0, row_of(tables, key)["look_at_s"] - ports.clock.now_ms() // 1_000))
    with pytest.raises(Throttled):
        reconcile(replace(ports, store=busy))
    return row_of(tables, key)


def test_a_look_that_failed_forgets_neither_since_when_it_waits_nor_the_looks_before_it() -> None:
    ports, tables = make_world()
    key = timer_without_worker(ports)
    pass_days(ports, 4.5)
    row = row_of(tables, key)
    first, second = look_in_vain(ports, tables, key), look_in_vain(ports, tables, key)
    assert first["since_s"] == second["since_s"] == row["since_s"] == key.fire_second // BUCKET_S * BUCKET_S
    assert (first["tries"], second["tries"]) == (1, 2)
    assert second["look_at_s"] - ports.clock.now_ms() // 1_000 == 2 * 300, "each time later"


def test_looks_that_fail_late_give_a_run_no_other_thirteen_days() -> None:
    ports, tables = make_world()
    key = timer_without_worker(ports)
    pass_days(ports, 11)
    look_in_vain(ports, tables, key)
    pass_days(ports, 2.5)
    assert item_of(tables, key)["status"] == "expired"


class StaleLeases:
    """A store as a pass sees it that has read its slices before another pass audited them."""

    def __init__(self, inner: MemoryStore, stale: list[dict[str, Any]]) -> None:
        self._inner, self._stale = inner, stale

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_many(self, table: Any, keys: Any) -> Any:
        return self._stale if table is LEASES else self._inner.get_many(table, keys)


def test_a_pass_that_began_before_anothers_last_audit_keeps_the_row_which_that_has_left() -> None:
    """Nothing else knows of what is open there: the audits have passed it."""
    ports, tables = make_world()
    key = timer_without_worker(ports)
    stale = tables.items(LEASES)
    assert stale[0]["audited_day"] < key.fire_second
    pass_days(ports, 1.5)
    row = row_of(tables, key)
    move(ports, max(0, row["look_at_s"] - ports.clock.now_ms() // 1_000))
    late = replace(ports, store=StaleLeases(tables, stale))
    look_at_open_buckets(late, Repairs(), deadline_in(ports, 60_000))
    assert row_of(tables, key)["look_at_s"] > row["look_at_s"]


def test_a_run_whose_definition_is_busy_when_it_is_to_be_woken_is_looked_at_again_soon() -> None:
    ports, tables = make_world()
    create_job(ports, every(86_400))
    move(ports, 86_400)
    for _ in range(3):
        serve(ports)
    (ref,) = set(sent_refs(ports))
    (item,) = (item for item in tables.items(TIMERS) if f"{item['pk']}|{item['sk']}" == ref)
    assert item["status"] == "pending"
    worker_calls.start(ports, StartRequest(parse_ref(ref), "claim", "worker", 30))
    for _ in range(8):
        move(ports, 60)
        serve(ports)
    sent = len(sent_refs(ports))
    busy = Throttling(tables, lambda verb, *a: verb in ("get", "get_many") and a[0] is JOBS)
    assert reconcile(replace(ports, store=busy)).unsent == 1
    assert len(sent_refs(ports)) == sent
    move(ports, 301)
    serve(ports)
    reconcile(ports)
    assert sent_refs(ports)[sent:] == [ref]


def test_a_job_that_was_parked_goes_on_where_it_stood_and_loses_nothing_of_the_meantime() -> None:
    ports, tables = make_world()
    create_job(ports, every(20), catch_up=CatchUp("all"))
    move(ports, 20)
    serve(ports)
    right = job_item(tables)["schedule"]
    garble(tables, {"from": "the future"})
    for _ in range(3):
        move(ports, 20)
        serve(ports)
    assert job_item(tables)["status"] == "error"
    garble(tables, right)
    reconcile(ports)
    for _ in range(6):
        serve(ports)
        move(ports, 1)
    assert job_item(tables)["status"] == "active"
    missed = [second for second in statuses(tables) if second <= 80]
    assert {after - before for before, after in pairwise(missed)} == {20}
    assert len(missed) == 4


def test_a_next_that_was_put_back_is_fired_also_where_the_reply_was_lost_and_the_job_was_changed() -> None:
    ports, tables = make_world()
    create_job(ports, every(20))
    job = job_item(tables)
    key = LedgerKey("main", job["next_shard"], job["next_fire_at_ms"], "pay", "nightly", job["next_scheduled_at_ms"])
    tables.commit([Delete(TIMERS, key.as_item(), Anyway("vanished"))])
    move(ports, 30)
    serve(ports)
    right, lost = tables.commit, []

    def lossy(writes: Sequence[Write]) -> Committed | Refused:
        done = right(writes)
        if not lost and any(isinstance(write, Put) and write.table is TIMERS for write in writes):
            lost.append(done)
            right([Update(JOBS, {"job_id": "pay:nightly"}, Anyway("somebody changes it"), {"version": 2})])
            raise OutcomeUnknown("the reply was lost")
        return done

    tables.commit = lossy  # type: ignore[method-assign]
    reconcile(ports)
    assert (len(lost), sent_refs(ports)[:1]) == (1, [key.ref])


def garble(tables: MemoryStore, schedule: dict[str, Any]) -> None:
    tables.commit([Update(JOBS, {"job_id": "pay:nightly"}, Anyway("somebody's hand"), {"schedule": schedule})])
