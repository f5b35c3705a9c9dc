"""Cells (decision 164): where what is new lies, who serves it, and what becomes of it for who knows less."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tickwork
from tests.support.fakes import NOW_MS, fake_ports
from tests.support.http import ApiUnderTest
from tickwork.api.gate import KeyGate
from tickwork.core.access.actors import LOCAL
from tickwork.core.audit import passes
from tickwork.core.dispatch.chain import chain_unmoved
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import InvalidField, Throttled, TooLate, UnknownCell
from tickwork.core.instants import DAY_MS, HOUR_MS, SECOND_MS, second_of
from tickwork.core.jobs.definitions import Job, Next, next_attributes
from tickwork.core.ledger.cells import ALL, CellShape, of_lane, of_team, parse_cells, read_place, written_place
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.messages import Tick
from tickwork.core.ledger.tables import JOBS, LEASES, TEAMS, TIMERS
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Is, Update
from tickwork.core.schedule import parse_schedule
from tickwork.flows.access import keys, placements
from tickwork.flows.access.keys import Wanted
from tickwork.flows.audit.auditing import look_at_open_buckets
from tickwork.flows.audit.giving_back import _audited_s
from tickwork.flows.audit.history import view_of
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.audit.repairs import Repairs, deadline_in
from tickwork.flows.dispatch import creating
from tickwork.flows.dispatch.tick_batches import TickBatch
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.jobs import changing, registering, skipping
from tickwork.flows.ledger.remembered import TRUSTED_MS
from tickwork.flows.runs import asking, naming, timers
from tickwork.ports import InMessage, Layout, OutMessage, Ports, SendReport
from tickwork.settings import BadSetting, Settings
from tickwork.testing.memory import MemoryStore, holds

SIDE = CellShape("side", 6, 3)
LAYOUT = Layout(shards=2, slices=2, pools=("default",), others=(SIDE,))
WORK = Work("default", "job")


def world(layout: Layout = LAYOUT) -> Ports:
    return fake_ports(MemoryStore(), layout)


def another_process(ports: Ports, layout: Layout = LAYOUT) -> Ports:
    return replace(fake_ports(ports.store, layout), clock=ports.clock, sender=ports.sender, ids=ports.ids)  # type: ignore[arg-type]


def timer(ports: Ports, team: str = "acme", ahead_s: int = 600) -> LedgerKey:
    (made,) = timers.create_timers(ports, [timers.NewTimer(team, ports.clock.now_ms() + ahead_s * SECOND_MS, WORK)])
    return made.run.key


def job(ports: Ports, name: str = "often", team: str = "acme", every: str = "10 seconds") -> Job:
    parsed = parse_schedule({"rate": every}, now_ms=ports.clock.now_ms(), job_id=f"{team}:{name}")
    made, _ = registering.create_job(ports, registering.NewJob(team, name, parsed.spec, WORK, fingerprint="f"))
    return made


def place(ports: Ports, of: str, cell: str = "side") -> None:
    placements.place(ports, of, cell, LOCAL, "room")


def next_of(ports: Ports, job_id: str = "acme:often") -> LedgerKey:
    key = registering.get_job(ports, job_id).next_key(ports.layout.home)
    assert key is not None
    return key


def serve(ports: Ports, cell: str, until_ms: int) -> None:
    """The windows of a cell up to an instant."""
    ports.clock.sleep_ms(max(0, until_ms - ports.clock.now_ms()))
    shape = next(one for one in ports.layout.shapes if one.name == cell)
    ticks = [Tick(cell, n, second_of(until_ms)).to_json() for n in range(shape.slices)]
    TickBatch(ports).serve({str(n): InMessage(str(n), body) for n, body in enumerate(ticks)}, budget_ms=8_000)


# --- what a setting may say -------------------------------------------------------------------------------------


def test_the_cells_of_an_environment_are_named_with_their_shards_and_slices() -> None:
    assert parse_cells("") == ()
    assert parse_cells("bulk:4/2,acme:16/16") == (CellShape("bulk", 4, 2), CellShape("acme", 16, 16))
    assert Settings(cells="bulk:4/2").layout().shapes == (CellShape("main", 4, 2), CellShape("bulk", 4, 2))


@pytest.mark.parametrize("text", ["bulk", "bulk:4", "bulk:2/4", "bulk:4/0", "Bulk:4/2", "a:4/2,a:8/2", ","])
def test_cells_that_make_no_sense_are_refused_before_the_process_starts(text: str) -> None:
    with pytest.raises(BadSetting, match="TICKWORK_CELLS"):
        Settings(cells=text)
    with pytest.raises(ValueError, match="one name"):
        Settings(cells="main:4/2").layout()


def test_a_cell_sees_the_others_from_where_it_stands_and_finds_its_way_home() -> None:
    ports = world()
    side = ports.in_cell("side")
    assert (side.layout.cell, side.layout.shards, side.layout.slices) == ("side", 6, 3)
    assert side.layout.home == "main"
    assert side.in_cell("main").layout.shapes == ports.layout.shapes == side.layout.shapes
    assert ports.in_cell("main") is ports
    with pytest.raises(UnknownCell):
        ports.in_cell("gone")


# --- where what is new lies -------------------------------------------------------------------------------------


def test_what_is_new_of_a_team_lies_where_the_team_is_placed_and_all_else_at_home() -> None:
    ports = world()
    before = timer(ports)
    place(ports, of_team("acme"))
    assert timer(ports).cell == next_key(job(ports)).cell == "side"
    assert timer(ports, "shop").cell == next_key(job(ports, team="shop")).cell == "main"
    assert before.cell == "main"
    assert timers.get_timer(ports, before.job_id).status == "pending", "what is pending stays"


def next_key(made: Job) -> LedgerKey:
    key = made.next_key("main")
    assert key is not None
    return key


def test_all_may_be_placed_and_a_team_of_its_own_even_at_home() -> None:
    ports = world()
    place(ports, ALL)
    place(ports, of_team("acme"), "main")
    assert (timer(ports).cell, timer(ports, "shop").cell) == ("main", "side")
    placements.take_back(ports, of_team("acme"), LOCAL, "")
    assert timer(ports).cell == "side"
    placements.take_back(ports, ALL, LOCAL, "")
    assert timer(ports).cell == "main"
    assert placements.list_placements(ports) == []


def test_a_process_goes_by_a_placement_within_half_a_minute() -> None:
    ports = world()
    other = another_process(ports)
    timer(other)
    place(ports, of_team("acme"))
    assert timer(other).cell == "main", "it has read it lately"
    ports.clock.sleep_ms(TRUSTED_MS)
    assert timer(other).cell == "side"


def test_a_placement_that_cannot_be_read_delays_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as it was read last; and where it never was, home."""
    ports = world()
    place(ports, of_team("acme"))
    ports.clock.sleep_ms(TRUSTED_MS)
    right = ports.store.get_many

    def busy(table: Any, keys: Any) -> Any:
        if table is TEAMS:
            raise Throttled("teams")
        return right(table, keys)

    monkeypatch.setattr(ports.store, "get_many", busy)
    assert timer(ports).cell == "side"
    assert timer(another_process(ports)).cell == "main"


