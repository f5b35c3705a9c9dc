"""What a request means to pause or resume: a team, a pool, a cell, and what is nobody's to name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.core.ledger.cells import CellShape
from tickwork.ports import Layout
from tickwork.testing.memory import MemoryStore

LAYOUT = Layout(shards=1, slices=1, pools=("default", "default-p0"), others=(CellShape("side", 1, 1),))
TIMER = {"team": "shop", "delay_s": 600, "target": {"pool": "default", "handler": "report"}}


@pytest.fixture
def api() -> ApiUnderTest:
    one = ApiUnderTest(fake_ports(MemoryStore(), LAYOUT))
    assert one.call("POST", "/timers", TIMER)[0] == 201
    return one


@pytest.mark.parametrize(
    ("asked", "what"),
    [
        ({"team": "shop"}, ("team", "shop", "shop")),
        ({"pool": "default"}, ("pool", "default", "platform")),
        ({"team": "platform", "pool": "default"}, ("pool", "default", "platform")),
        ({"cell": "side"}, ("cell", "side", "platform")),
        ({"cell": "*"}, ("cell", "*", "platform")),
    ],
)
def test_what_is_named_is_paused_and_resumed_and_both_again_are_no_ops(
    api: ApiUnderTest, asked: dict[str, Any], what: tuple[str, str, str]
) -> None:
    for _ in range(2):
        status, shown = api.call("POST", "/pauses", asked | {"reason": "deploy"})
        assert (status, (shown["kind"], shown["name"], shown["owner"])) == (200, what)
    assert len(api.call("GET", "/pauses")[1]["pauses"]) == 1
    for changed in (True, False):
        status, answer = api.call("POST", "/pauses:resume", asked)
        assert (status, answer["changed"]) == (200, changed)
        assert answer["resumed"] is not None
    assert api.call("GET", "/pauses")[1]["pauses"] == []


@pytest.mark.parametrize("act", ["/pauses", "/pauses:resume"])
@pytest.mark.parametrize(
    ("asked", "status", "field"),
    [
        ({}, 422, "team"),
        ({"team": "shpo"}, 404, "team"),
        ({"team": "shop", "pool": "default"}, 422, "team"),
        ({"team": "shop", "pool": "fast"}, 404, None),
        ({"cell": "sied"}, 422, "cell"),
        ({"cell": "side", "team": "shop"}, 422, "cell"),
        ({"cell": "side", "pool": "default"}, 422, "cell"),
    ],
)
def test_what_would_pause_nothing_or_more_than_was_meant_is_refused(
    api: ApiUnderTest, act: str, asked: dict[str, Any], status: int, field: str | None
) -> None:
    found, problem = api.call("POST", act, asked | ({"reason": "deploy"} if act == "/pauses" else {}))
    assert found == status, problem
    assert field in (None, problem["errors"][0]["field"])
    assert api.call("GET", "/pauses")[1]["pauses"] == []


def test_a_job_of_a_lane_is_shown_as_paused_by_its_pool(api: ApiUnderTest) -> None:
    job = {"team": "shop", "name": "report", "schedule": {"rate": "1 hour"}, "target": {"pool": "default"}}
    assert api.call("POST", "/jobs", job | {"lane": "P0"})[0] == 201
    api.call("POST", "/pauses", {"pool": "default", "reason": "deploy"})
    (over,) = api.call("GET", "/jobs/shop:report")[1]["paused_by"]
    assert (over["kind"], over["name"]) == ("pool", "default")
