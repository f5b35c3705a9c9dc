"""Pauses at the command line: what waits is shown with its pause, and timers are dropped when that is asked for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.http import ApiUnderTest
from tests.support.runs_world import World
from tickwork.cli import pauses_commands, runs_commands, timers_commands
from tickwork.client import ApiRefused
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.scopes import TEAM, Scope
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.flows.jobs import changing, pausing

OF_SHOP = Scope("shop", TEAM, "shop")


class Client:
    """The client, with the API in memory behind it."""

    def __init__(self, world: World) -> None:
        self._api = ApiUnderTest(world.ports)

    def get(self, path: str, **query: object) -> Any:
        return self._call("GET", path, None, **{name: str(value) for name, value in query.items() if value is not None})

    def get_all(self, path: str, name: str, **query: object) -> list[Any]:
        found, cursor = [], None
        while True:
            page = self.get(path, limit=2, cursor=cursor, **query)
            found += page[name]
            if (cursor := page["cursor"]) is None:
                return found

    def post(self, path: str, body: object) -> Any:
        return self._call("POST", path, body)

    def _call(self, method: str, path: str, body: object, **query: str) -> Any:
        status, told = self._api.call(method, path, body, **query)
        if status >= 400:
            raise ApiRefused(status, told)
        return told


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()
    for module in (pauses_commands, runs_commands, timers_commands):
        monkeypatch.setattr(module, "ApiClient", lambda _: Client(world))
    monkeypatch.setattr(pauses_commands.time, "time_ns", lambda: world.clock.at_ms * 1_000_000)
    return world


def run(command: Any, *words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False)


def paused_with_timers(world: World) -> dict[str, Run]:
    """A timer that was due before the pause, some that came due in it, one that is to come, and another team's."""
    world.job("yearly", every_s=365 * 86_400)  # by which the team is known
    delays = {"before": 1, "waits": 60, "too": 61, "and": 62, "ahead": 600}
    made = {name: world.timer(delay_s, payload=json.dumps(name)) for name, delay_s in delays.items()}
    made["other"] = world.timer(60, team="desk")
    world.after(5)
    world.scan()
    pausing.pause_scope(world.ports, OF_SHOP, Pause("ann", "deploy", 0))
    world.after(60)
    world.scan()
    return {name: world.run(key) for name, key in made.items()}


def statuses(world: World, made: dict[str, Run]) -> dict[str, str]:
    return {name: world.run(one.key).status for name, one in made.items()}


def test_timers_that_wait_are_cancelled_when_that_is_asked_for_and_no_others(world: World) -> None:
    made = paused_with_timers(world)
    found = run(pauses_commands.resume_command, "--team", "shop", "--drop-timers")
    assert "3 timers that waited are cancelled" in found.output
    dropped = {name for name, status in statuses(world, made).items() if status == "cancelled"}
    assert dropped == {"waits", "too", "and"}
    world.after(600)
    world.scan()
    assert world.messages(made["ahead"].key)
    again = run(pauses_commands.resume_command, "--team", "shop", "--drop-timers")
    assert "0 timers" in again.output


def test_without_being_asked_for_nothing_is_dropped(world: World) -> None:
    made = paused_with_timers(world)
    run(pauses_commands.resume_command, "--team", "shop")
    world.after(2)
    world.scan()
    assert "cancelled" not in statuses(world, made).values()
    assert all(len(world.messages(made[name].key)) == 1 for name in ("waits", "too", "and"))


@pytest.mark.parametrize("words", [("--cell", "*"), (), ("--team", "shop", "--dry-run")])
def test_dropping_is_of_one_teams_timers_and_is_never_tried(world: World, words: tuple[str, ...]) -> None:
    made = paused_with_timers(world)
    assert run(pauses_commands.resume_command, *words, "--drop-timers").exit_code == 2
    assert "cancelled" not in statuses(world, made).values()


@pytest.mark.parametrize(
    ("pool", "group", "lies"),
    [(None, None, True), ("fast", None, True), ("slow", None, False), (None, "mail", True), ("fast", "post", False)],
)
def test_of_a_pool_or_a_group_only_what_lies_in_it_is_dropped(pool: str | None, group: str | None, lies: bool) -> None:
    timer = {"target": {"pool": "fast", "handler": "h"}, "group": "mail"}
    assert pauses_commands._lies_in(timer, pool, group) is lies


def test_what_waits_for_a_pause_shows_it_and_what_is_to_come_does_not(world: World) -> None:
    made = paused_with_timers(world)
    (at,) = [run(timers_commands.show, made["waits"].key.job_id, "--json")]
    assert json.loads(at.output)["paused_by"]["reason"] == "deploy"
    words = run(runs_commands.runs_group, "show", made["waits"].key.job_id).output
    assert "with the team shop, by ann: deploy (until it is resumed)" in words
    for name in ("ahead", "other"):
        assert "paused_by" not in json.loads(run(timers_commands.show, made[name].key.job_id, "--json").output)
    run(pauses_commands.resume_command, "--team", "shop")
    assert "paused_by" not in json.loads(run(timers_commands.show, made["waits"].key.job_id, "--json").output)


def test_what_a_jobs_own_pause_keeps_shows_that(world: World) -> None:
    job_id = world.job("nightly", every_s=60)
    changing.pause_job(world.ports, job_id, "bob", "a move", at_resume="latest")
    key = world.next_key(job_id)
    assert "paused_by" not in json.loads(run(runs_commands.runs_group, "show", key.occurrence, "--json").output)
    world.after(90)
    shown = json.loads(run(runs_commands.runs_group, "show", key.occurrence, "--json").output)
    pause = shown["paused_by"]
    assert (shown["status"], pause["kind"], pause["at_resume"]) == ("pending", "job", "latest")
    assert sum(1 for item in world.store.items(TIMERS) if item["status"] == "pending") == 1