def test_an_environment_of_one_cell_reads_no_placement() -> None:
    ports = world(replace(LAYOUT, others=()))
    assert timer(ports).cell == "main"
    assert not [key for key in ports.registry if key[0] == "@cells"]


def test_nobody_is_placed_in_a_cell_that_is_not_deployed() -> None:
    ports = world()
    with pytest.raises(InvalidField):
        place(ports, of_team("acme"), "gone")
    place(ports, of_team("acme"))
    older = another_process(ports, replace(LAYOUT, others=(CellShape("another", 1, 1),)))
    assert timer(older).cell == "main", "a process without the cell places where it can"


# --- a chain crosses --------------------------------------------------------------------------------------------


def test_a_chain_crosses_with_its_next_step_and_comes_back() -> None:
    ports = world()
    job(ports)
    for cell, of in (("main", "side"), ("side", "main"), ("main", "side")):
        place(ports, of_team("acme"), of)
        due = next_of(ports)
        assert due.cell == cell
        serve(ports, cell, due.fire_at_ms)
        after = next_of(ports)
        assert (after.cell, after.scheduled_at_ms) == (of, due.scheduled_at_ms + 10_000)
    bodies = ports.sender.bodies("ready-default")  # type: ignore[attr-defined]
    assert len({body["ref"] for body in bodies}) == len(bodies) == 3


