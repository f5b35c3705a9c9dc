"""The demo at a start: nothing that somebody has made of its jobs keeps the session from starting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tickwork.api.app import build_app
from tickwork.client import ApiClient, ApiRefused
from tickwork.local import demo
from tickwork.local.server import serve
from tickwork.ports import Layout


@pytest.fixture
def api() -> Iterator[ApiClient]:
    ports = fake_ports(layout=Layout(pools=("default", "payments", "push")))
    server = serve(lambda: build_app(ports), 0)
    server.serve_in_background()
    yield ApiClient(f"http://127.0.0.1:{server.server_port}", auth="none")
    server.shutdown()
    server.server_close()


def test_the_second_start_makes_fresh_holds_and_no_job(api: ApiClient) -> None:
    told = "registered 2 jobs; 20 reservation holds made, 10 of them cancelled"
    assert [demo.register(api, batch) for batch in ("1", "2")] == [told, told]


def test_a_job_that_was_changed_as_one_is_invited_to_stays_as_it_is(api: ApiClient) -> None:
    demo.register(api, "1")
    changed = api.patch("/jobs/payments:rate-feed", {"version": 1, "schedule": {"rate": "20 seconds"}})
    assert "registered 1 job; payments:rate-feed stays as it was changed; 20 " in demo.register(api, "2")
    assert api.get("/jobs/payments:rate-feed")["version"] == changed["version"]


@pytest.mark.parametrize("change", ["pause", "delete"])
def test_a_job_that_was_paused_or_deleted_is_no_obstacle(api: ApiClient, change: str) -> None:
    demo.register(api, "1")
    if change == "pause":
        api.post("/jobs/payments:rate-feed/pause", {"by": "ann", "reason": "bank closed [/x]"})
    else:
        api.delete("/jobs/payments:rate-feed")
    assert "20 reservation holds made" in demo.register(api, "2")


def test_what_the_api_refuses_is_said(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ApiRefused(422, {"detail": "no\x1b[2J"})

    monkeypatch.setattr(api, "post", refuse)
    told = demo.register(api, "1")
    assert told.count(r"no\x1b[2J") == 3
