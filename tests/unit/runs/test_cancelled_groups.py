"""Cancelling a group: one write, whatever it holds; nothing of it starts any more, and nothing else is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.http import ApiUnderTest
from tests.support.worlds import (
    NOW_S,
    WORK,
    create_job,
    create_timer,
    every,
    item_of,
    job_item,
    make_world,
    move,
    sent_refs,
    sent_seconds,
    serve,
)
from tests.unit.api.test_jobs_and_timers import create_timer as post_timer
from tests.unit.dispatch.test_scoped_pauses import pause, resume, start

from tickwork.core.errors import Held, Throttled
from tickwork.core.jobs.contracts import contract_of
from tickwork.core.jobs.definitions import CANCELLED, CatchUp
from tickwork.core.jobs.overlap import BUFFER_ALL
from tickwork.core.jobs.scopes import GROUP, Scope
from tickwork.core.ledger import items
from tickwork.core.ledger.epochs import Group, Label, group_key
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import AUDIT, PASSES, TEAMS, TIMERS, Table
from tickwork.core.ledger.writes import Committed, Item, Refused, Write
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.core.schedule import parse_schedule
from tickwork.core.watch import silence
from tickwork.flows.audit import history, reconciling
from tickwork.flows.audit.history import Filter
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.jobs import cancelling_groups, changing, registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.ledger import groups
from tickwork.flows.runs import asking, dead_letters, timers, worker_calls
from tickwork.flows.runs.asking import Wanted
from tickwork.flows.runs.dead_letters import Order
from tickwork.flows.runs.worker_calls import Started
from tickwork.ports import Ports

NIGHT = Label("pay", "night")
WHY = "its group night was cancelled by ana: wrong template"


def cancel(ports: Ports, label: Label = NIGHT) -> Group:
    return cancelling_groups.cancel_group(ports, label, "ana", "wrong template")


def seen(ports: Ports, run: Run) -> Run:
    """A run as it is shown."""
    return history.view_of(ports, timers.get_timer(ports, run.key.job_id)).run


class _Dead(Exception):
    """The process is gone."""


class _Meddled:
    """A store that does something of somebody else's before or after a write of the ledger's."""

    def __init__(self, ports: Ports, act: Callable[[], Any], *, before: bool) -> None:
        self._store, self._act, self._before = ports.store, act, before

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        is_it = self._act is not None and any(write.table is TIMERS for write in writes)
        if is_it and self._before:
            self._once()
        result = self._store.commit(writes)
        if is_it and not self._before:
            self._once()
        return result

    def _once(self) -> None:
        act, self._act = self._act, None  # type: ignore[assignment]
        if act is not None:
            act()

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)


def test_what_is_pending_of_a_cancelled_group_is_passed_and_shown_as_cancelled() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    runs = {group: create_timer(ports, 5, group=group) for group in ("night", "day", "")}
    new = timers.NewTimer("web", ports.clock.now_ms() + 5_000, WORK, group="night")
    (theirs,) = (one.run for one in timers.create_timers(ports, [new]))
    before = [item_of(tables, run.key) for run in runs.values()]
    cancel(ports)
    assert [item_of(tables, run.key) for run in runs.values()] == before, "nothing is written to what it holds"
    move(ports, 6)
    assert serve(ports).done == NOW_S + 6
    assert set(sent_refs(ports)) == {runs["day"].key.ref, runs[""].key.ref, theirs.key.ref}
    shown = seen(ports, runs["night"])
    assert (shown.status, shown.reason, shown.cancelled_by) == ("cancelled", WHY, "ana")
    assert history.view_of(ports, runs["day"]).status == "queued"
    for group in ("night", "day", ""):
        listed = history.list_runs(ports, Filter("pay", "cancelled"), limit=9, after=None).found
        assert [one.run.key for one in listed] == [runs["night"].key], group


def test_what_was_queued_before_its_group_was_cancelled_does_not_start() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    run = create_timer(ports, 5, group="night")
    move(ports, 6)
    serve(ports)
    cancel(ports)
    declined = start(ports)
    assert isinstance(declined, Declined)
    assert (declined.reason, declined.discard) == ("cancelled", True)
    item = item_of(tables, run.key)
    assert (item["status"], item["reason"], item["cancelled_by"]) == ("cancelled", WHY, "ana")
    assert "claim" not in item
    assert isinstance(start(ports), Declined)


def test_a_cancellation_between_the_write_of_a_start_and_its_look_is_seen() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    run = create_timer(ports, 5, group="night")
    move(ports, 6)
    serve(ports)
    meddled = replace(ports, store=_Meddled(ports, lambda: cancel(ports), before=False))
    assert isinstance(start(meddled), Declined)
    assert item_of(tables, run.key)["status"] == "cancelled"


def test_a_start_that_dies_before_its_look_is_looked_at_by_the_next_one() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    run = create_timer(ports, 5, group="night")
    move(ports, 6)
    serve(ports)

    def die() -> None:
        raise _Dead

    with pytest.raises(_Dead):
        start(replace(ports, store=_Meddled(ports, die, before=False)))
    assert item_of(tables, run.key)["status"] == "running"
    cancel(ports)
    move(ports, 31)
    assert isinstance(start(ports), Declined)
    assert item_of(tables, run.key)["status"] == "cancelled"
    assert [one["outcome"] for one in item_of(tables, run.key)["attempts"]] == ["lost", "cancelled"]


def test_a_start_that_is_asked_for_again_looks_again() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    run = create_timer(ports, 5, group="night")
    move(ports, 6)
    serve(ports)
    sender: Any = ports.sender
    request = StartRequest(parse_ref(sender.bodies("ready-default")[0]["ref"]), "claim", "w", 30)
    assert isinstance(worker_calls.start(ports, request), Started)
    cancel(ports)
    assert isinstance(worker_calls.start(ports, request), Declined)
    assert item_of(tables, run.key)["status"] == "cancelled"


def test_what_runs_goes_on_and_what_it_leaves_to_be_tried_again_does_not() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    runs = [create_timer(ports, 5, group="night") for _ in range(2)]
    move(ports, 6)
    serve(ports)
    started = {one.run.key.ref: one.run for at in range(2) if isinstance(one := start(ports, at), Started)}
    assert len(started) == 2
    cancel(ports)
    good, bad = (started[run.key.ref] for run in runs)
    assert isinstance(worker_calls.heartbeat(ports, good.key, good.token, 30), worker_calls.Beat)
    assert isinstance(worker_calls.complete(ports, good.key, good.token), worker_calls.Ended)
    assert isinstance(worker_calls.fail(ports, bad.key, bad.token, "no", permanent=False), worker_calls.Ended)
    assert item_of(tables, bad.key)["status"] == "waiting"
    assert seen(ports, bad).status == "cancelled"
    move(ports, 30)
    serve(ports)
    assert isinstance(start(ports, 2), Declined)
    assert (item_of(tables, good.key)["status"], item_of(tables, bad.key)["status"]) == ("succeeded", "cancelled")


def test_what_is_created_after_the_answer_is_not_touched_and_the_next_cancellation_is_about_that() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    assert cancel(ports).epoch == 1
    create_timer(ports, 5, group="night")
    move(ports, 6)
    serve(ports)
    assert isinstance(start(ports), Started)
    later = create_timer(ports, 5, group="night")
    assert cancel(ports).epoch == 2
    move(ports, 6)
    serve(ports)
    assert len(sent_refs(ports)) == 1
    assert seen(ports, later).status == "cancelled"


def test_a_timer_whose_group_is_cancelled_while_it_is_being_created_is_answered_as_cancelled() -> None:
    ports, tables = make_world()
    meddled = replace(ports, store=_Meddled(ports, lambda: cancel(ports), before=True))
    told = create_timer(meddled, 5, group="night")
    assert item_of(tables, told.key)["status"] == "pending"
    assert (told.status, told.reason, seen(ports, told).status) == ("cancelled", WHY, "cancelled")


def test_the_same_request_after_the_cancellation_is_answered_with_the_timer_that_was_cancelled() -> None:
    ports, tables = make_world()
    first = create_timer(ports, 5, "key", group="night")
    assert first.status == "pending"
    cancel(ports)
    again = create_timer(ports, 5, "key", group="night")
    assert (again.key, again.status) == (first.key, "cancelled")
    known = timers.created_before(ports, [timers.Asked("pay", "key", "content")], lambda _: worker_calls.ORDINARY)
    assert [one.run.status for one in known if isinstance(one, timers.Created)] == ["cancelled"]
    assert len(tables.items(TIMERS)) == 1
    assert create_timer(ports, 5, "another", group="night").status == "pending"


def test_a_cancelled_timer_is_no_work_for_the_audits() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_timer(ports, 5, group="night")
    cancel(ports)
    move(ports, 6)
    serve(ports)
    for _ in range(3):
        move(ports, 90_000)
        serve(ports)
        reconciling.reconcile(ports)
    assert sent_refs(ports) == []
    assert not [row for row in tables.items(PASSES) if "bucket" in row], "its bucket is closed"


def test_what_bears_a_label_expires_a_year_past_its_record_and_nothing_else_before_its_end() -> None:
    ports, tables = make_world()
    grouped, other = create_timer(ports, 5, group="night"), create_timer(ports, 5)
    year_s = 365 * 86_400
    assert item_of(tables, grouped.key)["expires_at_s"] == NOW_S + 5 + ports.layout.retention_s + year_s
    assert "expires_at_s" not in item_of(tables, other.key)
    issue_ticks(ports)
    move(ports, 6)
    serve(ports)
    started = [one for at in range(2) if isinstance(one := start(ports, at), Started)]
    for one in started:
        worker_calls.complete(ports, one.run.key, one.run.token)
    ends = {item_of(tables, run.key)["expires_at_s"] for run in (grouped, other)}
    assert ends == {NOW_S + 6 + ports.layout.retention_s}


@pytest.mark.parametrize("count", [1, 400])
def test_a_cancellation_costs_the_same_whatever_the_group_holds(count: int) -> None:
    ports, tables = make_world()
    for _ in range(count):
        create_timer(ports, 3_600, group="night")
    written: list[tuple[str, ...]] = []
    read: list[str] = []
    counting = _Counting(ports, written, read)
    cancel(replace(ports, store=counting))
    assert written == [("passes",), ("teams", "audit")]
    assert sorted(read) == ["passes", "teams"]
    assert len(tables.items(TIMERS)) == count


class _Counting:
    """A store that says which tables are read, and written in which transactions."""

    def __init__(self, ports: Ports, written: list[tuple[str, ...]], read: list[str]) -> None:
        self._store, self._written, self._read = ports.store, written, read

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        self._written.append(tuple(write.table.name for write in writes))
        return self._store.commit(writes)

    def get(self, table: Table, key: Item) -> Item | None:
        self._read.append(table.name)
        return self._store.get(table, key)

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        self._read += [table.name] * len(keys)
        return self._store.get_many(table, keys)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)


@pytest.mark.parametrize(("group", "reads"), [("", 0), ("night", 1)])
def test_a_window_reads_a_group_once_and_nothing_where_no_label_is_borne(group: str, reads: int) -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    for second in range(1, 6):
        create_timer(ports, second, group=group)
    move(ports, 6)
    read: list[str] = []
    serve(replace(ports, store=_Counting(ports, [], read)))
    assert read.count("teams") == reads
    read.clear()
    assert isinstance(start(replace(ports, store=_Counting(ports, [], read))), Started)
    assert read.count("teams") == reads


@pytest.mark.parametrize(("group", "reads"), [("", 0), ("night", 2)])
def test_a_creation_reads_its_group_before_and_behind_its_write(group: str, reads: int) -> None:
    ports, _ = make_world()
    create_timer(ports, 60, group=group)  # the process has read what it remembers
    read: list[str] = []
    create_timer(replace(ports, store=_Counting(ports, [], read)), 60, group=group)
    assert read.count("teams") == reads


def test_groups_that_cannot_be_read_stop_no_window_and_let_nothing_of_them_start() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    run = create_timer(ports, 5, group="night")
    cancel(ports)
    move(ports, 6)

    class _Busy(_Counting):
        def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
            if table is TEAMS:
                raise Throttled("busy")
            return super().get_many(table, keys)

    busy = replace(ports, store=_Busy(ports, [], []))
    serve(busy)
    assert sent_seconds(ports) == [5]
    with pytest.raises(Throttled):
        start(busy)
    assert item_of(tables, run.key)["status"] == "running", "its worker has heard of nothing"
    move(ports, 31)
    assert isinstance(start(ports), Declined)
    assert item_of(tables, run.key)["status"] == "cancelled"


# --- jobs -------------------------------------------------------------------------------------------------------


def job_of(ports: Ports) -> Any:
    (job,) = groups.jobs_as_they_end(ports, [registering.get_job(ports, "pay:nightly")])
    return job


def test_a_job_of_a_cancelled_group_ends_with_the_occurrence_that_is_due() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    job = create_job(ports, every(10), group="night")
    create_job(ports, every(10), name="other")
    cancel(ports)
    assert (job_of(ports).status, job_of(ports).reason, job_of(ports).next) == ("cancelled", WHY, None)
    key = job.next_key("main")
    assert key is not None
    move(ports, 20)
    serve(ports)
    assert all("nightly" not in ref for ref in sent_refs(ports))
    assert sent_refs(ports) != []
    assert (item_of(tables, key)["status"], item_of(tables, key)["cancelled_by"]) == ("cancelled", "ana")
    item = job_item(tables)
    assert (item["status"], item["reason"], item["next_scheduled_at_ms"]) == ("cancelled", WHY, 0)
    assert (job_of(ports).status, job_of(ports).reason) == ("cancelled", WHY)
    move(ports, 4_000)
    serve(ports)
    reconciling.reconcile(ports)
    assert job_item(tables)["status"] == "cancelled"


def test_a_job_of_a_cancelled_group_ends_also_where_a_window_first_sees_to_what_waits_for_it() -> None:
    ports, tables = make_world()
    schedule = parse_schedule(every(10), now_ms=ports.clock.now_ms(), job_id="pay:nightly").spec
    new = NewJob("pay", "nightly", schedule, WORK, 0, CatchUp(), "content", group="night", overlap=BUFFER_ALL)
    registering.create_job(ports, replace(new, buffer_age_s=5))
    move(ports, 10)
    serve(ports)
    assert isinstance(start(ports), Started)
    move(ports, 10)
    serve(ports)
    assert registering.get_job(ports, "pay:nightly").buffer is not None
    cancel(ports)
    move(ports, 10)
    serve(ports)
    assert registering.get_job(ports, "pay:nightly").buffer is None, "what waited had waited too long"
    assert job_item(tables)["status"] == "cancelled"


def test_an_occurrence_that_was_queued_does_not_start_and_its_job_is_free() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_job(ports, every(10), group="night")
    move(ports, 10)
    serve(ports)
    (ref,) = sent_refs(ports)
    cancel(ports)
    assert isinstance(start(ports), Declined)
    item = item_of(tables, parse_ref(ref))
    assert (item["status"], item["reason"]) == ("cancelled", WHY)
    assert job_item(tables)["last"]["status"] == "cancelled"


@pytest.mark.parametrize("stepped", [False, True])
def test_a_job_that_is_registered_again_is_part_of_the_group_as_it_is_now(*, stepped: bool) -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    first = create_job(ports, every(10), group="night")
    cancel(ports)
    if stepped:
        move(ports, 12)
        serve(ports)
    new = NewJob(**items.values_of(first, NewJob))
    assert registering.registered_before(ports, first.job_id, [first.fingerprint]) is None
    job, is_new = changing.create_or_rejoin(ports, new)
    assert (is_new, job.epoch, job.status) == (True, 1, "active")
    assert changing.create_or_rejoin(ports, new)[1] is False
    assert job_of(ports).status == "active"
    move(ports, 12)
    serve(ports)
    sent = sent_refs(ports)
    assert len(sent) == 1
    assert isinstance(start(ports), Started)
    assert [item["epoch"] for item in tables.items(TIMERS) if item["status"] == "pending"] == [1]
    cancel(ports)
    assert job_of(ports).status == "cancelled"


def test_what_was_due_of_a_job_when_its_group_was_cancelled_does_not_come_back_with_it() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    first = create_job(ports, every(10), group="night")
    move(ports, 15)
    cancel(ports)
    due = first.next_key("main")
    assert due is not None
    changed = changing.update_job(ports, first.job_id, 1, lambda job: replace(job, fingerprint="x", tolerance_s=1))
    assert changed.epoch == 1
    assert item_of(tables, due)["status"] == "cancelled"
    move(ports, 10)
    serve(ports)
    assert due.ref not in sent_refs(ports)
    assert len(sent_refs(ports)) == 1


def test_a_cancelled_job_runs_neither_by_hand_nor_for_the_past() -> None:
    ports, _ = make_world()
    create_job(ports, every(10), group="night")
    cancel(ports)
    with pytest.raises(Held) as refused:
        asking.ask_for_run(ports, Wanted("pay:nightly", "ana", "now"))
    assert refused.value.detail.startswith(WHY)


def test_a_run_by_hand_that_waits_for_its_worker_is_cancelled_with_its_group() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_job(ports, every(3_600), group="night")
    asked = asking.ask_for_run(ports, Wanted("pay:nightly", "ana", "now"))
    cancel(ports)
    move(ports, 2)
    serve(ports)
    assert isinstance(start(ports), Declined)
    assert item_of(tables, asked.key)["status"] == "cancelled"


def test_a_dead_run_of_a_cancelled_group_is_not_replayed() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    run = create_timer(ports, 5, group="night")
    move(ports, 6)
    serve(ports)
    started = start(ports)
    assert isinstance(started, Started)
    worker_calls.fail(ports, run.key, started.run.token, "no", permanent=True)
    order = Order("ana", "again", 1, ports.clock.now_ms())
    cancel(ports)
    (refused,) = dead_letters.replay_runs(ports, [run.key], order)
    assert refused.refusal == "group_cancelled"


def test_a_resume_does_not_name_what_was_cancelled_meanwhile() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    create_timer(ports, 5, group="night")
    scope = Scope("pay", GROUP, "night")
    pause(ports, scope)
    move(ports, 6)
    serve(ports)
    cancel(ports)
    assert resume(ports, scope) == []
    move(ports, 1)
    serve(ports)
    assert sent_refs(ports) == []


def test_nobody_waits_for_a_success_of_a_job_that_was_cancelled_with_its_group() -> None:
    ports, _ = make_world()
    job = replace(create_job(ports, every(10), group="night"), dead_man_switch="on")
    assert silence.expected(job, contract_of(job, None), (), 0) is not None
    assert silence.expected(replace(job, status=CANCELLED), contract_of(job, None), (), 0) is None


# --- the call ---------------------------------------------------------------------------------------------------


def test_a_call_whose_reply_is_lost_has_cancelled_once() -> None:
    ports, tables = make_world()

    class _Lost(_Counting):
        def commit(self, writes: Sequence[Write]) -> Committed | Refused:
            result = super().commit(writes)
            if len(self._written) == 2:  # the first is the row of the team's audit
                return Refused({0: self._store.get(TEAMS, group_key(NIGHT))})
            return result

    assert cancel(replace(ports, store=_Lost(ports, [], []))).epoch == 1
    assert len(tables.items(AUDIT)) == 1


def test_a_try_that_comes_late_behind_another_touches_nothing_that_was_made_since() -> None:
    ports, _ = make_world()
    made: list[Run] = []

    def meanwhile() -> None:
        cancel(ports)
        made.append(create_timer(ports, 60, group="night"))

    class _Late(_Counting):
        def commit(self, writes: Sequence[Write]) -> Committed | Refused:
            if not made and any(write.table is TEAMS for write in writes):
                meanwhile()
            return super().commit(writes)

    assert cancel(replace(ports, store=_Late(ports, [], []))).epoch == 1
    assert seen(ports, made[0]).status == "pending"


def test_a_group_is_cancelled_over_http_and_says_by_whom(api: ApiUnderTest, ports: Ports) -> None:
    _, timer = post_timer(api, group="night")
    body = {"team": "payments", "group": "night", "reason": "wrong template", "by": "ana"}
    assert api.call("GET", "/groups", team="payments", group="night")[1]["epoch"] == 0
    status, shown = api.call("POST", "/groups:cancel", body)
    assert (status, shown["epoch"], shown["cancelled"]["reason"]) == (200, 1, "wrong template")
    assert api.call("GET", "/groups", team="payments", group="night") == (200, shown)
    _, found = api.call("GET", f"/timers/{timer['timer_id']}")
    assert (found["status"], "wrong template" in found["reason"]) == ("cancelled", True)
    assert found["cancelled_by"] == shown["cancelled"]["by"]
    _, page = api.call("GET", "/timers", team="payments", group="night", status="cancelled")
    assert [one["timer_id"] for one in page["timers"]] == [timer["timer_id"]]
    tables: Any = ports.store
    (entry,) = [item for item in tables.items(AUDIT) if item["action"] == "group.cancelled"]
    assert entry["facts"]["reason"] == "wrong template"
    assert api.call("POST", "/groups:cancel", body | {"team": "paymnts"})[0] == 404