class TakesOne:
    """A sender whose ready queues take one message, and then nothing."""

    def __init__(self, inner: Any, *, closed: bool) -> None:
        self._inner, self._closed, self._has_taken = inner, closed, False

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        was_closed, self._has_taken = self._has_taken, self._has_taken or queue.startswith("ready-")
        if was_closed and queue.startswith("ready-"):
            return SendReport(failed=tuple(range(len(messages))), why="denied", closed=self._closed)
        report: SendReport = self._inner.send(queue, messages)
        return report


class PlacementsUnreadOnce:
    """A store that cannot say at first where a team is placed."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner, self._is_over = inner, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def get_many(self, table: Any, keys: Any) -> Any:
        if table is TEAMS and not self._is_over:
            self._is_over = True
            raise Throttled("teams")
        return self._inner.get_many(table, keys)


@pytest.mark.parametrize("closed", [False, True])
def test_a_chain_that_comes_back_behind_the_cursor_when_its_queue_takes_nothing_is_set_aside(closed: bool) -> None:
    """It goes to the other cell, whose cursor has passed it, and from there back to a second that is read already."""
    layout = replace(LAYOUT, shards=6, others=(CellShape("side", 2, 1),))  # back into a shard before that of the way
    ports = world(layout)
    place(ports, of_team("acme"))
    due = next_key(job(ports))
    now_ms = due.fire_at_ms + 35 * SECOND_MS
    serve(ports, "main", now_ms)
    first = another_process(ports, layout)
    first = replace(first, store=PlacementsUnreadOnce(ports.store), sender=TakesOne(ports.sender, closed=closed))  # type: ignore[arg-type]
    serve(first, "side", now_ms)
    back = next_of(ports)
    assert (back.cell, back.scheduled_at_ms) == ("side", due.scheduled_at_ms + 20_000)
    lease = ports.store.get(LEASES, {"slice": f"side#{ports.in_cell('side').layout.slice_of(back.shard):04d}"})
    assert lease is not None
    assert lease["done"] >= back.fire_second, "the cursor has passed it"
    for _ in range(4):
        now_ms += 10 * SECOND_MS
        serve(ports, "side", now_ms)
    bodies = ports.sender.bodies("ready-default")  # type: ignore[attr-defined]
    assert back.ref in {body["ref"] for body in bodies}


def test_a_change_of_a_job_ends_its_occurrence_where_it_is_and_puts_the_new_one_where_the_team_is_placed() -> None:
    ports = world()
    made = job(ports, every="1 hour")
    before = next_key(made)
    place(ports, of_team("acme"))
    other = registering.NewJob("acme", "often", made.schedule, Work("default", "other"), fingerprint="g")
    changed = changing.update_job(ports, made.job_id, 1, lambda _: other)
    after = next_key(changed)
    assert (before.cell, after.cell) == ("main", "side")
    assert status(ports, before) == "cancelled"
    assert status(ports, after) == "pending"
    assert naming.find_run(ports, made.job_id, after.scheduled_at_ms) == after


def status(ports: Ports, key: LedgerKey) -> str:
    item = ports.store.get(TIMERS, key.as_item())
    assert item is not None
    return str(item["status"])


def test_a_run_is_found_by_its_time_wherever_it_was_fired() -> None:
    """The index may not know of it yet."""
    ports = world()
    made = job(ports)
    due = next_key(made)
    serve(ports, "main", due.fire_at_ms)
    place(ports, of_team("acme"))
    assert naming.place_by_job(ports, made.job_id, due.scheduled_at_ms) == due


def test_the_reconciler_finds_a_jobs_next_in_its_cell_and_puts_back_what_has_vanished() -> None:
    ports = world()
    place(ports, of_team("acme"))
    job(ports)
    assert reconcile(ports).without_next == 0
    key = next_of(ports)
    assert isinstance(ports.store, MemoryStore)
    ports.store.remove(TIMERS, key.as_item())
    assert reconcile(ports).without_next == 1
    assert status(ports, key) == "pending"


def test_the_audit_finds_what_the_slices_of_every_cell_have_passed_unsent() -> None:
    ports = world()
    place(ports, of_team("acme"))
    key = timer(ports, ahead_s=5)
    serve(ports, "side", key.fire_at_ms)
    sender = ports.sender
    assert len(sender.bodies("ready-default")) == 1  # type: ignore[attr-defined]
    for n in range(20):
        serve(ports, "side", key.fire_at_ms + n * 60_000)
    assert reconcile(ports).resent == 1


def test_a_bucket_that_was_left_open_is_read_again_in_its_own_cell() -> None:
    ports = world()
    place(ports, of_team("acme"))
    key = timer(ports, ahead_s=5)
    serve(ports, "side", key.fire_at_ms)
    slice_id = f"side#{key.shard % SIDE.slices:04d}"
    ports.store.commit([passes.put_row(passes.again_soon(slice_id, key.fire_second // 60, 0))])
    ports.clock.sleep_ms(2 * HOUR_MS)
    repairs = Repairs()
    look_at_open_buckets(ports, repairs, deadline_in(ports, 60_000))
    assert (repairs.audited, repairs.resent) == (1, 1)


def test_a_jobs_next_is_overdue_by_the_cursor_of_its_own_cell() -> None:
    ports = world()
    place(ports, of_team("acme"))
    job(ports)
    serve(ports, "main", next_of(ports).fire_at_ms + 5_000)
    assert reconcile(ports).overdue == 0
    serve(ports, "side", ports.clock.now_ms())
    assert next_of(ports).fire_at_ms > ports.clock.now_ms()


def test_lists_by_time_show_what_lies_in_every_cell_once() -> None:
    ports = world()
    made = [timer(ports, ahead_s=60 + n) for n in range(8)]
    place(ports, of_team("acme"))
    made += [timer(ports, ahead_s=60 + n) for n in range(8)]
    assert {(key.cell, key.shard) for key in made} >= {("main", 0), ("side", 5)}, "the first shard and the last"
    api, shown, cursor = ApiUnderTest(ports), list[str](), ""
    while True:
        page = api.call("GET", "/timers", team="acme", limit="3", **({"cursor": cursor} if cursor else {}))[1]
        shown += [one["timer_id"] for one in page["timers"]]
        if (cursor := page["cursor"] or "") == "":
            break
    assert sorted(shown) == sorted(key.job_id for key in made)


def test_a_week_is_swept_when_the_audits_of_every_cell_have_passed_it() -> None:
    ports = world()
    issue_ticks(ports)
    assert _audited_s(ports) == min(lease_of(ports, name).audited_day for name in ("main#0000", "side#0002"))
    late = lease_of(ports, "side#0002")
    ports.store.commit([Update(LEASES, {"slice": late.slice}, Is("token", late.token), set={"audited_day": 7})])
    assert _audited_s(ports) == 7


def lease_of(ports: Ports, name: str) -> SliceLease:
    item = ports.store.get(LEASES, {"slice": name})
    assert item is not None
    return SliceLease.from_item(item)


def test_who_places_by_what_another_has_changed_meanwhile_places_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each change has its entry, and follows the one before it."""
    ports = world()
    place(ports, of_team("acme"))
    right, raced = ports.store.commit, [False]

    def between(writes: Any) -> Any:
        if not raced[0]:
            raced[0] = True
            placements.take_back(another_process(ports), of_team("acme"), LOCAL, "another was first")
        return right(writes)

    monkeypatch.setattr(ports.store, "commit", between)
    placed = placements.place(ports, of_team("acme"), "main", LOCAL, "home")
    assert (placed.version, placed.before, placed.placed_in) == (3, "", "main")


