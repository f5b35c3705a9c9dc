"""What an invocation says of itself, as it stands in the log: metrics once, labels beside them, nothing lost."""

from __future__ import annotations

import ast
import json
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tickwork.aws.signals import COUNTED_LINES_MAX, PowertoolsSignals

# As the module itself does, whose filter pytest takes away.
pytestmark = pytest.mark.filterwarnings("ignore:No application metrics")

THREADS, EACH = 8, 500
PACKAGE = Path(__file__).parents[3] / "functions" / "tickwork"

type Lines = list[dict[str, Any]]

_services = count(1)


def new_signals() -> PowertoolsSignals:
    """Of a service of its own: Powertools keeps a service's logger, and with it the output of an earlier test."""
    return PowertoolsSignals(f"service-{next(_services)}", "here")


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str]) -> Callable[..., Lines]:
    """Runs a body as an invocation, and gives what it wrote to the log, line by line."""

    def run(body: Callable[[PowertoolsSignals], object], signals: PowertoolsSignals | None = None) -> Lines:
        using = signals or new_signals()
        using.published(lambda event, context: body(using))({}, None)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


def metrics_of(lines: Lines) -> Lines:
    return [line for line in lines if "_aws" in line]


def labelled(lines: Lines) -> Lines:
    return [line for line in lines if line.get("action") == "metric"]


def test_measurements_of_many_threads_are_all_published(capsys: pytest.CaptureFixture[str]) -> None:
    signals = new_signals()

    def window(_: int) -> None:
        for _ in range(EACH):
            signals.observe("scheduler.fire_lag_seconds", 1.0)
            signals.count("runs.unhandled_total")
            signals.count("runs.duplicate_total", reason="held")

    def serve(event: object, context: object) -> None:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(window, range(THREADS)))

    signals.published(serve)({}, None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for metric in ("scheduler.fire_lag_seconds", "runs.unhandled_total"):
        assert sum(sum(one.get(metric, [])) for one in metrics_of(lines)) == THREADS * EACH
    assert [line["total"] for line in labelled(lines)] == [THREADS * EACH]


def test_counts_of_one_metric_under_several_labels_stand_side_by_side(invoke: Callable[..., Lines]) -> None:
    def body(signals: PowertoolsSignals) -> None:
        for error in ("Throttled", "Conflict", "Throttled"):
            signals.count("store.commit_retried_total", error=error)
        signals.count("runs.duplicate_total", 4, reason="held")

    lines = invoke(body)
    by_error = {line["error"]: line["total"] for line in labelled(lines) if "error" in line}
    assert by_error == {"Throttled": 2, "Conflict": 1}
    (held,) = (line for line in labelled(lines) if line.get("reason") == "held")
    assert (held["metric"], held["total"]) == ("runs.duplicate_total", 4)
    assert held["service"].startswith("service-")


def test_a_label_is_never_a_dimension_of_a_paid_metric(invoke: Callable[..., Lines]) -> None:
    lines = invoke(lambda signals: signals.count("runs.unhandled_total", team="payments"))
    (blob,) = metrics_of(lines)
    assert blob["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service"]]
    assert "payments" not in json.dumps(blob)


def test_what_no_alarm_listens_to_is_a_line_and_no_metric(invoke: Callable[..., Lines]) -> None:
    def body(signals: PowertoolsSignals) -> None:
        signals.count("runs.timed_out_total", 2)
        signals.count("runs.timed_out_total")

    lines = invoke(body)
    assert metrics_of(lines) == []
    assert [(line["metric"], line["total"], line["samples"]) for line in labelled(lines)] == [
        ("runs.timed_out_total", 3, 2)
    ]


def test_what_sets_off_a_shared_alarm_is_its_metric_and_a_line_that_says_which(invoke: Callable[..., Lines]) -> None:
    lines = invoke(lambda signals: signals.count("scheduler.unsent_total", 4))
    (blob,) = metrics_of(lines)
    assert (blob["service"], blob["service.strain_total"]) == ("all", [4])
    assert [(line["metric"], line["total"]) for line in labelled(lines)] == [("scheduler.unsent_total", 4)]


