"""Pauses of a group: of what of a team bears one label, and of nothing else (F12)."""

from __future__ import annotations

import pytest

from tests.support.worlds import (
    NOW_S,
    create_job,
    create_timer,
    every,
    item_of,
    make_world,
    move,
    sent_refs,
    sent_seconds,
    serve,
    statuses,
)
from tests.unit.dispatch.test_scoped_pauses import forget, pause, resume, start
from tickwork.core.dispatch import set_aside
from tickwork.core.dispatch.set_aside import SetAside
from tickwork.core.errors import TooMany
from tickwork.core.jobs.pauses import ALL, Pause
from tickwork.core.jobs.scopes import GROUP, Scope
from tickwork.core.ledger.tables import SET_ASIDE, TIMERS
from tickwork.core.runs.attempts import Declined
from tickwork.flows.audit import draining, reconciling
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.jobs import pausing
from tickwork.flows.jobs.pausing import GROUPS_MAX
from tickwork.flows.runs.worker_calls import Started
from tickwork.ports import Ports

NIGHT = Scope("pay", GROUP, "night")


def start_all(ports: Ports) -> list[bool]:
    return [isinstance(start(ports, at), Started) for at in range(len(sent_refs(ports)))]


def test_of_a_paused_group_timers_wait_and_all_others_go() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    for group in ("night", "day", ""):
        create_timer(ports, {"night": 5, "day": 6, "": 7}[group], group=group)
    pause(ports, NIGHT)
    move(ports, 8)
    serve(ports)
    assert sorted(sent_seconds(ports)) == [6, 7]
    assert start_all(ports) == [True, True]
    (row,) = tables.items(SET_ASIDE)
    assert row["who"] == "pause#pay#group#night"
    assert resume(ports, NIGHT) == [5]
    move(ports, 1)
    serve(ports)
    assert sorted(sent_seconds(ports)) == [5, 6, 7]
    assert start_all(ports)[2:] == [True]
    assert tables.items(SET_ASIDE) == []


def test_another_teams_group_of_the_same_name_is_another() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    create_timer(ports, 5, group="night")
    pause(ports, Scope("web", GROUP, "night"))
    move(ports, 6)
    serve(ports)
    assert start_all(ports) == [True]


def test_the_row_of_a_paused_group_sends_nobody_elses_again() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    create_timer(ports, 5, group="night")
    create_timer(ports, 5)
    pause(ports, NIGHT)
    move(ports, 6)
    serve(ports)
    assert len(sent_refs(ports)) == 1
    resume(ports, NIGHT)
    move(ports, 1)
    serve(ports)
    assert len(sent_refs(ports)) == len(set(sent_refs(ports))) == 2


def test_a_queued_start_of_a_paused_group_is_put_off_and_comes_back() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    run = create_timer(ports, 5, group="night")
    move(ports, 6)
    serve(ports)
    pause(ports, NIGHT)
    forget(ports)
    declined = start(ports)
    assert isinstance(declined, Declined)
    assert (declined.reason, declined.discard) == ("put_off", True)
    assert item_of(tables, run.key)["status"] == "waiting"
    move(ports, 30)
    serve(ports)
    assert len(sent_refs(ports)) == 1, "its retry waits in the row"
    resume(ports, NIGHT)
    move(ports, 1)
    serve(ports)
    assert isinstance(start(ports, 1), Started)


def test_occurrences_of_a_paused_groups_job_are_skipped_or_wait() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_job(ports, every(10), group="night")
    create_job(ports, every(10), name="other")
    pause(ports, NIGHT)
    move(ports, 10)
    serve(ports)
    by_job = {item["sk"].split("#")[2]: item["status"] for item in tables.items(TIMERS) if item["status"] != "pending"}
    assert by_job == {"nightly": "skipped"}
    assert len(sent_refs(ports)) == 1
    resume(ports, NIGHT)
    pause(ports, NIGHT, at_resume=ALL)
    move(ports, 25)
    serve(ports)
    assert len(resume(ports, NIGHT)) == 2
    move(ports, 1)
    serve(ports)
    sent = [ref for ref in sent_refs(ports) if "nightly" in ref]
    assert len(sent) == 2


def test_the_audit_leaves_a_paused_groups_timers_alone_and_mends_the_others() -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    create_timer(ports, 5, group="night")
    create_timer(ports, 5, group="day")
    pause(ports, NIGHT)
    move(ports, 6)
    serve(ports)
    (sent,) = sent_refs(ports)
    move(ports, 1_000)
    serve(ports)
    reconciling.reconcile(ports)
    assert sent_refs(ports) == [sent, sent], "the one that was sent and not started"
    assert set(statuses(tables).values()) == {"pending"}


def test_a_row_of_a_group_covers_what_says_so_or_says_nothing() -> None:
    ports, _ = make_world()
    mine, other = create_timer(ports, 5, group="night").key, create_timer(ports, 5, group="day").key
    row = SetAside("main#0000", set_aside.pause(NIGHT), NOW_S, NOW_S + 60, "", 0)
    assert row.covers(mine, "default", "night")
    assert row.covers(mine), "of a retry it is not known"
    assert not row.covers(other, "default", "day")
    assert not row.covers(other, "default", "")


def test_draining_a_group_is_about_its_runs_alone() -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    for group in ("night", "day"):
        create_timer(ports, 5, group=group)
    move(ports, 6)
    serve(ports)
    assert start_all(ports) == [True, True]
    (run,) = draining.in_flight(ports, NIGHT).runs
    assert run.group == "night"


def test_a_team_pauses_so_many_groups_and_no_more() -> None:
    ports, _ = make_world()
    create_timer(ports, 5)
    for number in range(GROUPS_MAX):
        pause(ports, Scope("pay", GROUP, f"g{number}"))
    with pytest.raises(TooMany):
        pause(ports, Scope("pay", GROUP, "one-more"))
    again = pausing.pause_scope(ports, Scope("pay", GROUP, "g0"), Pause("ana", "another reason", 0))
    assert len(again.pauses) > 0
    pause(ports, Scope("web", GROUP, "theirs"))