def test_a_timer_shows_as_queued_by_the_cursor_of_its_own_cell() -> None:
    ports = world()
    place(ports, of_team("acme"))
    key = timer(ports, ahead_s=5)
    serve(ports, "main", key.fire_at_ms)
    assert view_of(ports, timers.get_timer(ports, key.job_id)).status == "pending"
    serve(ports, "side", key.fire_at_ms)
    assert view_of(ports, timers.get_timer(ports, key.job_id)).status == "queued"


# --- who serves it ----------------------------------------------------------------------------------------------


def test_the_ticker_sees_to_the_slices_of_every_cell() -> None:
    ports = world()
    issue_ticks(ports)
    leases, _ = ports.store.scan(LEASES, limit=100, after=None)
    assert sorted(item["slice"] for item in leases) == ["main#0000", "main#0001", "side#0000", "side#0001", "side#0002"]
    place(ports, of_team("acme"))
    key = timer(ports, ahead_s=30)
    ticks = ports.sender.bodies("ticks")  # type: ignore[attr-defined]
    there = {"cell": "side", "slice": key.shard % SIDE.slices, "second": key.fire_second}
    assert any(tick | there == tick for tick in ticks)


@pytest.mark.parametrize(("cell", "slice_no"), [("side", 3), ("gone", 0), ("main", 2)])
def test_a_tick_of_a_slice_that_this_process_does_not_serve_is_told_and_dropped(cell: str, slice_no: int) -> None:
    ports = world()
    again = TickBatch(ports).serve(
        {"1": InMessage("1", Tick(cell, slice_no, second_of(NOW_MS)).to_json())}, budget_ms=100
    )
    assert again == []
    assert "foreign_tick" in [line[0] for line in ports.signals.lines]  # type: ignore[attr-defined]


