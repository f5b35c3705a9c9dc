"""Reports of lists: a page goes on where the last one ended, whatever changes meanwhile, and costs what it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.worlds import move
from tests.unit.lists.stage import PAGES_MAX, CountingStore, Stage, refs
from tests.unit.reported.reports import holds
from tickwork.core.instants import iso
from tickwork.ports import Layout

TEAM = "pay"
DAY_S = 86_400

type Page = list[dict[str, Any]]
type Between = Callable[[Page], None]


# --- R2-O-12 ----------------------------------------------------------------------------------------------------------


@holds("R2-O-12")
@pytest.mark.parametrize(("count", "limit"), [(20, 5), (23, 1), (40, 7)])
def test_cancelling_each_page_of_queued_runs_leaves_none(count: int, limit: int) -> None:
    stage = Stage()
    stage.timers(count, delay_s=1)
    stage.after(2)
    pages = stage.pages("/runs", lambda page: stage.cancel(*page), team=TEAM, status="queued", limit=str(limit))
    stage.cancel(*pages[-1])
    assert len({ref for page in pages for ref in refs(page)}) == count
    assert stage.listed("/runs", team=TEAM, status="queued") == []


def _of_a_job(stage: Stage) -> tuple[str, Between, int]:
    """The runs of a job of every second, while it goes on."""
    job_id = stage.job(seconds=1)
    for _ in range(10):
        stage.after(1)
    return f"/jobs/{job_id}/runs", lambda _: stage.after(1), 10


def _that_come_due(stage: Stage) -> tuple[str, Between, int]:
    stage.timers(25, delay_s=1, apart_s=1)
    for _ in range(12):
        stage.after(1)
    return "/runs", lambda _: stage.after(1), 12


def _that_die(stage: Stage) -> tuple[str, Between, int]:
    made = stage.timers(25, delay_s=0)
    stage.after(1)
    for one in made[:15]:
        stage.kill(one)
        stage.after(0.01)
    left = iter(made[15:])

    def one_more(_: Page) -> None:
        if (one := next(left, None)) is not None:
            stage.kill(one)

    return "/dead-letters", one_more, 15


def _that_are_withdrawn(stage: Stage) -> tuple[str, Between, int]:
    made = stage.timers(20, delay_s=100, apart_s=60)

    def one_less(page: Page) -> None:
        for one in page[-1:]:
            stage.ok("DELETE", f"/timers/{one['timer_id']}")

    assert made
    return "/timers", one_less, 20


MOVING = [_of_a_job, _that_come_due, _that_die, _that_are_withdrawn]


@holds("R2-O-12")
@pytest.mark.parametrize("scene", MOVING)
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_each_is_shown_once_while_others_come_and_go(scene: Callable[[Stage], Any], limit: int) -> None:
    stage = Stage()
    path, between, least = scene(stage)
    query = {} if path.startswith("/jobs") else {"team": TEAM}
    before = set(refs(stage.listed(path, **query)))
    shown = [ref for page in stage.pages(path, between, limit=str(limit), **query) for ref in refs(page)]
    assert len(shown) == len(set(shown)), "none twice"
    assert len(before) >= least
    assert before <= set(shown), "none of those that were there is missing"


@holds("R2-O-12")
@pytest.mark.parametrize("what", ["jobs", "calendars"])
def test_so_is_each_name_while_others_are_made_and_deleted(what: str) -> None:
    stage = Stage()

    def make(name: str) -> None:
        if what == "jobs":
            stage.job(name, 3_600)
        else:
            stage.ok("PUT", f"/calendars/{TEAM}:{name}", {"dates": ["2027-01-01"]})

    names = {f"{TEAM}:m{number:02d}" for number in range(12)}
    for name in names:
        make(name.partition(":")[2])
    shown: list[str] = []
    cursor: dict[str, str] = {}
    for number in range(PAGES_MAX):
        page = stage.ok("GET", f"/{what}", None, team=TEAM, limit="2", **cursor)
        shown += [one[f"{what[:-1]}_id"] for one in page[what]]
        if page["cursor"] is None:
            break
        cursor = {"cursor": page["cursor"]}
        make(f"a{number:02d}")  # before all that is there
        if number < 8:
            make(f"z{number:02d}")  # behind it
        if what == "jobs":
            stage.ok("DELETE", f"/jobs/{shown[-1]}")
    assert len(shown) == len(set(shown))
    assert names <= set(shown)
    assert {f"{TEAM}:z{number:02d}" for number in range(8)} <= set(shown)


# --- R2-O-13 ----------------------------------------------------------------------------------------------------------

READS_MAX = 64
"""Queries of a page of an index: its partitions, and little more. A day of minutes would be thousands."""


def _dead(stage: Stage) -> None:
    for one in stage.timers(5, delay_s=0):
        stage.after(1)
        stage.kill(one)


def _cancelled(stage: Stage) -> None:
    made = stage.timers(5, delay_s=0)
    stage.after(1)
    stage.cancel(*made)


def _skipped(stage: Stage) -> None:
    job_id = stage.job(seconds=60)
    stage.ok("POST", f"/jobs/{job_id}/pause", {"reason": "x"})
    for _ in range(5):
        stage.after(60)
    stage.ok("DELETE", f"/jobs/{job_id}")


ENDS = {"dead": _dead, "cancelled": _cancelled, "skipped": _skipped}


@holds("R2-O-13")
@pytest.mark.parametrize("status", ENDS)
@pytest.mark.parametrize("days", [1, 30])
@pytest.mark.parametrize("shards", [4, 64])
def test_what_ended_badly_is_one_call_however_far_it_looks_back(status: str, days: int, shards: int) -> None:
    stage = Stage(Layout(shards=shards, slices=1), CountingStore())
    ENDS[status](stage)
    move(stage.ports, (days - 1) * DAY_S + 600)
    stage.store.queries = 0
    since = iso(stage.now_ms - days * DAY_S * 1_000)
    page = stage.ok("GET", "/runs", None, team=TEAM, status=status, since=since, limit="200")
    assert len(page["runs"]) == 5
    if status != "cancelled":  # behind those come the withdrawn ones, which no index has
        assert (page["cursor"], page["bounded"]) == (None, False)
        assert stage.store.queries <= READS_MAX


@holds("R2-O-13")
@pytest.mark.parametrize("status", ["queued", "running", "succeeded"])
def test_what_no_index_has_is_read_in_pages_that_say_how_far_they_came(status: str) -> None:
    stage = Stage()
    stage.timers(3, delay_s=0)
    stage.after(1)
    move(stage.ports, 3 * DAY_S)
    stage.store.queries = 0
    page = stage.ok("GET", "/runs", None, team=TEAM, status=status, since=iso(stage.now_ms - 4 * DAY_S * 1_000))
    assert stage.store.queries <= 260
    assert page["bounded"]
    assert page["reached"]
    assert page["cursor"]
