"""What a request means to pause or resume: a team, a pool, a cell, and what is nobody's to name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.api.cursors import to_cursor
from tickwork.core.ledger.cells import CellShape
from tickwork.core.runs.attempts import StartRequest
from tickwork.flows.audit import draining
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.runs import timers, worker_calls
from tickwork.flows.runs.worker_calls import Started
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

LAYOUT = Layout(shards=1, slices=1, pools=("default", "default-p0"), others=(CellShape("side", 1, 1),))
TIMER = {"team": "shop", "delay_s": 600, "target": {"pool": "default", "handler": "report"}}


@pytest.fixture
def ports() -> Ports:
    return fake_ports(MemoryStore(), LAYOUT)


@pytest.fixture
def api(ports: Ports) -> ApiUnderTest:
    one = ApiUnderTest(ports)
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


# --- what still runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [1, 2, 300])
def test_what_still_runs_of_a_team_is_told_page_by_page_until_there_is_nothing(
    api: ApiUnderTest, ports: Ports, monkeypatch: pytest.MonkeyPatch, reads: int
) -> None:
    monkeypatch.setattr(draining, "READS_MAX", reads)
    started = []
    for minute in range(3):
        _, timer = api.call("POST", "/timers", TIMER | {"delay_s": 1, "client_key": f"{minute}"})
        ports.clock.sleep_ms(2_000)
        run_window(ports, 0, ports.clock.now_ms() // 1_000)
        ref = timers.timer_place(timer["timer_id"])
        begun = worker_calls.start(ports, StartRequest(ref, f"claim-{minute}", "w", 600))
        assert isinstance(begun, Started)
        started.append((ref, begun.run.token))
        ports.clock.sleep_ms(58_000)
    api.call("POST", "/pauses", {"team": "shop", "reason": "deploy"})

    def passed() -> tuple[int, list[str]]:
        found: list[str] = []
        cursor, pages = None, 0
        while pages == 0 or cursor is not None:
            more = {"cursor": cursor} if cursor else {}
            status, page = api.call("GET", "/pauses/in-flight", team="shop", **more)
            assert status == 200, page
            found += [one["occurrence"] for one in page["runs"]]
            cursor, pages = page["cursor"], pages + 1
        return pages, found

    pages, found = passed()
    assert (len(found), pages > 1) == (3, reads < 300)
    for ref, token in started:
        worker_calls.complete(ports, ref, token)
    assert passed()[1] == []


def test_a_cursor_of_another_list_is_refused(api: ApiUnderTest) -> None:
    for position in ("shop:report", [1, 2], [1, 2, -1], [1, 2, "3"]):
        cursor = to_cursor(position)
        assert cursor is not None
        status, problem = api.call("GET", "/pauses/in-flight", team="shop", cursor=cursor)
        assert (status, problem["errors"][0]["field"]) == (422, "cursor")