def test_a_creator_without_the_cell_says_that_it_could_not_see_to_an_item_there() -> None:
    ports = world()
    place(ports, of_team("acme"))
    key = timer(ports, ahead_s=5)
    older = another_process(ports, replace(LAYOUT, others=()))
    with pytest.raises(UnknownCell):
        creating.follow_up(older, [key])


# --- how a job says where its next occurrence lies --------------------------------------------------------------


def test_a_place_at_home_is_stored_as_ever_and_elsewhere_so_that_an_older_version_leaves_the_job_alone() -> None:
    assert next_attributes(Next(1_000, 1_000, 3)) == {
        "next_scheduled_at_ms": 1_000,
        "next_fire_at_ms": 1_000,
        "next_shard": 3,
    }
    elsewhere = next_attributes(Next(1_000, 1_000, 3, "side"))["next_shard"]
    assert elsewhere == "side#0003"
    with pytest.raises(ValueError, match="no whole number"):
        whole(elsewhere)  # what versions before cells read it with


@pytest.mark.parametrize("value", ["side", "side#3", "Side#0003", "#0003", None, -1, 1.5, ["side", 3], True])
def test_a_place_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        read_place(value)
    assert read_place(written_place("side", 3)) == ("side", 3)
    assert read_place(written_place("", 3)) == ("", 3)


def test_a_step_planned_with_an_item_of_one_cell_is_refused_when_the_next_is_in_another() -> None:
    ports = world()
    made = job(ports)
    item = ports.store.get(JOBS, {"job_id": made.job_id})
    assert item is not None
    condition = chain_unmoved(made, next_key(made))
    assert holds(condition, item)
    assert not holds(condition, item | {"next_shard": "side#0001"})


# --- what is asked for of a job -----------------------------------------------------------------------------------


def test_a_skip_that_is_asked_for_once_more_is_known_again_when_its_team_has_moved() -> None:
    ports = world()
    job(ports)
    due = next_of(ports)
    skipping.skip_occurrence(ports, "acme:often", due.scheduled_at_ms, "ana", "a holiday")
    serve(ports, "main", due.fire_at_ms)
    place(ports, of_team("acme"))
    again = skipping.skip_occurrence(ports, "acme:often", due.scheduled_at_ms, "ana", "a holiday")
    assert again.job_id == "acme:often"
    with pytest.raises(TooLate, match="skipped by ana"):
        skipping.unskip_occurrence(ports, "acme:often", due.scheduled_at_ms, "ana")