def test_an_invocation_in_which_all_goes_well_counts_its_lag_and_writes_no_line(invoke: Callable[..., Lines]) -> None:
    def body(signals: PowertoolsSignals) -> None:
        signals.observe("scheduler.fire_lag_seconds", 0.4)
        for outcome in ("served", "already"):
            signals.count("scheduler.windows_total", outcome=outcome)
        signals.observe("scheduler.definitions_without_next_timer", 0)

    lines = invoke(body)
    assert metrics_of(lines) == lines
    assert [sum(blob["scheduler.fire_lag_seconds"]) for blob in lines] == [0.4]


def test_a_window_that_did_not_go_well_is_counted_by_how_it_ended(invoke: Callable[..., Lines]) -> None:
    lines = invoke(lambda signals: signals.count("scheduler.windows_total", outcome="out_of_time"))
    assert [(line["outcome"], line["total"]) for line in labelled(lines)] == [("out_of_time", 1)]


def test_a_labelled_measurement_tells_how_many_how_much_and_the_worst(invoke: Callable[..., Lines]) -> None:
    def body(signals: PowertoolsSignals) -> None:
        for lag_s in (1.5, 4.0, 0.5):
            signals.observe("scheduler.fire_lag_seconds", lag_s, slice="main#0001")

    (line,) = labelled(invoke(body))
    assert (line["samples"], line["total"], line["largest"]) == (3, 6.0, 4.0)


def test_a_metric_without_a_label_writes_no_line_beside_it(invoke: Callable[..., Lines]) -> None:
    lines = invoke(lambda signals: signals.count("runs.unhandled_total"))
    assert metrics_of(lines) == lines


def test_a_herd_of_labels_writes_a_bounded_number_of_lines_and_says_what_is_left_out(
    invoke: Callable[..., Lines],
) -> None:
    def body(signals: PowertoolsSignals) -> None:
        for _ in range(2):
            for team in range(COUNTED_LINES_MAX + 7):
                signals.count("runs.dead_lettered_total", team=f"team-{team}")

    lines = invoke(body)
    assert len(labelled(lines)) == COUNTED_LINES_MAX
    assert {line["total"] for line in labelled(lines)} == {2}
    (left_out,) = (line for line in lines if line.get("action") == "metric_labels_left_out")
    assert left_out["samples"] == 14


def test_the_next_invocation_of_a_process_starts_from_nothing(invoke: Callable[..., Lines]) -> None:
    signals = new_signals()
    for _ in range(2):
        lines = invoke(lambda one: one.count("runs.duplicate_total", reason="held"), signals)
        assert [line["total"] for line in labelled(lines)] == [1]


def test_an_invocation_that_fails_has_told_its_labels(capsys: pytest.CaptureFixture[str]) -> None:
    signals = new_signals()

    def fail(event: object, context: object) -> None:
        signals.count("store.commit_retried_total", error="Throttled")
        raise RuntimeError("the store is away")

    with pytest.raises(RuntimeError, match="the store is away"):
        signals.published(fail)({}, None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["error"] for line in labelled(lines)] == ["Throttled"]


def test_no_label_in_the_code_has_the_name_of_a_field_of_its_line() -> None:
    record = logging.LogRecord("", 0, "", 0, "", (), None).__dict__
    taken = {*record, "message", "asctime", "service", "timestamp", "location", "action", "metric"}
    taken |= {"total", "samples", "largest"}
    labels = Counter(
        keyword.arg
        for path in PACKAGE.rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("count", "observe")
        for keyword in call.keywords
    )
    assert {"error", "reason", "outcome", "team", "slice"} <= labels.keys()
    assert not taken & labels.keys()


def test_every_function_publishes_its_labels() -> None:
    handlers = list(PACKAGE.parent.glob("*/handler.py"))
    assert len(handlers) >= 5
    assert not [path for path in handlers if "@_signals.published" not in path.read_text()]
