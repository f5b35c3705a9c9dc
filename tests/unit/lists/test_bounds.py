"""Every list is bounded in cost, and says so when it stops for that; what did not end well is found at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.support.worlds import move
from tests.unit.lists.stage import TEAM, CountingStore, Stage, flat, refs
from tickwork.core.instants import DAY_MS, HOUR_MS, iso
from tickwork.core.ledger.keys import DEAD_SPREAD
from tickwork.core.ledger.tables import BAD_ENDS, TIMERS, Table
from tickwork.core.ledger.writes import Anyway, Update
from tickwork.flows.access.walled import WalledStore
from tickwork.flows.audit.history import PARTITIONS_AT_ONCE
from tickwork.flows.ledger.merging import READS_MAX, ROWS_MAX, STREAM_ROWS
from tickwork.ports import Layout, Page


@pytest.mark.parametrize("team", ["", "pay"])
@pytest.mark.parametrize("days", [1, 30])
def test_what_died_within_a_month_is_one_call(team: str, days: int) -> None:
    stage = Stage()
    made = stage.timers(5)
    stage.after(1)
    for run in made:
        stage.kill(run)
    stage.after(20 * 3600)
    stage.store.queries = 0
    since = iso(stage.now_ms - days * DAY_MS)
    how = {"team": team} if team else {}
    (page,) = stage.pages("/runs", status="dead", since=since, limit="200", **how)
    assert sorted(refs(page)) == sorted(refs(made))
    assert stage.store.queries < 10


@pytest.mark.parametrize("status", ["skipped", "cancelled"])
def test_what_was_skipped_or_cancelled_when_it_was_due_is_in_the_first_page(status: str) -> None:
    stage = Stage()
    if status == "skipped":
        stage.job()
        stage.ok("POST", "/jobs/pay:nightly/pause", {"by": "ann", "reason": "closed"})
        stage.after(180)
    else:
        made = stage.timers(3)
        stage.after(1)
        stage.cancel(*made)
    stage.after(20 * 3600)
    page = stage.ok("GET", "/runs", status=status, team="pay", limit="200")
    assert len(page["runs"]) >= 3
    assert {run["status"] for run in page["runs"]} == {status}


def test_what_was_withdrawn_before_it_was_due_costs_no_index_and_is_found_all_the_same() -> None:
    stage = Stage()
    made = stage.timers(7, delay_s=600)
    stage.cancel(*made)
    assert not any("dead_letter" in item for item in stage.store.items(TIMERS))
    stage.after(7200)
    assert sorted(refs(stage.listed("/runs", status="cancelled", team="pay", limit="3"))) == sorted(refs(made))


def test_a_long_quiet_past_is_read_in_bounded_pages_that_say_how_far_they_came() -> None:
    stage = Stage()
    (only,) = stage.timers(1)
    stage.after(6 * 3600)
    reached, cursor, found = [], {}, []
    for _ in range(20):
        stage.store.queries = 0
        page = stage.ok("GET", "/runs", status="queued", **cursor)
        assert stage.store.queries <= READS_MAX + stage.layout.shards
        found += refs(page["runs"])
        if page["cursor"] is None:
            break
        assert page["bounded"], "no page is full"
        reached.append(page["reached"])
        cursor = {"cursor": page["cursor"]}
    assert found == [only["ref"]]
    assert reached == sorted(reached, reverse=True)
    assert len(set(reached)) == len(reached) > 3


@pytest.mark.parametrize("is_walled", [False, True])
def test_thousands_of_another_team_in_a_minute_slow_no_list_of_ours(is_walled: bool) -> None:
    """Nor behind the wall, where theirs are read as well, and not seen."""
    stage = Stage()
    ours = stage.timers(3, apart_s=20)
    stage.timers(1_200, apart_s=0.05, team="shop")
    stage.after(120)
    stage.store.queries = stage.store.rows = 0
    since = iso(stage.now_ms - 180_000)
    if is_walled:
        stage.api = ApiUnderTest(replace(stage.ports, store=WalledStore(stage.store, "pay")))
    pages = stage.pages("/runs", team="pay", since=since)
    assert sorted(refs(flat(pages))) == sorted(refs(ours))
    assert len(pages) <= 2
    assert stage.store.rows < 500, "theirs are hardly read"


def test_a_full_minute_is_read_as_far_as_a_page_needs() -> None:
    stage = Stage()
    stage.timers(1_000)
    stage.after(1)
    stage.store.rows = 0
    assert len(stage.ok("GET", "/runs", limit="20")["runs"]) == 20
    assert stage.store.rows < 200


def test_what_nobody_matches_in_a_full_minute_stops_at_its_bound_and_goes_on() -> None:
    stage = Stage()
    made = stage.timers(ROWS_MAX + 700)
    stage.after(1)
    stage.store.rows = 0
    page = stage.ok("GET", "/runs", status="succeeded")
    assert page["bounded"]
    assert page["cursor"]
    assert stage.store.rows <= ROWS_MAX + 4 * 100
    assert sorted(refs(stage.listed("/runs", status="queued", limit="200"))) == sorted(refs(made))


def test_a_large_layout_gets_on_with_each_page() -> None:
    stage = Stage(Layout(shards=300, slices=2))
    made = stage.timers(40, apart_s=10)
    stage.after(600)
    shown = stage.listed("/runs", status="queued", since=iso(stage.now_ms - HOUR_MS))
    assert sorted(refs(shown)) == sorted(refs(made))


def test_a_job_s_runs_of_a_status_are_bounded_too() -> None:
    stage = Stage()
    stage.job(seconds=1)
    for _ in range(5):
        stage.after(50)
    cancelled = stage.ok("GET", "/jobs/pay:nightly/runs", limit="200")["runs"][-3:]
    stage.cancel(*cancelled)
    shown = stage.listed("/jobs/pay:nightly/runs", status="cancelled", limit="2")
    assert sorted(refs(shown)) == sorted(refs(cancelled))
    assert stage.listed("/jobs/pay:nightly/runs", status="dead") == []


def test_a_team_that_only_another_process_knows_is_in_the_list_over_all_teams() -> None:
    stage = Stage()
    for team in ("pay", "shop", "zoo"):
        other = stage.other_process()
        made = other.timers(2, team=team)
        other.after(1)
        other.kill(made[0])
    shown = stage.listed("/runs", status="dead", limit="1")
    assert sorted(run["team"] for run in shown) == ["pay", "shop", "zoo"]


def test_more_teams_than_are_merged_at_once_are_listed_one_group_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tickwork.flows.audit.history.PARTITIONS_AT_ONCE", 2 * DEAD_SPREAD)
    stage = Stage()
    made = [run for team in ("a", "b", "c", "d", "e") for run in stage.timers(3, team=team)]
    stage.after(1)
    for run in made:
        stage.kill(run)
    assert sorted(refs(stage.listed("/runs", status="dead", limit="2"))) == sorted(refs(made))


def test_a_list_by_due_time_finds_what_no_index_has() -> None:
    """As an older version left it: ended, without the mark."""
    stage = Stage()
    stage.job()
    stage.ok("POST", "/jobs/pay:nightly/pause", {"by": "ann", "reason": "closed"})
    stage.after(200)
    marked = stage.listed("/runs", status="skipped", team="pay")
    for item in stage.store.items(TIMERS):
        forget = Update(TIMERS, {"pk": item["pk"], "sk": item["sk"]}, Anyway("a test"), remove=("dead_letter",))
        stage.store.commit([forget])
    assert stage.listed("/runs", status="skipped", team="pay") == []
    due = stage.listed("/runs", status="skipped", team="pay", order="due")
    assert sorted(refs(due)) == sorted(refs(marked)) != []


def test_the_order_of_ends_is_for_what_did_not_end_well() -> None:
    stage = Stage()
    assert stage.api.call("GET", "/runs", order="ended", status="succeeded")[0] == 422
    assert stage.api.call("GET", "/runs", order="ended")[0] == 422
    assert stage.api.call("GET", "/runs", order="newest")[0] == 422
    assert stage.ok("GET", "/runs", order="ended", status="expired")["runs"] == []


@pytest.mark.parametrize(("passed_s", "is_marked"), [(4.999, False), (5, True), (5.001, True)])
def test_a_run_is_withdrawn_until_it_is_due_and_not_for_a_moment_longer(passed_s: float, is_marked: bool) -> None:
    """What is cancelled from its fire time on did not run though it was due: that is what one looks for at night."""
    stage = Stage()
    (run,) = stage.timers(1, delay_s=5)
    move(stage.ports, passed_s)
    stage.cancel(run)
    (item,) = stage.store.items(TIMERS)
    assert (item["status"], BAD_ENDS.partition_key in item) == ("cancelled", is_marked)


class Asked(CountingStore):
    """Remembers how much was asked for at once."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []

    def query(self, table: Table, partition: str, first: str, last: str, **how: Any) -> Page:
        self.limits.append(how["limit"])
        return super().query(table, partition, first, last, **how)


def test_however_full_a_minute_is_no_more_is_asked_for_at_once_than_a_stream_has() -> None:
    stage = Stage(store=Asked())
    stage.timers(1_500, delay_s=1)
    stage.after(2)
    assert isinstance(stage.store, Asked)
    stage.store.limits.clear()
    assert len(stage.listed("/runs", team=TEAM, status="running", since="2026-10-30T00:00:00Z")) == 0
    assert max(stage.store.limits) <= STREAM_ROWS[1]


def test_no_page_of_a_list_over_all_teams_merges_more_partitions_than_it_may() -> None:
    stage = Stage()
    made = [stage.timers(1, team=f"team-{number:02d}")[0] for number in range(20)]
    stage.after(1)
    stage.cancel(*made)
    cursor: dict[str, str] = {}
    shown: list[dict[str, Any]] = []
    for _ in range(50):
        stage.store.queries = 0
        page = stage.ok("GET", "/runs", None, status="cancelled", since="2026-10-30T00:00:00Z", **cursor)
        assert stage.store.queries <= PARTITIONS_AT_ONCE + 2 * len(page["runs"]) + READS_MAX // 4
        shown += page["runs"]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
    assert len(refs(shown)) == len(set(refs(shown))) == 20
