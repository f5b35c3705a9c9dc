"""Reports of contents: a payload arrives as it was sent, lives as long as somebody may need it and no longer, and a job
whose payload is gone is not called without it."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from tests.actions.world import Answer, Held, World
from tests.scenarios.stage import NOW_MS
from tests.unit.reported.reports import holds
from tests.unit.reported.test_changed_and_made_anew import ECHO, JOB, create, patch, recreate
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.ledger.tables import PAYLOADS
from tickwork.core.ledger.writes import Anyway, Delete

# --- R2-O-24 ----------------------------------------------------------------------------------------------------------

LARGE = "x" * 2_000


def _kept(world: World) -> list[int]:
    """When each payload that is kept apart expires; 0: never."""
    return [int(item.get("expires_at_s", 0)) for item in world.store.items(PAYLOADS)]


def _five_times(world: World) -> None:
    create(world, {"rate": "1 hour"}, payload=LARGE)
    for number in range(5):
        patch(world, payload=f"{number}{LARGE}")


def _to_a_small_one(world: World) -> None:
    create(world, {"rate": "1 hour"}, payload=LARGE)
    patch(world, payload=1)


def _anew_with_another(world: World) -> None:
    create(world, {"rate": "1 hour"}, payload=LARGE)
    recreate(world, {"rate": "1 hour"}, payload=f"2{LARGE}")


def _back_to_the_first(world: World) -> None:
    create(world, {"rate": "1 hour"}, payload=LARGE)
    patch(world, payload=f"2{LARGE}")
    patch(world, payload=LARGE)


def _finished(world: World) -> None:
    create(world, {"at": iso(NOW_MS + 2_000)}, payload=LARGE)
    world.work_to(NOW_MS + 10_000)


LEFT = {
    "changed five times": (_five_times, 6),
    "changed to a small one": (_to_a_small_one, 1),
    "made anew": (_anew_with_another, 2),
    "changed back": (_back_to_the_first, 3),
    "a job that has finished": (_finished, 1),
}


@holds("R2-O-24")
@pytest.mark.parametrize("name", LEFT)
def test_no_content_outlives_who_may_need_it(name: str) -> None:
    act, most = LEFT[name]
    world = World()
    act(world)
    assert 1 <= len(_kept(world)) <= most
    assert _kept(world).count(0) <= 1, "the standing definition's, at most"
    world.must("DELETE", JOB)
    earliest_s = world.at_ms // SECOND_MS + world.layout.retention_s
    latest_s = earliest_s + 400 * 86_400
    assert all(earliest_s <= expires_s <= latest_s for expires_s in _kept(world)), _kept(world)


@holds("R2-O-24")
@pytest.mark.parametrize("end", ["runs", "is withdrawn", "is one of a batch"])
def test_a_timers_content_expires_after_it_whatever_became_of_it(end: str) -> None:
    world = World()
    timer = {"team": "shop", "delay_s": 5, "target": ECHO, "payload": LARGE}
    if end == "is one of a batch":
        world.must("POST", "/timers:batch", {"timers": [timer, timer | {"payload": f"2{LARGE}"}]})
    else:
        made = world.must("POST", "/timers", timer)
        if end == "is withdrawn":
            world.must("DELETE", f"/timers/{made['timer_id']}")
    world.work_to(NOW_MS + 20_000)
    assert _kept(world)
    assert all(world.at_ms // SECOND_MS + world.layout.retention_s < expires_s for expires_s in _kept(world))


# --- R2-O-25 ----------------------------------------------------------------------------------------------------------


def _lose_contents(world: World) -> None:
    """As an expiry does that comes too soon."""
    for item in list(world.store.items(PAYLOADS)):
        world.store.commit([Delete(PAYLOADS, {"payload_id": item["payload_id"]}, Anyway("expired too soon"))])


def _timer(world: World, **more: Any) -> str:
    made = world.must("POST", "/timers", {"team": "shop", "delay_s": 5, "target": ECHO, "payload": LARGE} | more)
    return str(made["run_id"])


def _of_a_timer(world: World) -> str:
    run_id = _timer(world)
    _lose_contents(world)
    return run_id


def _of_a_job(world: World) -> str:
    create(world, {"at": iso(NOW_MS + 5_000)}, payload=LARGE)
    _lose_contents(world)
    return str(world.must("GET", f"{JOB}/runs")["runs"][0]["run_id"])


def _of_what_is_queued(world: World) -> str:
    run_id = _timer(world)
    world.go(6)
    _lose_contents(world)
    return run_id


def _of_an_earlier_definition(world: World) -> str:
    create(world, {"at": iso(NOW_MS + 5_000)}, payload=LARGE)
    run_id = str(world.must("GET", f"{JOB}/runs")["runs"][0]["run_id"])
    world.go(6)
    recreate(world, {"rate": "1 day"}, payload=1)
    _lose_contents(world)
    return run_id


GONE = {
    "of a timer": _of_a_timer,
    "of a job": _of_a_job,
    "of what is queued": _of_what_is_queued,
    "of an earlier definition": _of_an_earlier_definition,
}


@holds("R2-O-25")
@pytest.mark.parametrize("name", GONE)
def test_a_run_whose_content_is_gone_is_not_called_and_ends_with_the_reason(name: str) -> None:
    world = World()
    run_id = GONE[name](world)
    world.work_to(NOW_MS + 60_000)
    assert world.worked.of(run_id) == []
    (letter,) = world.must("GET", "/dead-letters", team="shop")["runs"]
    assert (letter["run_id"], letter["cause"]["error_class"]) == (run_id, "PayloadLost")


@holds("R2-O-25")
@pytest.mark.parametrize("then", ["a retry", "a replay"])
def test_a_later_attempt_whose_content_is_gone_is_not_called_either(then: str) -> None:
    world = World()
    run_id = _timer(world, retry_policy={"max_attempts": 2, "base_s": 5})
    world.go(6)
    (held,) = world.take()
    world.complete(held, "failed" if then == "a retry" else "failed_permanent", error="boom")
    _lose_contents(world)
    if then == "a replay":
        world.must("POST", "/dead-letters:replay", {"team": "shop", "runs": [held.ref], "reason": "again"})
    world.work_to(world.at_ms + 3_600 * SECOND_MS)
    assert len(world.worked.of(run_id)) == 1
    (letter,) = world.must("GET", "/dead-letters", team="shop")["runs"]
    assert letter["cause"]["error_class"] == "PayloadLost"


# --- R2-O-15 ----------------------------------------------------------------------------------------------------------

ARRIVES = [
    "9007199254740993", "-9223372036854775808", "18446744073709551615", "1" * 40, "7" * 4_000, "1e-320",
    "1.7976931348623157e308", "-0.0", "0", "-0", "0.1000000000000000055511151231257827",
    "12345678901234567890.123456789", "1E5", "5e-324", "null", "{}", "[]", '""', "false", r'"\u0000"',
    r'"\u2028\u2029"', '{"":{"":[]}}',
    r'"\ud83d\ude00"', '"\ufffe\uffff"', '[[[[[[[[1]]]]]]]]', '{"a":1,"A":2}', r'"\\u0041"',
]  # fmt: skip
REFUSED = [
    "1E400",
    "-1E400",
    "NaN",
    "Infinity",
    '{"a":1,"a":2}',
    r'"\ud800"',
    r'{"\udc00":1}',
    "01",
    "+1",
    "1.",
    "[1,]",
]
PAD = "p" * 500
"""Makes a payload one that is kept apart."""
WAYS = ("inline", "apart")


def _ask(world: World, payload: str, way: str, route: str = "timer") -> Answer:
    """The request as bytes: a text of JSON that no writer of ours has touched."""
    content = payload if way == "inline" else f'{{"pad":"{PAD}","is":{payload}}}'
    when = (
        '"delay_s":5' if route == "timer" else f'"name":"n","tolerance_s":0,"schedule":{{"at":"{iso(NOW_MS + 5_000)}"}}'
    )
    text = f'{{"team":"shop",{when},"target":{{"pool":"default","handler":"echo"}},"payload":{content}}}'
    return world.ask("POST", "/timers" if route == "timer" else "/jobs", text.encode())


def _arrived(world: World, way: str) -> Any:
    world.go(6)
    (held,) = world.take()
    return _content(held, way)


def _content(held: Held, way: str) -> Any:
    return held.payload if way == "inline" else held.payload["is"]


def _is_same(found: Any, sent: str) -> bool:
    """The same value: of a decimal, the nearest double (RFC 8259)."""
    wanted = json.loads(sent)
    if isinstance(wanted, float):
        return isinstance(found, float) and found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
    return type(found) is type(wanted) and bool(found == wanted)


@holds("R2-O-15")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("payload", ARRIVES, ids=lambda text: text[:30])
def test_a_value_arrives_as_it_was_written(payload: str, way: str) -> None:
    world = World()
    assert _ask(world, payload, way).status == 201
    found = _arrived(world, way)
    assert _is_same(found, payload), found


@holds("R2-O-15")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("payload", REFUSED)
def test_what_could_arrive_as_something_else_is_refused(payload: str, way: str) -> None:
    world = World()
    answer = _ask(world, payload, way)
    assert answer.status in (400, 422), answer
    assert answer.body["detail"] or answer.body["errors"]
    assert world.must("GET", "/timers", team="shop")["timers"] == []


@holds("R2-O-15")
@pytest.mark.parametrize("payload", ["9007199254740993", "0.1000000000000000055511151231257827", "-0.0"])
def test_so_it_does_by_a_job_a_change_and_a_batch_and_in_each_attempt(payload: str) -> None:
    world = World()
    assert _ask(world, payload, "inline", "job").status == 201
    text = f'{{"version":1,"payload":{{"is":{payload}}}}}'
    assert world.ask("PATCH", "/jobs/shop:n", text.encode()).is_ok
    assert _is_same(world.must("GET", "/jobs/shop:n")["payload"]["is"], payload)
    entry = f'{{"team":"shop","delay_s":5,"target":{{"pool":"default","handler":"echo"}},"payload":{{"is":{payload}}}}}'
    assert world.ask("POST", "/timers:batch", f'{{"timers":[{entry},{entry}]}}'.encode()).status == 201
    world.go(6)
    for held in world.take():
        world.complete(held, "failed", error="boom")
    world.go(200)
    assert len(world.take()) == 3
    assert len(world.worked.starts) == 6
    assert all(_is_same(held.payload["is"], payload) for held in world.worked.starts)
