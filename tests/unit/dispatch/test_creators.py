"""A creator: a slice that cannot be read costs its own items only (F14); what was not sent is not answered for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.worlds import NOW_S, WORK, create_job, create_timer, every, make_world, move, sent_refs
from tickwork.core.errors import Throttled, Unsent
from tickwork.core.ledger.tables import CALENDARS, JOBS, LEASES, TIMERS
from tickwork.core.ledger.writes import Anyway, Put, Update
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch.creating import fire_overdue, follow_up, read_pending
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.jobs.registering import create_job as create_in_pool
from tickwork.flows.runs.timers import NewTimer, create_timers
from tickwork.ports import Layout, OutMessage, Ports, SendReport
from tickwork.testing.memory import MemoryStore

IN_S = 20
"""Within the minute in which a creator brings the ticks of its timers."""


class OneLeaseAway:
    """A store that gives the lease of one slice to nobody who looks at it after a put."""

    def __init__(self, inner: MemoryStore, slice_id: str) -> None:
        self._inner, self._slice_id = inner, slice_id

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get(self, table: Any, key: dict[str, Any]) -> Any:
        if table is LEASES and key == {"slice": self._slice_id}:
            raise Throttled("always")
        return self._inner.get(table, key)


def create(ports: Ports, count: int) -> None:
    create_timers(ports, [NewTimer("pay", (NOW_S + IN_S) * 1000, WORK, f"key-{n}", "content") for n in range(count)])


def test_a_slice_that_cannot_be_read_keeps_no_other_slices_timers_from_their_ticks() -> None:
    ports, tables = make_world(Layout(shards=4, slices=2))
    create(ports, 8)  # both slices have their cursors
    sender: Any = ports.sender
    sender.sent.clear()
    away = replace(ports, store=OneLeaseAway(tables, "main#0000"))
    for lease in tables.items(LEASES):
        assert lease["slice"] in ("main#0000", "main#0001")
    with pytest.raises(Throttled):
        create_timers(away, [NewTimer("pay", (NOW_S + IN_S + 7) * 1000, WORK, f"more-{n}", "c") for n in range(8)])
    assert {(tick["slice"], tick["second"]) for tick in sender.bodies("ticks")} == {(1, NOW_S + IN_S + 7)}


class OneShardAway:
    """A store whose batches fail as a whole when an item of one shard is among them."""

    def __init__(self, inner: MemoryStore, shard: str) -> None:
        self._inner, self._shard = inner, shard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_many(self, table: Any, keys: Any) -> Any:
        if table is TIMERS and any(key["pk"].startswith(self._shard) for key in keys):
            raise Throttled("always")
        return self._inner.get_many(table, keys)


def test_a_shard_that_cannot_be_read_keeps_no_other_shards_overdue_timers_from_being_fired() -> None:
    ports, tables = make_world(Layout(shards=4, slices=1))
    create(ports, 8)
    tables.commit([Update(LEASES, {"slice": "main#0000"}, Anyway("set up"), set={"closing": NOW_S, "done": NOW_S})])
    late = [NewTimer("pay", (NOW_S - 5) * 1000, WORK, f"late-{n}", "c") for n in range(8)]
    away = replace(ports, store=OneShardAway(tables, "main#0002"))
    with pytest.raises(Throttled):
        create_timers(away, late)
    fired = {ref.split("|")[0][:9] for ref in sent_refs(ports)}
    assert fired == {"main#0000", "main#0001", "main#0003"}


class NoCalendars:
    """A store that gives nobody a calendar."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_many(self, table: Any, keys: Any) -> Any:
        if table is CALENDARS:
            raise Throttled("slow down")
        return self._inner.get_many(table, keys)


def test_a_creator_does_not_answer_for_an_occurrence_whose_calendars_it_could_not_read() -> None:
    ports, tables = make_world()
    free = {"calendar_id": "pay:free", "name": "free", "version": 1, "spec": {"dates": ["2020-01-01"]}}
    tables.commit([Put(CALENDARS, free, Anyway("set up"))])
    create_timer(ports, 3_600)  # the slice has its cursors
    job = create_job(ports, {"cron": "* * * * *", "calendars": {"exclude": ["free"]}})
    key = job.next_key(ports.layout.cell)
    assert key is not None
    passed = {"closing": key.fire_second, "done": key.fire_second}
    tables.commit([Update(LEASES, {"slice": "main#0000"}, Anyway("set up"), set=passed)])

    with pytest.raises(Unsent):
        follow_up(replace(ports, store=NoCalendars(tables)), [key])
    assert key.ref not in sent_refs(ports)
    follow_up(ports, [key])
    assert key.ref in sent_refs(ports)


