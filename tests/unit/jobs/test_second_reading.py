"""Where a single job is registered or changed, its caller is told when croniter reads another time."""

from __future__ import annotations

import json
from typing import Any

import croniter
import pytest
from click.testing import CliRunner

from tests.support.fakes import KeptSignals, fake_ports
from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import create_job
from tickwork.cli.main import main
from tickwork.ports import Ports

TWO_READINGS = {"cron": "41-41 3 * * *"}
ONE_READING = {"cron": "41 3 * * *"}


@pytest.fixture
def ports() -> Ports:
    return fake_ports()


@pytest.fixture
def api(ports: Ports) -> ApiUnderTest:
    return ApiUnderTest(ports)


def told(job: dict[str, Any]) -> list[str]:
    return [warning for warning in job["warnings"] if warning.startswith("second_reader: ")]


def test_creating_a_job_that_has_two_readings_warns_and_is_accepted(api: ApiUnderTest, ports: Ports) -> None:
    assert len(told(create_job(api, schedule=TWO_READINGS))) == 1
    assert isinstance(ports.signals, KeptSignals)
    assert ports.signals.counts["schedules.second_reader_differed_total"] == 1
    assert told(create_job(api, "plain", schedule=ONE_READING)) == []


def test_a_change_of_the_schedule_is_read_again_and_another_change_is_not(api: ApiUnderTest) -> None:
    create_job(api, schedule=ONE_READING)
    change = {"version": 1, "schedule": TWO_READINGS}
    assert len(told(api.call("PATCH", "/jobs/payments:rates", change)[1])) == 1
    assert told(api.call("PATCH", "/jobs/payments:rates", {"version": 2, "tolerance_s": 60})[1]) == []


def test_a_second_reader_that_fails_changes_no_answer(
    api: ApiUnderTest, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("not today")

    monkeypatch.setattr(croniter, "croniter", fail)
    assert create_job(api, schedule=ONE_READING)["warnings"] == []
    assert isinstance(ports.signals, KeptSignals)
    (failed,) = (facts for action, facts in ports.signals.lines if action == "second_reader_failed")
    assert failed == {"cron": "41 3 * * *", "why": "RuntimeError('not today')"}


def test_the_preview_of_the_command_line_warns_on_standard_error_alone() -> None:
    shown = CliRunner().invoke(main, ["next", TWO_READINGS["cron"], "--after", "2026-03-01T00:00:00Z", "--json"])
    assert json.loads(shown.stdout)[0]["scheduled_at"] == "2026-03-01T03:41:00Z"
    assert "warning: second_reader: " in shown.stderr
    assert "2026-03-01T03:00" in shown.stderr
