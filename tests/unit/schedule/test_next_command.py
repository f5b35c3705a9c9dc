"""`tickwork next` as people and scripts use it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tickwork.cli.main import main

GUIDE = Path(__file__).parents[3] / "docs" / "schedules.md"


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["next", *arguments], input=stdin)


def rows(*arguments: str, stdin: str | None = None) -> Any:
    result = run("--json", *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_row_has_utc_local_offset_zone_and_note() -> None:
    (row,) = rows("0 2 * * *", "--tz", "America/New_York", "--after", "2026-11-01T00:00:00Z", "--count", "1")
    assert row == {
        "scheduled_at": "2026-11-01T07:00:00Z",
        "local": "2026-11-01T02:00:00-05:00",
        "offset": "-05:00",
        "zone": "America/New_York",
        "note": None,
    }


def test_the_example_of_the_guide_prints_what_the_guide_says() -> None:
    block = next(block for block in GUIDE.read_text().split("```") if block.startswith("\n$ tickwork next"))
    command, _, output = block.strip().partition("\n")
    result = run(*shlex.split(command)[3:])
    assert result.exit_code == 0
    assert result.stdout.strip() == output


@pytest.mark.parametrize(
    "arguments",
    [
        ["0 22-5 * * *"],
        ["0 2 * * *", "--tz", "Europe/Berln"],
        ["0 2 * * *", "--after", "2026-11-01T00:00:00"],
        ["0 2 * * *", "--after", "yesterday"],
        ["0 2 * * *", "--rate", "5m"],
        ["0 2 * * *", "--count", "0"],
        ["0 2 * * *", "--gap", "perhaps"],
        ["0 0 30 2 *", "--after", "2026-11-01T00:00:00Z"],
        ["--at", "2020-01-01T00:00:00Z"],
        ["--no-such-option"],
        ["0 2 * * *", "--on-excluded", "skip"],
        ["0 2 * * *", "--after", "2026-01-01T00:00:00Z", "--before", "2026-02-01T00:00:00Z"],
        [],
    ],
)
def test_a_refusal_leaves_standard_output_empty_and_exits_with_2(arguments: list[str]) -> None:
    result = run("--json", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr


def test_a_refusal_names_the_field_and_what_to_write() -> None:
    lines = run("0 22-5 * * *").stderr.splitlines()
    assert lines[0].startswith("error: cron.hour: ")
    assert "write 22-23,0-5" in lines[1]


def test_warnings_go_to_standard_error() -> None:
    result = run("--json", "0 0 13 * 5", "--after", "2026-11-01T00:00:00Z")
    assert result.stderr.startswith("warning: day_fields_or: ")
    assert len(json.loads(result.stdout)) == 5


def test_looking_back() -> None:
    expected = ["2026-03-09T06:00:00Z", "2026-03-08T07:00:00Z"]
    arguments = ["0 2 * * *", "--tz", "America/New_York", "--count", "2"]
    for reference in (
        ["--before", "2026-03-09T06:00:00.000001Z"],
        ["--prev", "--after", "2026-03-09T06:00:01Z"],
    ):
        assert [row["scheduled_at"] for row in rows(*arguments, *reference)] == expected


def test_without_an_instant_it_looks_ahead_from_now() -> None:
    assert len(rows("* * * * *", "--count", "3")) == 3
    assert len(rows("--rate", "10 minutes")) == 5
    assert len(rows("--delay", "90s")) == 1
    just_past = datetime.now(UTC) - timedelta(seconds=5)
    assert len(rows("--at", just_past.isoformat())) == 1  # accepted, and due at once


def test_a_schedule_that_is_over_has_no_more_rows() -> None:
    arguments = ["0 2 * * *", "--end", "2026-01-01T00:00:00Z", "--after", "2026-02-01T00:00:00Z"]
    assert rows(*arguments) == []
    assert "(nothing more)" in run(*arguments).stdout
    assert rows("0 0 1 1 *", "--after", "9999-12-31T23:59:59Z") == []
    assert rows("0 0 1 1 *", "--after", "9998-12-31T00:00:00Z")[0]["scheduled_at"] == "9999-01-01T00:00:00Z"
    assert rows("0 0 1 1 *", "--before", "0001-01-01T00:00:00Z") == []


def test_a_spec_from_a_file_or_standard_input(tmp_path: Path) -> None:
    spec = {"any_of": [{"cron": "0 9 * * 1-5"}, {"cron": "0 12 * * 6"}], "zone": "Europe/Berlin"}
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    after = ["--after", "2026-03-06T12:00:00Z", "--count", "2"]
    expected = ["2026-03-07T11:00:00Z", "2026-03-09T08:00:00Z"]
    assert [row["scheduled_at"] for row in rows("--spec", str(path), *after)] == expected
    assert [row["scheduled_at"] for row in rows("--spec", "-", *after, stdin=json.dumps(spec))] == expected
    for content in ("[1]", "{", '{"cron": 5}'):
        path.write_text(content)
        assert run("--json", "--spec", str(path)).exit_code == 2


def test_calendars_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "calendars.json"
    path.write_text(json.dumps([{"name": "de", "zone": "Europe/Berlin", "weekly": ["sat", "sun"]}]))
    arguments = ["0 9 * * *", "--calendars", str(path), "--exclude", "de", "--after", "2026-03-06T12:00:00Z"]
    assert rows(*arguments, "--count", "1")[0]["scheduled_at"] == "2026-03-09T09:00:00Z"
    moved = rows("0 9 * * 6", *arguments[1:], "--on-excluded", "next_working_day", "--count", "1")
    assert moved[0]["scheduled_at"] == "2026-03-09T09:00:00Z"
    assert moved[0]["note"] == "moved from 2026-03-07T09:00: de"


def test_importing_the_command_loads_no_client_of_any_service() -> None:
    code = (
        "import sys, tickwork.cli.next_command; "
        "print([m for m in ('boto3', 'botocore', 'pydantic', 'croniter', 'dateutil') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_zone_data_does_not_come_from_the_operating_system() -> None:
    code = (
        "from tickwork.core.schedule import TZDATA_VERSION, next_after, parse_schedule; "
        "s = parse_schedule({'cron': '30 1 * * *', 'zone': 'US/Pacific'}, now_ms=0); "
        "print(TZDATA_VERSION >= '2026f', next_after(s, 0))"
    )
    for path in ("", "/nowhere"):
        result = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={"PYTHONTZPATH": path, "PYTHONPATH": ":".join(sys.path)},
        )  # fmt: skip
        assert result.stdout.split() == ["True", "34200000"]


@pytest.mark.parametrize("options", [[], ["--tz", "UTC"], ["--count", "2", "--json"]])
def test_a_dash_before_the_first_field_is_no_option(options: list[str]) -> None:
    """As a crontab has it, to keep the daemon's log quiet."""
    for arguments in (["-*/10 * * * *", *options], [*options, "-*/10 * * * *"]):
        result = run(*arguments)
        assert result.exit_code == 2
        assert "write */10 * * * *" in result.stderr
    assert "write */10 * * * *" not in run("-5 * * * * *", *options).stderr
    assert "No such option" in run("--tzz", "UTC", "* * * * *").stderr
    assert "-5m" in run("--rate", "-5m").stderr