def test_a_job_whose_calendars_cannot_be_read_keeps_no_other_jobs_chain_from_going_on() -> None:
    ports, tables = make_world()
    free = {"calendar_id": "pay:free", "name": "free", "version": 1, "spec": {"dates": ["2020-01-01"]}}
    tables.commit([Put(CALENDARS, free, Anyway("set up"))])
    create_timer(ports, 3_600)
    stuck = create_job(ports, {"cron": "* * * * *", "calendars": {"exclude": ["free"]}}, name="stuck")
    plain = create_job(ports, {"rate": "20 seconds"}, name="plain")
    keys = [key for job in (stuck, plain) if (key := job.next_key(ports.layout.cell)) is not None]
    passed = {"closing": NOW_S + 70, "done": NOW_S + 70}
    tables.commit([Update(LEASES, {"slice": "main#0000"}, Anyway("set up"), set=passed)])

    with pytest.raises(Unsent):
        follow_up(replace(ports, store=NoCalendars(tables)), keys)
    assert sum("#plain#" in ref for ref in sent_refs(ports)) >= 3, "all that was passed of it"
    assert not any("#stuck#" in ref for ref in sent_refs(ports))


class AwayForAWhile(OneShardAway):
    """As that, but only so many times."""

    def __init__(self, inner: MemoryStore, shard: str, times: int) -> None:
        super().__init__(inner, shard)
        self._times = times

    def get_many(self, table: Any, keys: Any) -> Any:
        try:
            return super().get_many(table, keys)
        except Throttled:
            self._times -= 1
            if self._times < 0:
                return self._inner.get_many(table, keys)
            raise


def test_what_one_round_could_not_read_is_owed_whatever_the_rounds_after_it_come_to() -> None:
    """Its item may lie behind the cursor, and whoever is told that all is well sees to it no more."""
    ports, tables = make_world(Layout(shards=2, slices=1))
    keys = [create_job(ports, every(5), name=f"job-{n}").next_key("main") for n in range(6)]
    due = read_pending(ports, [key for key in keys if key is not None])
    assert {run.key.shard for run in due} == {0, 1}
    move(ports, 12)
    cursors = {"closing": NOW_S + 12, "done": NOW_S + 12}
    tables.commit([Update(LEASES, {"slice": "main#0000"}, Anyway("set up"), set=cursors)])
    away = replace(
        ports, store=AwayForAWhile(tables, "main#0001", times=2)
    )  # in the one read, and in that of its shard
    with pytest.raises(Throttled):
        fire_overdue(away, due, "audit")
    sent = [ref.split("#")[1] for ref in sent_refs(ports)]
    assert sent.count("0000") > len([run for run in due if run.key.shard == 0]), "the others have gone on"


class OneQueueAway:
    """A sender whose one ready queue takes nothing."""

    def __init__(self, inner: Any, queue: str) -> None:
        self._inner, self._queue = inner, queue

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        if queue == self._queue:
            return SendReport(failed=tuple(range(len(messages))), why="denied")
        report: SendReport = self._inner.send(queue, messages)
        return report


def test_a_queue_that_takes_nothing_keeps_no_other_pools_chain_from_going_on() -> None:
    ports, tables = make_world()
    create_timer(ports, 3_600)
    plain = create_job(ports, {"rate": "20 seconds"}, name="plain")
    schedule = parse_schedule({"rate": "20 seconds"}, now_ms=ports.clock.now_ms(), job_id="pay:stuck").spec
    stuck, _ = create_in_pool(ports, NewJob("pay", "stuck", schedule, replace(WORK, pool="bulk"), fingerprint="f"))
    keys = [key for job in (stuck, plain) if (key := job.next_key(ports.layout.cell)) is not None]
    passed = {"closing": NOW_S + 70, "done": NOW_S + 70}
    tables.commit([Update(LEASES, {"slice": "main#0000"}, Anyway("set up"), set=passed)])

    with pytest.raises(Unsent):
        follow_up(replace(ports, sender=OneQueueAway(ports.sender, "ready-bulk")), keys)
    assert len(sent_refs(ports)) >= 3, "all that was passed of it"
    assert all("#plain#" in ref for ref in sent_refs(ports))
    item = tables.get(JOBS, {"job_id": "pay:stuck"})
    assert item is not None
    assert item["next_scheduled_at_ms"] == keys[0].scheduled_at_ms + 20_000, "it was tried once, and no further"
