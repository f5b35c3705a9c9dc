"""croniter reads again what a person registers: it may warn, and it may fail, and neither changes an answer."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import datetime, timedelta
from typing import Any

import croniter
import pytest
from schedule_oracle import random_expression
from tests.support.fakes import KeptSignals, fake_ports

from tickwork.core.instants import parse_iso
from tickwork.core.schedule import parse_schedule
from tickwork.core.schedule.shown.second_reader import LENGTH_MAX, READ_MAX, YEARS_MAX, Reading, plain_cron, read_again
from tickwork.flows.jobs.second_reading import second_reading

NOW_MS = parse_iso("2026-03-01T00:00:00Z")


def reading(cron: str, now_ms: int = NOW_MS, **spec: Any) -> Reading:
    written = {"cron": cron, **spec}
    return read_again(written, parse_schedule(written, now_ms=now_ms), now_ms)


class Reader:
    """In croniter's place: keeps what it was asked. It fails, or is so much later in the last of its occurrences."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, late: timedelta = timedelta(0), raises: Exception | None = None
    ) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.read = 0
        self._late = late
        self._raises = raises
        self._real = croniter.croniter
        monkeypatch.setattr(croniter, "croniter", self._begin)

    def _begin(self, text: str, start: datetime, **options: Any) -> Reader:
        self.asked.append((text, options))
        if self._raises is not None:
            raise self._raises
        self._inner = self._real(text, start, **options)
        return self

    def get_next(self, kind: type) -> Any:
        self.read += 1
        return self._inner.get_next(kind) + (self._late if self.read == READ_MAX else timedelta(0))


def test_both_readers_agree_on_plain_expressions() -> None:
    rng = random.Random(5)
    for _ in range(300):
        now_ms = NOW_MS + rng.randrange(10**6) * 60_000
        assert reading(text := random_expression(rng), now_ms) == Reading(), text


@pytest.mark.parametrize("zone", ["America/New_York", "Australia/Lord_Howe", "Pacific/Chatham"])
def test_a_change_of_clocks_is_no_difference(zone: str) -> None:
    rng = random.Random(zone)
    for day in range(365):
        assert reading(random_expression(rng), NOW_MS + day * 86_400_000, zone=zone) == Reading()


@pytest.mark.parametrize("cron", ["0 0 */2 * 1", "0 0 13 * 5", "0 0 1-7 * */2", "30 2 ? * mon", "0 0 29 2 */7"])
def test_the_rule_of_the_two_day_fields_is_no_difference(cron: str) -> None:
    assert reading(cron) == Reading()


def test_bounds_and_calendars_are_no_difference() -> None:
    assert reading("0 2 * * *", start="2026-05-01T00:00:00Z", end="2026-05-03T00:00:00Z") == Reading()
    assert reading("0 2 * * *", calendars={"exclude": ["de"]}) == Reading()


def test_what_the_documented_rules_do_not_explain_is_a_warning() -> None:
    """A range from a value to itself: one value here, the whole range there."""
    found = reading("41-41 3 * * *")
    assert found.warning.startswith("second_reader: ")
    assert "2026-03-01T03:41" in found.warning
    assert "2026-03-01T03:00" in found.warning
    assert not found.failure


def test_a_difference_in_the_last_compared_occurrence_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch, late=timedelta(minutes=1))
    warning = reading("0 2 * * *").warning
    assert "2026-03-05T02:00" in warning
    assert "2026-03-05T02:01" in warning
    assert reader.read == READ_MAX


@pytest.mark.parametrize("error", [ValueError("no"), croniter.CroniterBadDateError("none"), RecursionError()])
def test_a_failure_of_the_second_reader_is_a_reason_and_no_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    Reader(monkeypatch, raises=error)
    found = reading("0 2 * * *")
    assert (found.warning, found.failure) == ("", repr(error))


def test_without_croniter_a_job_is_registered_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "croniter", None)
    found = reading("0 2 * * *")
    assert not found.warning
    assert "croniter" in found.failure


@pytest.mark.parametrize(
    "spec",
    [
        {"cron": "0 2 * * *", "seconds": True},
        {"cron": "0 0 2 * * ?", "dialect": "quartz"},
        {"cron": "0 0 L * *", "dialect": "extended"},
        {"cron": "H 2 * * *"},
        {"cron": "@daily"},
        {"cron": "0 2 *,5 * *"},
        {"cron": "0 2 * * *  x"},
        {"cron": ",".join(["1"] * LENGTH_MAX) + " 2 * * *"},
        {"cron": 5},
        {"rate": "5 minutes"},
        {},
    ],
)
def test_only_a_plain_expression_of_five_fields_is_read_again(spec: dict[str, Any]) -> None:
    assert plain_cron(spec) is None


def test_its_search_is_bounded_in_years_and_in_occurrences(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(monkeypatch)
    assert reading("0 0 29 2 *") == Reading()
    assert reading("0 0 29 2 */7") == Reading(), "a Sunday in 2032, and the next one is 28 years off"
    assert [options["max_years_between_matches"] for _, options in reader.asked] == [YEARS_MAX + 1] * 2
    assert reader.read == READ_MAX + 1
    far = parse_iso("2033-01-01T00:00:00Z")
    assert reading("0 0 29 2 */7", far) == Reading()
    assert len(reader.asked) == 2, "nothing within reach: it is not asked at all"


def test_a_difference_is_counted_and_logged_and_a_failure_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = fake_ports()
    assert isinstance(ports.signals, KeptSignals)
    spec = {"cron": "41-41 3 * * *"}
    schedule = parse_schedule(spec, now_ms=ports.clock.now_ms())
    assert len(second_reading(ports, spec, schedule)) == 1
    assert ports.signals.counts["schedules.second_reader_differed_total"] == 1
    Reader(monkeypatch, raises=ValueError("no"))
    assert second_reading(ports, spec, schedule) == ()
    assert [action for action, _ in ports.signals.lines] == ["second_reader_differed", "second_reader_failed"]
    assert ports.signals.counts.total() == 1


def test_no_function_and_no_command_loads_croniter_before_it_reads_with_it() -> None:
    code = (
        "import sys, tickwork.api.app, tickwork.cli.main, tickwork.flows.dispatch.windows, tickwork.aws.ticks; "
        "print('croniter' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
