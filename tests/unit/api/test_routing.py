"""The table of routes: what is not in it is not served, and what contradicts itself in it does not start."""

from __future__ import annotations

import inspect
import json
import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from tests.support import conformity
from tests.support.http import ApiUnderTest
from tests.unit.api.test_bad_input import JOB, TIMER, assert_nothing_stored
from tickwork.api.routing import JOB_ID, BadRouteTable, checked
from tickwork.api.table import CHAPTERS, ROUTES
from tickwork.core.errors import VersionConflict
from tickwork.ports import Ports

HEALTH = next(route for route in ROUTES if route.name == "health")
HEALTHY = {"status": "ok", "now": "2026-10-30T00:00:00.000Z"}


def somewhere_else(_: Any) -> tuple[int, Any]:
    return 200, {}


@pytest.mark.parametrize(
    "second",
    [
        replace(HEALTH, handler=somewhere_else),
        replace(HEALTH, path="/healthy"),
        replace(HEALTH, path="/health/{job_id}", handler=somewhere_else),
        replace(HEALTH, path="/healthy", at=(JOB_ID,), handler=somewhere_else),
    ],
    ids=["path twice", "name twice", "a part that is not declared", "a part that is not there"],
)
def test_a_table_that_contradicts_itself_does_not_start(second: Any) -> None:
    with pytest.raises(BadRouteTable, match=r"stands twice|two routes|must name"):
        checked([HEALTH, second])


def test_every_handler_of_a_chapter_is_in_the_table() -> None:
    for chapter, table in CHAPTERS.items():
        modules = {inspect.getmodule(route.handler) for route in table}
        handlers = [
            name
            for module in modules
            for name, one in vars(module).items()
            if inspect.isfunction(one) and not name.startswith("_") and "Call[" in str(inspect.signature(one))
        ]
        assert set(handlers) == {route.name for route in table}, chapter


def test_every_route_is_served(api: ApiUnderTest) -> None:
    """By the resolver as by the table: nothing is refused as a path that does not exist."""
    for route in ROUTES:
        path = route.path
        for part in route.at:
            path = path.replace(f"{{{part.name}}}", part.example)
        _, answer = api.call(route.method, path)
        assert answer.get("type") != "urn:tickwork:problem:no-such-path", route


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        (200, HEALTHY | {"more": 1}),
        (200, {"status": "ok"}),
        (200, HEALTHY | {"status": 1}),
        (200, HEALTHY | {"now": "2026-10-30 00:00"}),
        (201, HEALTHY),
        (412, {"type": "urn:tickwork:problem:version-conflict", "title": "t", "status": 412, "detail": "d"}),
        (503, {"type": "urn:tickwork:problem:busy", "title": "t", "status": 503}),
    ],
    ids=["a field more", "a field less", "a wrong type", "no instant", "a status", "a kind of problem", "no detail"],
)
def test_an_answer_that_its_route_does_not_declare_fails_the_test_that_gets_it(status: int, answer: Any) -> None:
    conformity.check("GET", "/health", 200, HEALTHY)
    with pytest.raises((AssertionError, ValueError)):
        conformity.check("GET", "/health", status, answer)


def test_a_field_more_is_found_however_deep_it_stands(api: ApiUnderTest) -> None:
    _, job = api.call("POST", "/jobs", JOB)
    job["retry_policy"]["more"] = 1
    with pytest.raises(ValueError, match="more"):
        conformity.check("POST", "/jobs", 201, job)


def test_a_route_declares_what_it_refuses() -> None:
    change = next(route for route in ROUTES if route.name == "change_job")
    assert VersionConflict in change.errors


# --- keys that stand twice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "raw", "field"),
    [
        ("/jobs", '{"team": "shop", ' + json.dumps(JOB)[1:], "team"),
        ("/timers", json.dumps(TIMER)[:-1] + ', "payload": {"a": [0, {"b": 1, "b": 1}]}}', "payload.a.1.b"),
        ("/timers:batch", '{"timers": [{"team": "a", "team": "b"}], "timers": []}', "timers"),
        ("/jobs", '{"a": {"x": 1, "x": 2}, "a": 5}', "a"),
        ("/jobs", '[{"a": 1, "b": 2, "\\u0061": 3}]', "0.a"),
    ],
    ids=["outside", "in the payload", "both", "in what a later key hides", "in another spelling"],
)
def test_a_key_that_stands_twice_is_refused_and_named(
    api: ApiUnderTest, ports: Ports, path: str, raw: str, field: str
) -> None:
    status, problem = api.call("POST", path, raw.encode())

    assert (status, problem["type"]) == (400, "urn:tickwork:problem:duplicate-key")
    assert problem["errors"][0]["field"] == field
    assert problem["errors"][0]["remedy"]
    assert_nothing_stored(ports)


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method != "GET"], ids=lambda route: route.name)
@pytest.mark.parametrize("raw", [b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' * 300 + b"1" + b"}" * 300])
def test_a_deep_body_is_refused_at_every_route_and_never_our_fault(api: ApiUnderTest, route: Any, raw: bytes) -> None:
    path = route.path
    for part in route.at:
        path = path.replace(f"{{{part.name}}}", part.example)

    status, _ = api.call(route.method, path, raw)
    if route.name.startswith("delete_") and route.name.endswith("placement"):
        assert status == 200, "there is no placement, and nobody reads the body: nothing is to be done"
    else:
        assert 400 <= status < 500


def test_a_key_that_stands_twice_is_found_however_deep_it_stands(api: ApiUnderTest) -> None:
    raw = b'{"a":' * 400 + b'{"k":1,"k":2}' + b"}" * 400

    _, problem = api.call("POST", "/jobs", raw)

    assert problem["errors"][0]["field"].endswith("a.a.k")


def test_a_key_that_stands_twice_among_thousands_of_members_costs_no_more_memory_than_they(api: ApiUnderTest) -> None:
    raw = b'{"a":[' + b"[]," * 30_000 + b'{"k":1,"k":2}]}'
    tracemalloc.start()
    json.loads(raw)
    _, read_peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tracemalloc.start()

    _, problem = api.call("POST", "/jobs", raw)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert problem["errors"][0]["field"] == "a.30000.k"
    assert peak < 2 * read_peak
