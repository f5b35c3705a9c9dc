"""What the command line says of pauses, placements and roll-outs: what was meant happened, or it says what did not."""

from __future__ import annotations

import pytest

from tests.unit.cli.test_commands import run, url
from tickwork.client import ApiClient

__all__ = ["url"]
JOB = "shop:report"


@pytest.fixture(autouse=True)
def _a_job(url: str) -> None:
    body = {"team": "shop", "name": "report", "schedule": {"rate": "1 hour"}, "target": {"pool": "payments"}}
    ApiClient(url).post("/jobs", body)


def test_a_job_that_stays_paused_with_its_team_says_so_when_it_is_resumed(url: str) -> None:
    assert run(url, "pause", "--team", "shop", "--reason", "deploy").exit_code == 0
    assert "with the team shop by local: deploy (until it is resumed)" in run(url, "jobs", "show", JOB).stdout
    stays = "it stays paused with the team shop"
    said = run(url, "jobs", "resume", JOB).stderr
    assert "was not paused" in said
    assert stays in said
    run(url, "jobs", "pause", JOB, "--reason", "x")
    said = run(url, "jobs", "resume", JOB).stderr
    assert "was not paused" not in said
    assert stays in said
    run(url, "resume", "--team", "shop")
    assert "paused" not in run(url, "jobs", "show", JOB).stdout


def test_a_pause_of_what_is_not_there_or_is_everybodys_fails(url: str) -> None:
    for options in (("--team", "shpo"), ("--team", "shop", "--pool", "payments"), ("--cell", "none"), ()):
        refused = run(url, "pause", *options, "--reason", "x")
        assert (refused.exit_code, refused.stdout) == (2, ""), refused.output
    assert "nothing is paused" in run(url, "pauses").stdout


def test_taking_back_a_placement_that_never_was_says_so(url: str) -> None:
    assert run(url, "cells", "place", "main", "--team", "shpo").exit_code == 2
    assert "team shpo was never placed" in run(url, "cells", "take-back", "--team", "shpo").stderr
    assert run(url, "cells", "place", "main", "--team", "shop").exit_code == 0
    for _ in range(2):
        taken = run(url, "cells", "take-back", "--team", "shop")
        assert "team shop is not placed by itself any more" in taken.stdout
    assert "everybody else was never placed" in run(url, "cells", "take-back").stderr


def test_a_roll_out_by_which_nobody_would_go_fails(url: str) -> None:
    run(url, "defaults", "publish", "--tolerance", "9", "--reason", "a try")
    for options in (("--version", "0", "--percent", "5"), ("--version", "2", "--team", "shpo")):
        refused = run(url, "defaults", "roll-out", *options, "--reason", "x", "--yes")
        assert (refused.exit_code, refused.stdout) == (2, ""), refused.output
    assert run(url, "defaults", "roll-out", "--version", "2", "--team", "shop", "--reason", "x", "--yes").exit_code == 0
