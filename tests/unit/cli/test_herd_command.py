"""`tickwork herd`: what it reads through the API, and what it shows of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from tests.support.fakes import NOW_MS, fake_ports
from tickwork.api.app import build_app
from tickwork.cli import herd_command as command
from tickwork.cli.main import main
from tickwork.client import ApiClient
from tickwork.core.instants import iso
from tickwork.local.server import serve


@pytest.fixture
def url() -> Iterator[str]:
    ports = fake_ports()
    server = serve(lambda: build_app(ports), 0)
    server.serve_in_background()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def client(url: str) -> ApiClient:
    client = ApiClient(url, auth="none")
    for team in ("pay", "web"):
        client.call("PUT", f"/teams/{team}", {"contact": "ann"})
    client.call("PUT", "/calendars/pay:days", {"dates": ["2026-10-31"]})
    for number in range(3):
        job(client, f"a-{number}", {"cron": "0 0 * * *", "calendars": {"exclude": ["days"]}}, 0)
    job(client, "paused", {"cron": "0 0 * * *"}, 0)
    client.post("/jobs/pay:paused/pause", {"reason": "a release"})
    job(client, "b", {"rate": "1 hour", "anchor": "2026-01-01T00:00:00Z"}, 120, "web")
    return client


def job(client: ApiClient, name: str, schedule: dict[str, Any], tolerance_s: int, team: str = "pay") -> None:
    body = {"team": team, "name": name, "schedule": schedule, "target": {"pool": "default"}}
    exact = {"exact_reason": "a bank"} if not tolerance_s else {}
    client.post("/jobs", body | exact | {"tolerance_s": tolerance_s})


def run(url: str, *arguments: str) -> Any:
    result = CliRunner(env={"TICKWORK_API_URL": url, "TICKWORK_API_AUTH": "none"}).invoke(
        main, ["herd", "--from", iso(NOW_MS), "--days", "3", *arguments]
    )
    assert result.exit_code == 0, result.output
    return result


def test_it_counts_the_jobs_of_all_teams_that_are_seen_and_says_what_it_left_out(url: str, client: ApiClient) -> None:
    assert client is not None
    found = json.loads(run(url, "--json").stdout)
    assert (found["jobs"], found["left_out"]) == (4, {"paused": 1})
    assert sum(found["before"]) == 3 * 24 + 3 * 2, "on one of the three days the calendar has no midnight"
    assert found["peaks"][0]["before"] >= 3
    assert dict(found["peaks"][0]["teams"])["pay"] == 3


def test_of_one_team_alone(url: str, client: ApiClient) -> None:
    assert client is not None
    assert json.loads(run(url, "--json", "--team", "web").stdout)["jobs"] == 1


def test_people_see_a_plot_peaks_and_what_to_do(url: str, client: ApiClient, tmp_path: Path) -> None:
    assert client is not None
    picture = tmp_path / "herd.svg"
    result = run(url, "--svg", str(picture))
    lines = result.stdout.splitlines()
    assert [line[:17] for line in lines[1:3]] == ["2026-10-30 before", "           after "]
    assert any("give those without a tolerance one (3 jobs)" in line for line in lines)
    assert any("a month begins (UTC)" in line for line in lines)
    assert "4 jobs counted; left out: 1 paused" in result.stderr
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    texts = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert any("pay 3" in str(text) for text in texts)
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) == 2


def test_a_bar_is_as_high_as_its_part_and_nothing_is_no_bar() -> None:
    assert [command._bar(high, 8) for high in range(9)] == list(" ▁▂▃▄▅▆▇█")
    assert command._bar(1, 1_000_000) == "▁", "what is there is seen"