def test_a_run_by_hand_lies_in_the_cell_of_its_jobs_lane_and_is_found_there() -> None:
    ports = world()
    parsed = parse_schedule({"rate": "1 hour"}, now_ms=NOW_MS, job_id="acme:bulk").spec
    new = registering.NewJob("acme", "bulk", parsed, replace(WORK, lane="P2"), fingerprint="f")
    registering.create_job(ports, new)
    place(ports, of_lane("P2"))
    asked = asking.ask_for_run(ports, asking.Wanted("acme:bulk", "ana", "by hand"))
    assert asked.key.cell == "side"
    assert naming.find_run(ports, "acme:bulk", asked.key.scheduled_at_ms, asked.key.kind) == asked.key


# --- over HTTP --------------------------------------------------------------------------------------------------


def test_the_platforms_team_places_and_takes_back_and_a_repetition_is_a_no_op() -> None:
    ports = world()
    api = ApiUnderTest(ports)
    status_, problem = api.call("PUT", "/teams/acme/placement", {"cell": "side"})
    assert (status_, problem["errors"][0]["field"]) == (404, "team"), "nobody has heard of it: it may be misspelt"
    job(ports)
    for _ in range(2):
        status_, answer = api.call("PUT", "/teams/acme/placement", {"cell": "side", "reason": "room"})
        assert (status_, answer["cell"], answer["before"]) == (200, "side", None)
    shown = api.call("GET", "/cells")[1]
    assert [one["cell"] for one in shown["cells"]] == ["main", "side"]
    assert [(one["of"], one["cell"]) for one in shown["placements"]] == [("team:acme", "side")]
    for _ in range(2):
        status_, answer = api.call("DELETE", "/teams/acme/placement")
        assert (status_, answer["cell"], answer["before"]) == (200, None, "side")
    assert api.call("PUT", "/placement", {"cell": "gone"})[0] == 422
    assert api.call("DELETE", "/placement")[0] == 200


def test_a_signal_of_another_cells_slice_names_it() -> None:
    ports = world()
    assert [ports.layout.label(1), ports.in_cell("side").layout.label(1)] == [1, "side#0001"]


def test_a_team_that_creates_by_its_own_key_is_placed_too_and_sees_no_others_placements() -> None:
    ports = world()
    place(ports, of_team("acme"))
    place(ports, of_team("shop"))
    wanted = Wanted("acme", "owner", ports.clock.now_ms() + DAY_MS)
    api = ApiUnderTest(ports, KeyGate())
    api.headers = {"authorization": f"Bearer {keys.create_key(ports, wanted, LOCAL)[1]}"}
    body = {"team": "acme", "delay_s": 60, "target": {"pool": "default", "handler": "h"}}
    status_, made = api.call("POST", "/timers", body)
    assert (status_, made["timer_id"].split("~")[1]) == (201, "side")
    shown = api.call("GET", "/cells")[1]["placements"]
    assert [one["of"] for one in shown] == ["team:acme"]
    assert api.call("PUT", "/teams/acme/placement", {"cell": "main"})[0] == 403


SEEN_FROM_A_CELL = {
    "flows/audit/auditing.py",
    "flows/audit/draining.py",
    "flows/dispatch/bounding.py",
    "flows/dispatch/catching_up.py",
    "flows/dispatch/leasing.py",
    "flows/dispatch/live.py",
    "flows/dispatch/pauses_seen.py",
    "flows/dispatch/serving.py",
    "flows/dispatch/sharing.py",
    "flows/dispatch/ticking.py",
    "flows/dispatch/windows.py",
    "flows/jobs/resuming.py",
    "ports.py",
}
"""What serves one cell, and is given ports that are seen from it (`Ports.in_cell`)."""


def test_nothing_else_takes_the_cell_that_it_is_seen_from_for_the_one_of_what_it_reads_or_writes() -> None:
    """Where something lies says its key, or the job; where something new goes, `placing.spread_of`; what belongs to the
    environment lies under `layout.home`."""
    package = Path(tickwork.__file__).parent
    found = {str(one.relative_to(package)) for one in package.rglob("*.py") if "layout.cell\n" in _ended(one)}
    assert found <= SEEN_FROM_A_CELL


def _ended(path: Path) -> str:
    """A source with each word on a line of its own."""
    return re.sub(r"[^\w.]+", "\n", path.read_text(encoding="utf-8"))
