"""Another team's run, by whatever name: not there, in the same words, and without a read that could take its time."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tests.unit.access.test_several_teams import who
from tests.unit.lists.stage import CountingStore
from tickwork.core.ids import run_id_of
from tickwork.core.instants import parse_iso
from tickwork.core.ledger.tables import Table
from tickwork.core.ledger.writes import Item
from tickwork.ports import Layout

AT = "2026-10-30T00:00:10Z"
OURS, THEIRS = "payments", "ops"
TARGET = {"pool": "default", "handler": "h"}


class Reads(CountingStore):
    """Counts single reads too."""

    def get(self, table: Table, key: Item) -> Item | None:
        self.queries += 1
        return super().get(table, key)


class World:
    def __init__(self) -> None:
        self.store = Reads()
        ports = fake_ports(self.store, Layout(pools=("default",)))
        self.platform = ApiUnderTest(ports)
        self.ours = ApiUnderTest(ports, who((OURS, "operator")))
        self.refs: dict[str, str] = {}
        self.timers: dict[str, str] = {}
        for team in (OURS, THEIRS):
            schedule = {"rate": "10 seconds"}
            body = {"team": team, "name": "often", "schedule": schedule, "tolerance_s": 0, "target": TARGET}
            assert self.platform.call("POST", "/jobs", body)[0] == 201
            self.refs[team] = self.platform.call("GET", f"/jobs/{team}:often/runs")[1]["runs"][0]["ref"]
            timer = {"team": team, "delay_s": 60, "target": TARGET}
            self.timers[team] = self.platform.call("POST", "/timers", timer)[1]["timer_id"]

    def names(self, team: str) -> list[tuple[str, dict[str, str]]]:
        run_id = run_id_of(f"{team}:often", parse_iso(AT))
        return [
            (f"{team}:often@{AT}", {}),
            (self.refs[team], {}),
            (self.timers[team], {}),
            (run_id, {"job_id": f"{team}:often"}),
        ]

    def ask(self, name: str, query: dict[str, str]) -> tuple[int, Any, int]:
        before = self.store.queries
        status, answer = self.ours.call("GET", f"/runs/{name}", None, **query)
        return status, answer, self.store.queries - before


@pytest.mark.parametrize("form", range(4))
@pytest.mark.parametrize("beside", ["", f"{OURS}:often", f"{THEIRS}:often"])
def test_of_another_teams_run_nothing_is_read_whatever_stands_beside_its_name(form: int, beside: str) -> None:
    world = World()
    name, query = world.names(THEIRS)[form]
    if "job_id" not in query and beside:
        query = {"job_id": beside}
    status, problem, reads = world.ask(name, query)
    assert (status, reads) == (404, 0)
    gone = problem["detail"].replace(name, "NAME")
    assert gone == "there is no run 'NAME'; check the id, and whose credential you call with"
    ghost = name.replace("often", "never").replace("00:00:10", "00:00:11").replace(world.timers[THEIRS][-4:], "ffff")
    if "often" in query.get("job_id", ""):
        query = {"job_id": query["job_id"].replace("often", "never")}
    status, problem, reads = world.ask(ghost, query)
    assert (status, problem["detail"].replace(ghost, "NAME"), reads) == (404, gone, 0)


@pytest.mark.parametrize("form", range(4))
def test_of_an_own_one_it_is_shown(form: int) -> None:
    world = World()
    name, query = world.names(OURS)[form]
    status, answer, reads = world.ask(name, query)
    assert (status, answer["team"]) == (200, OURS)
    assert reads > 0


def test_in_a_batch_each_of_another_teams_is_answered_as_what_was_never_there_and_read_by_nobody() -> None:
    world = World()
    named: list[dict[str, Any]] = [
        {"ref": world.refs[THEIRS]},
        {"run": f"{THEIRS}:often@{AT}"},
        {"run": world.timers[THEIRS]},
        {"job_id": f"{THEIRS}:often", "scheduled_at": AT},
        {"job_id": f"{THEIRS}:never", "scheduled_at": AT},
        {"run": run_id_of(f"{OURS}:often", parse_iso(AT)), "job_id": f"{THEIRS}:often"},
    ]
    before = world.store.queries
    status, answer = world.ours.call("POST", "/runs:cancel", {"runs": named, "reason": "x"})
    assert (status, world.store.queries - before) == (200, 0)
    told = {(one["accepted"], one["problem"], one["detail"]) for one in answer["runs"][:5]}
    assert told == {(False, "not-found", "there is no such thing")}
    assert (answer["runs"][5]["accepted"], answer["runs"][5]["problem"]) == (False, "not-found")
    assert world.platform.call("GET", f"/runs/{THEIRS}:often@{AT}")[1]["status"] == "pending"
