"""A failure that is told becomes a recorded failure (W13), whatever is said beside it; and one entry that cannot be
read costs only itself."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.support.http import ApiUnderTest
from tests.support.runs_world import World

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.work import RetryPolicy


@pytest.fixture
def api(world: World) -> ApiUnderTest:
    return ApiUnderTest(world.ports)


def running(world: World, **work: Any) -> dict[str, Any]:
    key = world.timer(**work)
    return {"ref": key.ref, "token": world.must_start(key).token}


def report(api: ApiUnderTest, held: dict[str, Any], **said: Any) -> dict[str, Any]:
    status, answer = api.call("POST", "/runs:complete", {"runs": [held | {"outcome": "failed"} | said]})
    assert status == 200, answer
    return answer["runs"][0]


def recorded(world: World, held: dict[str, Any]) -> dict[str, Any]:
    (record,) = world.run(parse_ref(held["ref"])).attempts
    return dict(record)


# --- texts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("no such file: caf\udce9.txt", "no such file: caf\\udce9.txt"),
        ("half a pair \ud83d", "half a pair \\ud83d"),
        ("the other \udc00 half", "the other \\udc00 half"),
        ("a zero \x00 byte", "a zero \\u0000 byte"),
        ("a bell \x07", "a bell \\u0007"),
        ("no character \ufffe \uffff", "no character \\ufffe \\uffff"),
        ("line\nand\ttab", "line\nand\ttab"),
        ("whole \U0001f600", "whole \U0001f600"),
    ],
)
def test_an_error_of_any_characters_is_recorded(world: World, api: ApiUnderTest, error: str, shown: str) -> None:
    held = running(world)
    assert report(api, held, error=error)["status"] == lifecycle.WAITING
    found = recorded(world, held)
    assert (found["outcome"], found["error"]) == ("failed", shown)
    found["error"].encode()  # every store takes it


@pytest.mark.parametrize("length", [10_000, 10_001, 200_000])
def test_a_long_error_is_cut(world: World, api: ApiUnderTest, length: int) -> None:
    held = running(world)
    assert report(api, held, error="x" * length)["accepted"]
    assert set(recorded(world, held)["error"]) == {"x"}


@pytest.mark.parametrize(
    ("error", "shown"), [(None, ""), (17, "17"), (["a", 1], "['a', 1]"), ({"why": "b"}, "{'why': 'b'}")]
)
def test_an_error_that_is_no_text_is_told_as_one(world: World, api: ApiUnderTest, error: Any, shown: str) -> None:
    held = running(world)
    assert report(api, held, error=error)["accepted"]
    assert recorded(world, held)["error"] == shown


def test_the_class_of_an_error_is_cut_and_cleaned_and_still_goes_by_its_policy(world: World, api: ApiUnderTest) -> None:
    held = running(world)
    report(api, held, error_class="B\ud800d" + "x" * 100)
    assert recorded(world, held)["error_class"] == "B\\ud800d" + "x" * 72
    held = running(world, retry=RetryPolicy(no_retry_on=("KeyError",)))
    assert report(api, held, error_class="KeyError", error="\ud800")["status"] == lifecycle.DEAD


# --- waits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "least_s", "most_s"),
    [
        ("1.5", 0, 80),
        ("300.2", 301, 400),
        ("1e999", 86_400, 105_000),
        ("Infinity", 86_400, 105_000),
        ("9" * 400, 86_400, 105_000),
        ("NaN", 0, 80),
        ("-Infinity", 0, 80),
        ("-3", 0, 80),
        ("null", 0, 80),
        ('"soon"', 0, 80),
        ("true", 0, 80),
    ],
)
def test_any_wait_is_a_failure_with_a_wait(
    world: World, api: ApiUnderTest, said: str, least_s: int, most_s: int
) -> None:
    held = running(world)
    entry = json.dumps(held | {"outcome": "failed"})[:-1] + f', "retry_after_s": {said}}}'
    status, answer = api.call("POST", "/runs:complete", f'{{"runs": [{entry}]}}'.encode())
    assert (status, answer["runs"][0]["status"]) == (200, lifecycle.WAITING)
    wait_s = (world.run(parse_ref(held["ref"])).retry_at_ms - world.clock.at_ms) / 1000
    assert least_s <= wait_s <= most_s


# --- batches ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        {"token": 0},
        {"outcome": "exploded"},
        {"ref": "nowhere"},
        {"ref": "\ud800"},
        {"ref": 17},
        {"of_a_newer_worker": 1},
        {"receipt": "no receipt"},
    ],
)
def test_an_entry_that_cannot_be_read_costs_only_itself(world: World, api: ApiUnderTest, bad: dict[str, Any]) -> None:
    first, second, third = (running(world) | {"outcome": "succeeded"} for _ in range(3))
    status, answer = api.call("POST", "/runs:complete", {"runs": [first, second | bad, third]})
    assert status == 200
    assert [one["accepted"] for one in answer["runs"]] == [True, False, True]
    refused = answer["runs"][1]
    assert (refused["reason"], refused["discard"]) == ("invalid", False)
    assert refused["detail"].startswith("runs.1")


@pytest.mark.parametrize("not_one", [None, 17, "run", ["ref"], {}])
def test_an_entry_that_is_none_costs_only_itself(world: World, api: ApiUnderTest, not_one: Any) -> None:
    held = running(world)
    for path, more in (("heartbeat", {}), ("complete", {"outcome": "succeeded"})):
        status, answer = api.call("POST", f"/runs:{path}", {"runs": [not_one, held | more, not_one]})
        assert status == 200
        assert [one["accepted"] for one in answer["runs"]] == [False, True, False]


def test_of_a_start_too_and_each_answer_stands_in_its_place(world: World, api: ApiUnderTest) -> None:
    keys: list[LedgerKey] = [world.timer() for _ in range(3)]
    runs: list[dict[str, Any]] = [{"ref": key.ref, "claim": f"claim-no-{n}"} for n, key in enumerate(keys)]
    runs[0]["lease_s"] = 1
    runs[2]["retry_ref"] = keys[2].ref
    status, answer = api.call("POST", "/runs:start", {"worker": "w", "runs": runs})
    assert status == 200
    assert [one["granted"] for one in answer["runs"]] == [False, True, False]
    assert [one["ref"] for one in answer["runs"]] == [key.ref for key in keys]


def test_where_no_entry_can_be_read_the_call_is_refused_and_says_what_to_change(
    world: World, api: ApiUnderTest
) -> None:
    held = running(world)
    for runs in ([held | {"outcome": "exploded"}], [held | {"outcome": "succeeded", "ref": "nowhere"}, None]):
        status, problem = api.call("POST", "/runs:complete", {"runs": runs})
        assert status == 422
        assert problem["errors"][0]["field"].startswith("runs.0")


def test_a_batch_that_is_at_fault_itself_is_refused_as_a_whole(world: World, api: ApiUnderTest) -> None:
    held = running(world) | {"outcome": "succeeded"}
    for body in (
        {"runs": [held, None], "more": 1},
        {"runs": [held] + [None] * 25},
        {"runs": []},
        {"runs": {"0": held}},
    ):
        assert api.call("POST", "/runs:complete", body)[0] == 422
