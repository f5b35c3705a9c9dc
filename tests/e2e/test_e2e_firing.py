"""The promise, on the deployed stack: what is due is dispatched, none early, none lost, soon, and recorded."""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter
from statistics import quantiles
from typing import Any

import pytest
from localstack.deployment import FUNCTIONS, Credentials, Deployment

from tests.e2e.caller import Caller
from tests.e2e.scenario import CANCELLED_COUNT, JOBS, PERIODS_S, TEAM, TIMERS_COUNT, Outcome, play
from tickwork.core.instants import SECOND_MS, parse_iso

LAG_P99_MAX_S = 30.0 if os.environ.get("CI") else 2.5
"""What one-second windows should keep. A CI machine of two noisy cores shows only that nothing waits for a second
trigger of the ticker; the figures of a quiet one are in benchmarks/e2e.md."""


@pytest.fixture(scope="module")
def outcome(
    deployment: Deployment, client_role: Credentials, worker_role: Credentials, pytestconfig: pytest.Config
) -> Outcome:
    played = play(deployment, Caller(deployment.api_url, client_role), worker_role)
    figures = figures_of(played, deployment)
    (deployment.work / "figures.json").write_text(json.dumps(figures, indent=2), encoding="utf-8")
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled():
        print(f"\n{shown(figures)}", flush=True)
    return played


def test_no_timer_fires_early(outcome: Outcome) -> None:
    dispatched = [run for run in outcome.runs if run["dispatched_at"]]
    assert [run for run in dispatched if parse_iso(run["dispatched_at"]) < parse_iso(run["fire_at"])] == []
    assert [one for one in outcome.receipts if one["called_at_ms"] < one["fire_at_ms"]] == []


def test_no_timer_is_lost(outcome: Outcome) -> None:
    ended = {job_id: [run["status"] for run in outcome.run_of(job_id)] for job_id in outcome.timers}
    assert {job_id: found for job_id, found in ended.items() if found != ["succeeded"]} == {}
    called = Counter(one["job_id"] for one in outcome.receipts)
    assert {job_id: called[job_id] for job_id in outcome.timers if called[job_id] != 1} == {}


def test_a_cancelled_timer_is_never_dispatched(outcome: Outcome) -> None:
    assert len(outcome.cancelled) == CANCELLED_COUNT
    called = {one["job_id"] for one in outcome.receipts}
    for job_id in outcome.cancelled:
        (run,) = outcome.run_of(job_id)
        assert (run["status"], run["dispatched_at"], run["attempt"]) == ("cancelled", None, 0)
        assert job_id not in called


def test_every_occurrence_has_one_record(outcome: Outcome) -> None:
    keys = [key for key in outcome.ledger if not key.kind]
    items = Counter((key.job_id, key.scheduled_at_ms) for key in keys)
    assert {occurrence: n for occurrence, n in items.items() if n != 1} == {}
    assert len([key for key in keys if "~" in key.name]) == TIMERS_COUNT + CANCELLED_COUNT
    listed = Counter(run["run_id"] for run in outcome.runs)
    assert {run_id: n for run_id, n in listed.items() if n != 1} == {}


@pytest.mark.parametrize("job", [job["name"] for job in JOBS])
def test_a_recurring_job_misses_no_occurrence(outcome: Outcome, job: str) -> None:
    done = sorted(
        parse_iso(run["scheduled_at"]) for run in outcome.run_of(f"{TEAM}:{job}") if run["status"] == "succeeded"
    )
    gaps = [later - sooner for sooner, later in itertools.pairwise(done)]
    period_ms = PERIODS_S[job] * SECOND_MS
    assert set(gaps) == {period_ms}
    assert len(done) >= 120 // PERIODS_S[job]


def test_the_lag_is_bounded(outcome: Outcome) -> None:
    assert percentile(lags(outcome, "lag_s"), 99) < LAG_P99_MAX_S


def test_no_message_is_left_over(outcome: Outcome) -> None:
    assert set(outcome.messages_left.values()) == {0}


def test_the_worker_ended_cleanly_when_it_was_asked_to(outcome: Outcome) -> None:
    assert outcome.worker_exit == 0


@pytest.mark.usefixtures("outcome")
def test_the_reconciler_finds_nothing_to_repair(deployment: Deployment) -> None:
    answer = deployment.client("lambda").invoke(FunctionName=f"{deployment.settings.prefix}-reconciler", Payload=b"{}")
    repairs = json.loads(answer["Payload"].read())
    assert "FunctionError" not in answer, repairs
    assert repairs["jobs_checked"] >= len(JOBS)
    assert (repairs["without_next"], repairs["overdue"], repairs["resent"]) == (0, 0, 0)


@pytest.mark.usefixtures("outcome")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_function_logged_an_error(deployment: Deployment, function: str) -> None:
    pages = deployment.client("logs").get_paginator("filter_log_events")
    messages = [
        event["message"]
        for page in pages.paginate(logGroupName=f"/aws/lambda/{deployment.settings.prefix}-{function}")
        for event in page["events"]
    ]
    bad = ("AccessDenied", "Traceback", '"level":"ERROR"', "window_failed", "messages_unsent", "Task timed out")
    assert [message for message in messages if any(word in message for word in bad)] == []


# --- figures ----------------------------------------------------------------------------------------------------


def lags(outcome: Outcome, which: str) -> list[float]:
    return [run[which] for run in outcome.runs if run[which] is not None]


def percentile(values: list[float], percent: int) -> float:
    return round(quantiles(values, n=100, method="inclusive")[percent - 1], 3)


def figures_of(outcome: Outcome, deployment: Deployment) -> dict[str, Any]:
    by_status = Counter(run["status"] for run in outcome.runs)
    called = [(one["called_at_ms"] - one["fire_at_ms"]) / SECOND_MS for one in outcome.receipts]
    measured = {
        "dispatched": lags(outcome, "lag_s"),
        "started": lags(outcome, "start_lag_s"),
        "job function called": called,
    }
    return {
        "seed": outcome.seed,
        "cdk, s": deployment.took_s,
        "scenario, s": outcome.took_s,
        "timers created": len(outcome.timers) + len(outcome.cancelled),
        "timers cancelled": len(outcome.cancelled),
        "runs": len(outcome.runs),
        "of recurring jobs": len(outcome.runs_of_jobs()),
        "by status": dict(by_status),
        "calls of the job function": len(outcome.receipts),
        "more than one attempt": sum(1 for run in outcome.runs if run["attempt"] > 1),
        "messages left": outcome.messages_left,
        "seconds behind the fire time": {
            name: {
                "n": len(values),
                "p50": percentile(values, 50),
                "p99": percentile(values, 99),
                "max": round(max(values), 3),
            }
            for name, values in measured.items()
        },
    }


def shown(figures: dict[str, Any]) -> str:
    return "\n".join(f"  {name}: {json.dumps(value)}" for name, value in figures.items())
