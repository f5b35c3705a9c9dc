"""Lists whose pages may read next to nothing: wherever a page stops, each thing is shown once, in order, none is lost.

The real bounds are met by thousands of rows only; a page stops after a few here, so that most places where one can stop
are among these."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.lists.stage import PAGES_MAX, TEAM, Stage, flat, refs
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Anyway, Delete
from tickwork.flows.audit import history
from tickwork.flows.ledger.merging import Bound, Step, merged, page_of
from tickwork.ports import Layout

BOUNDS = [(3, 20), (6, 60)]
"""Queries and rows of a page."""


def _stream(*places: int, stops_at: int | None = None) -> Iterator[Step[int]]:
    for place in places:
        yield Step((place,), place, {"place": place})
    if stops_at is not None:
        yield Step((stops_at,), stops_at, None)


def _page(*streams: Iterator[Step[int]], limit: int) -> Any:
    return page_of(
        merged(streams, descending=False), lambda items: [item["place"] for item in items], limit=limit, bound=Bound()
    )


@pytest.mark.parametrize("limit", [2, 3, 4, 9])
def test_a_list_goes_no_further_than_the_first_of_its_partitions_that_was_not_read_on(limit: int) -> None:
    """What lies behind that place in the others comes with the next page: the one that stopped may have more."""
    page = _page(_stream(1, 3, stops_at=4), _stream(2, 5, 6), limit=limit)
    assert page.found == [1, 2, 3][:limit]
    assert page.after == (page.found[-1] if limit <= 3 else 4)
    assert page.bounded == (limit > 3)


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_a_list_that_was_read_to_its_end_says_so(limit: int) -> None:
    page = _page(_stream(1, 3), _stream(2), limit=limit)
    assert (page.found, page.after, page.bounded) == ([1, 2, 3][:limit], limit if limit < 3 else None, False)


def _crowded(seed: int) -> tuple[Stage, Layout]:
    """A team's timers among many of others, in each second of a minute and a half; some have died or were cancelled."""
    choose = random.Random(seed)
    stage = Stage(Layout(shards=2, slices=1))
    for second in range(0, 90, 5):
        stage.timers(choose.choice((0, 3, 15)), delay_s=second, team="ops")
        stage.timers(choose.choice((0, 1, 3)), delay_s=second)
    stage.after(91)
    for run in stage.listed("/runs", team=TEAM, limit="200"):
        fate = choose.choice(("queued", "queued", "dead", "cancelled"))
        if fate == "dead":
            stage.kill(run)
        elif fate == "cancelled":
            stage.cancel(run)
    return stage, stage.layout


@pytest.mark.parametrize("seed", range(3))
def test_each_is_shown_once_and_in_order_wherever_its_pages_stop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, _ = _crowded(seed)
    since = "2026-10-30T00:00:00Z"
    asked: list[tuple[str, dict[str, str]]] = [
        ("/runs", {"since": since}),
        ("/runs", {"since": since, "status": "queued"}),
        ("/runs", {"since": since, "status": "dead"}),
        ("/runs", {"since": since, "status": "dead", "order": "due"}),
        ("/runs", {"since": since, "status": "cancelled"}),
        ("/timers", {"since": since, "until": "2026-10-30T00:03:00Z"}),
        ("/dead-letters", {"since": since}),
    ]
    whole = [stage.listed(path, team=TEAM, limit="200", **query) for path, query in asked]
    assert all(whole)
    for bound in BOUNDS:
        monkeypatch.setattr(Bound.__init__, "__defaults__", bound)
        for (path, query), all_of_them in zip(asked, whole, strict=True):
            for limit in ("1", "4", "200"):
                shown = flat(stage.pages(path, team=TEAM, limit=limit, **query))
                assert refs(shown) == refs(all_of_them), (bound, path, query, limit)
    for (path, query), found in zip(asked, whole, strict=True):
        if query.get("status") in (None, "queued") or "order" in query:
            times = [one["fire_at"] for one in found]
            assert times == sorted(times, reverse=path == "/runs") or path == "/dead-letters"


def test_what_was_withdrawn_is_listed_though_the_index_alone_has_cost_a_page() -> None:
    """Over eight teams: 32 partitions of cancelled runs each are more queries than a page may make."""
    stage = Stage()
    for number in range(8):
        (one,) = stage.timers(1, delay_s=1, team=f"team-{number}")
        (withdrawn,) = stage.timers(1, delay_s=2, team=f"team-{number}")
        stage.ok("DELETE", f"/timers/{withdrawn['timer_id']}")
        stage.after(1.5)
        stage.cancel(one)
    stage.after(1)
    pages = stage.pages("/runs", status="cancelled", since="2026-10-30T00:00:00Z")
    assert len({run["ref"] for run in flat(pages)}) == len(flat(pages)) == 16


