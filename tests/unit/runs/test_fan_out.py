"""Creating a fan-out through the API: nothing twice, nothing lost, whatever dies or is busy on the way."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.support.http import ApiUnderTest
from tests.support.runs_world import World

from tickwork.cli import fan_out_command as command
from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.fan_out import BATCH, BUSY_TRIES_MAX, FanOut, LineRefused, Place, Stuck, keep_place, read_place

WORK = {"team": "shop", "target": {"pool": "default", "handler": "mail"}}
HOUR_MS = 3_600_000


class Died(BaseException):
    pass


class Api:
    """The API in memory, with what may go wrong before and behind a request."""

    def __init__(self, world: World) -> None:
        self.world, self.under_test = world, ApiUnderTest(world.ports)
        self.requests = 0
        self.lost: set[int] = set()
        """Requests whose answers are lost, and"""
        self.deadly: set[int] = set()
        """those behind which the client dies."""
        self.away: range = range(0)
        """Requests that do not come to it."""
        self.full_after = 1_000_000
        """As many timers of one request as the quota leaves room for."""

    def post(self, path: str, body: Any) -> Any:
        self.requests += 1
        number = self.requests
        if number in self.away:
            raise ApiUnreachable("nobody is there")
        told = self._asked(path, body)
        if number in self.deadly:
            raise Died
        if number in self.lost:
            raise ApiUnreachable("no answer")
        return told

    def _asked(self, path: str, body: Any) -> Any:
        left_out: list[Any] = []
        if path == "/timers:batch":
            body, left_out = {"timers": body["timers"][: self.full_after]}, body["timers"][self.full_after :]
        status, told = self.under_test.call("POST", path, body)
        if status >= 400:
            raise ApiRefused(status, told)
        full = {"created": False, "problem": "quota-exceeded", "field": "team", "detail": "full", "remedy": "wait"}
        return told if not left_out else {"timers": [*told["timers"], *(full for _ in left_out)]}


@pytest.fixture
def world() -> World:
    return World()


def fan_out(world: World, api: Api, place: Place | None = None, **how: Any) -> FanOut:
    place = place or Place("mail", world.clock.at_ms + HOUR_MS, HOUR_MS, WORK, lines=250)
    return FanOut(api, place, parallel=1, sleep=lambda _: None, now_ms=lambda: world.clock.at_ms, **how)


def payloads(count: int = 250) -> list[object]:
    return [{"user": n} for n in range(count)]


def made(world: World) -> list[Run]:
    return [Run.from_item(item) for item in world.store.items(TIMERS)]


def users(world: World) -> Counter[int]:
    return Counter(json.loads(run.work.payload or "")["user"] for run in made(world) if run.work is not None)


def test_each_line_has_one_timer_at_its_time_in_the_window(world: World) -> None:
    begun = fan_out(world, Api(world))
    place = begun.run(payloads())
    assert (place.done, place.created, place.status) == (250, 250, "created")
    assert users(world) == Counter(range(250))
    due = {json.loads(run.work.payload or "")["user"]: run.key.fire_at_ms for run in made(world) if run.work}
    assert due == {n: place.window.due_ms(n) for n in range(250)}


@pytest.mark.parametrize("deadly", [1, 2, 3])
def test_whoever_dies_behind_a_request_goes_on_and_creates_nothing_twice(world: World, deadly: int) -> None:
    api, kept = Api(world), [Place("mail", world.clock.at_ms + HOUR_MS, HOUR_MS, WORK, lines=250)]
    api.deadly = {deadly}
    with pytest.raises(Died):
        fan_out(world, api, kept[0], keep=kept.append).run(payloads())
    assert kept[-1].done == (deadly - 1) * BATCH
    place = fan_out(world, api, kept[-1]).run(payloads())
    assert place.created + place.before == 250
    assert place.before == min(BATCH, 250 - (deadly - 1) * BATCH)
    assert users(world) == Counter(range(250))


def test_without_its_place_it_begins_anew_and_creates_nothing_twice(world: World) -> None:
    first = fan_out(world, Api(world))
    begun = first.place
    first.run(payloads())
    place = fan_out(world, Api(world), begun).run(payloads())
    assert (place.created, place.before) == (0, 250)
    assert users(world) == Counter(range(250))


def test_what_a_quota_leaves_no_room_for_is_sent_again_and_nothing_else_is(world: World) -> None:
    api = Api(world)
    api.full_after = 30
    waits: list[float] = []
    begun = fan_out(world, api)
    begun.sleep = waits.append
    place = begun.run(payloads())
    assert (place.created, place.before) == (250, 0)
    assert users(world) == Counter(range(250))
    assert waits == sorted(waits) or len(waits) > 4
    assert all(0 < wait <= 30 for wait in waits)


def test_an_answer_that_is_lost_is_asked_for_again(world: World) -> None:
    api = Api(world)
    api.lost = {1, 3}
    place = fan_out(world, api).run(payloads())
    assert (place.created, place.before, place.done) == (50, 200, 250)
    assert users(world) == Counter(range(250))


def test_it_gives_up_after_so_many_tries_and_can_go_on_later(world: World) -> None:
    api = Api(world)
    api.away = range(2, 2 + BUSY_TRIES_MAX)
    begun = fan_out(world, api)
    with pytest.raises(Stuck, match="line 101"):
        begun.run(payloads())
    assert begun.place.done == BATCH
    assert fan_out(world, api, begun.place).run(payloads()).done == 250
    assert users(world) == Counter(range(250))


def test_what_is_due_before_it_is_created_is_due_at_once_and_still_one_timer(world: World) -> None:
    place = Place("mail", world.clock.at_ms - HOUR_MS, HOUR_MS + 60 * SECOND_MS, WORK, lines=250)
    done = fan_out(world, Api(world), place).run(payloads())
    assert done.created == 250
    assert done.late == sum(1 for n in range(250) if place.window.due_ms(n) < world.clock.at_ms)
    world.after(120)
    again = fan_out(world, Api(world), place).run(payloads())
    assert (again.created, again.before) == (0, 250)
    assert users(world) == Counter(range(250))


def test_a_line_that_cannot_be_created_stops_it_by_its_number(world: World) -> None:
    lines = payloads()
    lines[120] = "x" * 300_000
    begun = fan_out(world, Api(world))
    with pytest.raises(LineRefused, match="line 121: "):
        begun.run(lines)
    assert begun.place.done == BATCH
    begun.run(payloads())
    assert users(world) == Counter(range(250))


def test_who_may_not_create_timers_is_told_so_at_once(world: World) -> None:
    class Closed(Api):
        def post(self, path: str, body: Any) -> Any:
            self.requests += 1
            raise ApiRefused(403, {"detail": "not yours"})

    api = Closed(world)
    with pytest.raises(ApiRefused):
        fan_out(world, api).run(payloads())
    assert api.requests == 1


def test_cancelling_reaches_what_was_created_and_starts_nothing_new(world: World) -> None:
    api = Api(world)
    api.deadly = {2}
    kept: list[Place] = []
    begun = fan_out(world, api, keep=kept.append)
    with pytest.raises(Died):
        begun.run(payloads())
    place = fan_out(world, api, kept[-1]).cancel(payloads())
    assert place.status == "cancelled"
    assert {run.status for run in made(world)} == {"cancelled"}
    assert place.cancelled == len(made(world)) == 200
    again = fan_out(world, api, place).cancel(payloads())
    assert again.cancelled == 200, "again is the same"


def test_cancelling_late_creates_nothing_for_the_sake_of_being_cancelled(world: World) -> None:
    """Behind its place are lines that may never have been sent; their time has come."""
    place = Place("mail", world.clock.at_ms - HOUR_MS, HOUR_MS, WORK, lines=250, done=0)
    fan_out(world, Api(world), place).cancel(payloads())
    assert not made(world)


def test_cancelling_creates_nothing_that_could_start_before_it_is_cancelled(world: World) -> None:
    """The same of what is due within the minute: whether it was ever sent nobody knows."""
    place = Place("mail", world.clock.at_ms + SECOND_MS, 30 * SECOND_MS, WORK, lines=250)
    fan_out(world, Api(world), place).cancel(payloads())
    assert not made(world)
    fan_out(world, Api(world), replace(place, start_ms=world.clock.at_ms + HOUR_MS)).cancel(payloads())
    assert {run.status for run in made(world)} == {"cancelled"}


def test_no_more_is_read_of_a_generator_than_is_sent(world: World) -> None:
    read = 0

    def lines() -> Any:
        nonlocal read
        for n in range(1_000):
            read += 1
            yield {"user": n}

    api = Api(world)
    api.deadly = {1}
    with pytest.raises(Died):
        fan_out(world, api, Place("gen", world.clock.at_ms + HOUR_MS, HOUR_MS, WORK)).run(lines())
    assert read <= 2 * BATCH


def test_a_place_is_whole_or_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, place = tmp_path / "x.place", Place("mail", 1_000, 2_000, WORK, lines=3)
    assert read_place(path) is None
    keep_place(path, place)
    assert read_place(path) == place

    def die(*_: object) -> None:
        raise Died

    monkeypatch.setattr("tickwork.fan_out.os.fsync", die)
    with pytest.raises(Died):
        keep_place(path, replace(place, done=2))
    assert read_place(path) == place


# --- the command ----------------------------------------------------------------------------------------------


def _run(monkeypatch: pytest.MonkeyPatch, api: Api, *words: str, stdin: str | None = None) -> Any:
    monkeypatch.setattr(command, "ApiClient", lambda _: api)
    return CliRunner().invoke(command.fan_out_command, list(words), input=stdin)


BEGIN = ("--over", "2h", "--team", "shop", "--pool", "default", "--handler", "mail", "--parallel", "1")


def test_the_command_creates_goes_on_says_how_far_it_is_and_cancels(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, file = Api(world), tmp_path / "users.jsonl"
    file.write_text("".join(f'{{"user": {n}}}\n' for n in range(150)))
    start = ("--start", "2099-01-01T00:00:00Z")
    api.deadly = {2}
    with pytest.raises(Died):
        _run(monkeypatch, api, str(file), *BEGIN, *start)
    shown = _run(monkeypatch, api, str(file), "--status", "--json")
    assert json.loads(shown.output)["done"] == 100
    other = _run(monkeypatch, api, str(file), "--over", "3h")
    assert other.exit_code == 2
    assert "another over" in other.output
    done = _run(monkeypatch, api, str(file), "--json", "--parallel", "1")
    assert json.loads(done.output)["status"] == "created"
    assert users(world) == Counter(range(150))
    _run(monkeypatch, api, str(file), "--cancel", "--parallel", "1")
    assert {run.status for run in made(world)} == {"cancelled"}
    assert "is cancelled" in _run(monkeypatch, api, str(file), *BEGIN).output


def test_a_generators_output_needs_a_name_and_text_lines_are_taken_as_they_are(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    api = Api(world)
    assert "needs --id" in _run(monkeypatch, api, "-", *BEGIN, stdin="a\n").output
    bad = _run(monkeypatch, api, "-", *BEGIN, "--id", "gen", stdin="no json\n")
    assert (bad.exit_code, "line 1 is not JSON" in bad.output) == (2, True)
    done = _run(monkeypatch, api, "-", "--id", "gen", "--text", "--parallel", "1", stdin="one\ntwo\n")
    assert done.exit_code == 0, done.output
    assert sorted(json.loads(run.work.payload or "") for run in made(world) if run.work) == ["one", "two"]
    assert {run.group for run in made(world)} == {"gen"}
