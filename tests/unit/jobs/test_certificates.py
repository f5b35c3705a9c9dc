"""A job with side effects can be made to show that its code was tried twice for one run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.cli.main import main
from tickwork.ports import Layout

CERTIFICATE = {
    "job": "charge",
    "ok": True,
    "verified_at": "2026-11-30T02:00:00+00:00",
    "source_sha256": "0" * 64,
    "effects": 1,
    "deliveries": ["delivered twice"],
    "different": [],
}
JOB = {"team": "payments", "name": "charge", "schedule": {"rate": "1 hour"}, "target": {"pool": "payments"}}


def create(demanded: bool, **changes: Any) -> tuple[int, dict[str, Any]]:
    layout = Layout(pools=("payments",), require_certificates=demanded)
    return ApiUnderTest(fake_ports(layout=layout)).call("POST", "/jobs", JOB | changes)


def test_where_it_is_demanded_a_job_with_side_effects_needs_one() -> None:
    status, problem = create(True, side_effects=["payment"])
    assert (status, problem["errors"][0]["field"]) == (422, "certificate")
    assert create(True)[0] == 201, "a job without side effects needs none"
    assert create(False, side_effects=["payment"])[0] == 201, "elsewhere nobody asks"

    status, job = create(True, side_effects=["payment"], certificate=CERTIFICATE)
    assert status == 201
    assert job["certificate"] == {"source_sha256": "0" * 64, "verified_at": "2026-11-30T02:00:00+00:00"}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"ok": False}, "certificate.ok"),
        ({"different": ["delivered twice"]}, "certificate.different"),
        ({"effects": 0}, "certificate.effects"),
        ({"source_sha256": "x"}, "certificate.source_sha256"),
        ({"job": "another"}, "certificate.job"),
    ],
)
def test_one_that_shows_nothing_or_something_else_is_refused(changes: dict[str, Any], field: str) -> None:
    status, problem = create(True, side_effects=["payment"], certificate=CERTIFICATE | changes)
    assert (status, problem["errors"][0]["field"]) == (422, field)


def test_what_verify_writes_is_what_registration_takes(tmp_path: Path) -> None:
    app = tmp_path / "jobs.py"
    effects = tmp_path / "effects.sqlite"
    app.write_text(f"""
import sqlite3
from contextlib import closing
from tickwork.worker import App
app = App()

@app.job("charge")
def charge(ctx):
    with closing(sqlite3.connect({str(effects)!r})) as books, books:
        books.execute("CREATE TABLE IF NOT EXISTS charges (run_id TEXT PRIMARY KEY)")
        books.execute("INSERT INTO charges VALUES (?) ON CONFLICT DO NOTHING", (ctx.run_id,))
""")
    certificate = tmp_path / "certificate.json"
    result = CliRunner().invoke(
        main, ["verify", f"{app}:app", "charge", "--sqlite", str(effects), "--certificate", str(certificate)]
    )
    assert result.exit_code == 0, result.output
    assert create(True, side_effects=["payment"], certificate=json.loads(certificate.read_text()))[0] == 201