@pytest.mark.parametrize("path", ["/runs", "/timers"])
@pytest.mark.parametrize("limit", ["1", "4", "200"])
def test_each_page_says_how_far_it_has_come(path: str, limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All on this side of `reached` has been shown, and nothing beyond it."""
    stage, _ = _crowded(7)
    query = {"team": TEAM, "since": "2026-10-30T00:00:00Z", "until": "2026-10-30T00:03:00Z"}
    left = {one["ref"]: one["fire_at"] for one in stage.listed(path, limit="200", **query)}
    monkeypatch.setattr(Bound.__init__, "__defaults__", BOUNDS[0])
    cursor: dict[str, str] = {}
    backwards = path == "/runs"
    for _ in range(PAGES_MAX):
        page = stage.ok("GET", path, None, limit=limit, **query, **cursor)
        shown = [left.pop(one["ref"]) for one in page[path[1:]]]
        if page["cursor"] is None:
            break
        cursor, reached = {"cursor": page["cursor"]}, page["reached"][:19] + "Z"
        assert all(at >= reached if backwards else at <= reached for at in shown), (shown, reached)
        assert all(at <= reached if backwards else at >= reached for at in left.values()), (left, reached)
    assert left == {}


def test_the_last_page_of_a_job_that_is_forgotten_is_empty_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    job_id = stage.job(seconds=1)
    for _ in range(9):
        stage.after(1)
    stage.store.commit([Delete(JOBS, {"job_id": job_id}, Anyway("a tombstone that has expired"))])
    monkeypatch.setattr(history, "JOB_ROWS", 3)
    monkeypatch.setattr(Bound.__init__, "__defaults__", (1, 1))
    assert flat(stage.pages(f"/jobs/{job_id}/runs", status="succeeded", limit="1")) == []
    assert stage.api.call("GET", "/jobs/pay:nobody/runs", None, status="succeeded")[0] == 404


@pytest.mark.parametrize("limit", ["1", "3", "50"])
def test_a_jobs_runs_are_whole_wherever_their_pages_stop(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    job_id = stage.job(seconds=1)
    for _ in range(12):
        stage.after(1)
    dead = [one for one in stage.listed(f"/jobs/{job_id}/runs") if one["status"] == "queued"][::3]
    for one in dead:
        stage.kill(one)
    monkeypatch.setattr(history, "JOB_ROWS", 2)
    for bound in ((1, 1), (2, 5)):
        monkeypatch.setattr(Bound.__init__, "__defaults__", bound)
        found = flat(stage.pages(f"/jobs/{job_id}/runs", status="dead", limit=limit))
        assert refs(found) == refs(dead)
        assert len(flat(stage.pages(f"/jobs/{job_id}/runs", limit=limit))) == 13


def _asked(stage: Stage, path: str, **query: str) -> list[str]:
    return [one["fire_at"][17:19] for one in stage.listed(path, team=TEAM, **query)]


def _at(second: int) -> str:
    return f"2026-10-30T00:00:{second:02d}Z"


def test_both_ends_of_the_time_that_is_asked_for_belong_to_it() -> None:
    stage = Stage()
    stage.timers(4, delay_s=10, apart_s=10)
    for since, until, found in [(10, 40, 4), (11, 40, 3), (10, 39, 3), (11, 39, 2), (20, 20, 1), (21, 29, 0)]:
        between = {"since": _at(since), "until": _at(until)}
        assert len(_asked(stage, "/timers", **between)) == found
        assert all(since <= int(second) <= until for second in _asked(stage, "/timers", **between))
    stage.after(45)
    for since, until, found in [(10, 40, 4), (11, 40, 3), (10, 39, 3), (20, 20, 1), (21, 29, 0)]:
        assert len(_asked(stage, "/runs", since=_at(since), until=_at(until))) == found


@pytest.mark.parametrize(("path", "includes_until"), [("/runs", True), ("/dead-letters", False)])
def test_so_they_do_of_ends(path: str, includes_until: bool) -> None:
    """A dead letter died before its `until`, as its documentation says."""
    stage = Stage()
    for one in stage.timers(3):
        stage.after(10)
        stage.kill(one)
    query = {"status": "dead"} if path == "/runs" else {}
    for since, until, found in [(10, 30, 3), (11, 30, 2), (10, 29, 2), (20, 20, 1)]:
        shown = stage.listed(path, team=TEAM, since=_at(since), until=_at(until), **query)
        assert len(shown) == found - (until in (20, 30) and not includes_until)
