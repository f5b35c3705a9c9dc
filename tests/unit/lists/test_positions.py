"""A cursor is a position: paging shows each thing once, whatever changes meanwhile (A11)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.unit.lists.stage import Stage, flat, refs
from tickwork.ports import Layout


def test_cancelling_each_page_of_queued_runs_leaves_none() -> None:
    stage = Stage()
    made = stage.timers(20)
    stage.after(1)
    shown = stage.pages("/runs", lambda page: stage.cancel(*page), status="queued", limit="5")
    assert sorted(refs(flat(shown))) == sorted(refs(made))


def test_paging_while_runs_come_due_shows_each_once() -> None:
    stage = Stage()
    made = stage.timers(25, delay_s=1, apart_s=1)
    stage.after(10)
    shown = stage.pages("/runs", lambda _: stage.after(1), limit="2")
    found = refs(flat(shown))
    assert len(found) == len(set(found))
    assert set(found) <= set(refs(made))
    assert len(found) >= 10, "what was due when the list began is all there"


def test_paging_while_each_run_is_started_and_dies_shows_each_once() -> None:
    stage = Stage()
    made = stage.timers(12)
    stage.after(1)

    def die(page: list[dict[str, Any]]) -> None:
        for run in page:
            stage.kill(run)

    shown = stage.pages("/runs", die, status="queued", limit="3")
    assert sorted(refs(flat(shown))) == sorted(refs(made))


def test_paging_dead_runs_while_each_page_is_replayed_shows_each_once() -> None:
    stage = Stage()
    made = stage.timers(23)
    stage.after(1)
    for run in made:
        stage.kill(run)

    def replay(page: list[dict[str, Any]]) -> None:
        body = {"team": "pay", "runs": refs(page), "by": "ann", "reason": "again"}
        stage.ok("POST", "/dead-letters:replay", body)

    shown = stage.pages("/runs", replay, status="dead", limit="4")
    assert sorted(refs(flat(shown))) == sorted(refs(made))


def test_paging_a_team_s_dead_while_more_die_shows_those_that_were_dead_once() -> None:
    stage = Stage()
    made = stage.timers(40)
    stage.after(1)
    for run in made[:20]:
        stage.kill(run)
    later = iter(made[20:])

    def another(_: object) -> None:
        stage.after(0.001)  # the clock has milliseconds
        stage.kill(next(later))

    found = refs(flat(stage.pages("/runs", another, status="dead", team="pay", limit="3")))
    assert len(found) == len(set(found))
    assert set(found) >= set(refs(made[:20]))


@pytest.mark.parametrize("path", ["/runs", "/dead-letters"])
def test_many_that_died_at_one_instant_are_each_shown_once(path: str) -> None:
    stage = Stage()
    made = stage.timers(61)
    stage.after(1)
    for run in made:
        stage.kill(run)
    how = {"status": "dead"} if path == "/runs" else {}
    assert sorted(refs(stage.listed(path, team="pay", limit="7", **how))) == sorted(refs(made))


def test_the_soonest_timers_come_first_and_each_once_while_others_are_withdrawn() -> None:
    stage = Stage()
    made = stage.timers(30, delay_s=60, apart_s=20)

    def withdraw(page: list[dict[str, Any]]) -> None:
        for one in page:
            stage.ok("DELETE", f"/timers/{one['timer_id']}")

    shown = flat(stage.pages("/timers", withdraw, team="pay", status="pending", limit="4"))
    assert refs(shown) == refs(made), "by fire time, for they are apart"


@pytest.mark.parametrize("seed", range(6))
def test_a_list_in_any_state_is_in_order_and_complete_with_any_page(seed: int) -> None:
    """Of many minutes, shards, teams and statuses, with pages of a size drawn at random."""
    rng = random.Random(seed)
    stage = Stage(Layout(shards=rng.choice((1, 4, 7)), slices=1))
    made = [
        *stage.timers(60, apart_s=rng.choice((0, 3, 11))),
        *stage.timers(40, apart_s=rng.choice((0, 5)), team="shop"),
    ]
    stage.after(900)
    stage.cancel(*rng.sample(made, 15))
    for run in rng.sample(made, 15):
        if stage.ok("GET", f"/timers/{run['timer_id']}")["status"] == "queued":
            stage.kill(run)
    standing = {run["ref"]: stage.ok("GET", f"/timers/{run['timer_id']}") for run in made}
    for team in ("", "pay", "shop"):
        for status in ("", "queued", "dead", "cancelled"):
            how = {"team": team} if team else {}
            how |= {"status": status} if status else {}
            shown = stage.listed("/runs", limit=str(rng.randint(1, 30)), **how)
            wanted = {
                ref for ref, run in standing.items() if team in ("", run["team"]) and status in ("", run["status"])
            }
            assert sorted(refs(shown)) == sorted(wanted), (team, status)
            by = "ended_at" if status in ("dead", "cancelled") else "fire_at"
            assert [run[by] for run in shown] == sorted((run[by] for run in shown), reverse=True)


def test_a_cursor_of_another_list_is_refused() -> None:
    stage = Stage()
    made = stage.timers(9)
    stage.after(1)
    for run in made[:6]:
        stage.kill(run)
    dead = stage.ok("GET", "/runs", status="dead", team="pay", limit="1")["cursor"]
    queued = stage.ok("GET", "/runs", status="queued", team="pay", limit="1")["cursor"]
    assert dead
    assert queued
    for cursor, how in (
        (dead, {"status": "queued"}),
        (dead, {"status": "skipped", "team": "pay"}),
        (dead, {"status": "dead", "team": "shop"}),
        (queued, {"status": "dead"}),
    ):
        assert stage.api.call("GET", "/runs", cursor=cursor, **how)[0] == 422, how
    assert stage.api.call("GET", "/timers", team="pay", cursor=dead)[0] == 422
    assert stage.api.call("GET", "/dead-letters", team="shop", cursor=dead)[0] == 422
