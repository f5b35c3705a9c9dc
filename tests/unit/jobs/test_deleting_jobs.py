"""Deleting a job says what of it goes on, and ends that too when it is told to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import complete, create_job, move, ready, start, windows
from tests.unit.jobs.test_changing_jobs import JOB, runs
from tickwork.core.errors import Throttled
from tickwork.flows.runs import unended
from tickwork.ports import Ports

NONE = {"queued": 0, "running": 0, "waiting": 0, "more": False}


def busy_job(api: ApiUnderTest, ports: Ports) -> list[dict[str, Any]]:
    """A job of every ten seconds with a run that waits for a retry, one that runs, one that is queued and one that has
    succeeded."""
    create_job(api, retry_policy={"base_s": 600, "cap_s": 600})
    for _ in range(4):
        move(ports, 10)
        windows(ports)
    messages = ready(ports)
    granted = [start(api, message, f"claim-{n:04d}") for n, message in enumerate(messages[:3])]
    complete(api, messages[0]["ref"], granted[0]["token"], "failed", "boom")
    complete(api, messages[2]["ref"], granted[2]["token"])
    return messages


def delete(api: ApiUnderTest, **query: str) -> dict[str, Any]:
    status, answer = api.call("DELETE", JOB, **query)
    assert status == 200, answer
    return answer


def test_the_answer_says_what_goes_on(api: ApiUnderTest, ports: Ports) -> None:
    busy_job(api, ports)
    going_on = NONE | {"queued": 1, "running": 1, "waiting": 1}
    first = delete(api)
    assert (first["changed"], first["runs"]) == (True, going_on)
    assert delete(api) == first | {"changed": False}


def test_a_job_that_never_ran_leaves_nothing(api: ApiUnderTest) -> None:
    create_job(api)
    assert delete(api)["runs"] == NONE
    assert delete(api, cancel_runs="true")["cancelled_runs"] == {"cancelled": 0, "told_to_stop": 0, "left": 0}


def test_cancelling_ends_what_waits_and_tells_what_runs(api: ApiUnderTest, ports: Ports) -> None:
    messages = busy_job(api, ports)
    answer = delete(api, cancel_runs="true")
    assert answer["cancelled_runs"] == {"cancelled": 2, "told_to_stop": 1, "left": 0}
    assert sorted(status for _, status, _ in runs(api)) == [
        "cancelled",
        "cancelled",
        "cancelled",
        "running",
        "succeeded",
    ]
    beat = {"runs": [{"ref": messages[1]["ref"], "token": 1}]}
    assert api.call("POST", "/runs:heartbeat", beat)[1]["runs"][0]["cancel"]
    move(ports, 700)
    windows(ports)
    assert ready(ports) == messages, "no retry is sent"
    assert delete(api, cancel_runs="true")["runs"] == NONE | {"running": 1}, "again is a no-op"


def test_it_is_not_too_late_to_cancel_them_after_the_deletion(api: ApiUnderTest, ports: Ports) -> None:
    busy_job(api, ports)
    delete(api)
    assert delete(api, cancel_runs="true")["cancelled_runs"]["cancelled"] == 2


def test_a_call_that_is_interrupted_goes_on_when_it_is_repeated(
    api: ApiUnderTest, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_job(api, ports)
    cancel, calls = unended.cancelling.cancel_run, []

    def busy(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise Throttled
        return cancel(*arguments)

    monkeypatch.setattr(unended.cancelling, "cancel_run", busy)
    assert api.call("DELETE", JOB, cancel_runs="true")[0] == 503
    answer = delete(api, cancel_runs="true")
    assert answer["cancelled_runs"]["left"] == 0
    assert delete(api)["runs"] == NONE | {"running": 1}


def test_what_somebody_makes_anew_meanwhile_is_not_cancelled_with_it(
    api: ApiUnderTest, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the deletion and the look at its runs."""
    busy_job(api, ports)
    look = unended.unended_of

    def after_a_registration(*arguments: Any) -> Any:
        create_job(api)
        move(ports, 10)
        windows(ports)
        return look(*arguments)

    monkeypatch.setattr(unended, "unended_of", after_a_registration)
    answer = delete(api, cancel_runs="true")
    assert answer["runs"] == NONE | {"queued": 1, "running": 1, "waiting": 1}
    standing = api.call("GET", JOB)[1]
    assert (standing["status"], standing["next"]["scheduled_at"]) == ("active", "2026-10-30T00:01:00Z")
    assert ready(ports)[-1]["scheduled_at"] == "2026-10-30T00:00:50Z"
    assert [one[:2] for one in runs(api)[:2]] == [
        ("2026-10-30T00:01:00Z", "pending"),
        ("2026-10-30T00:00:50Z", "queued"),
    ]


def test_what_one_call_does_is_bounded_and_says_so(
    api: ApiUnderTest, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_job(api, ports)
    monkeypatch.setattr(unended, "CANCELLED_MAX", 2)
    assert delete(api, cancel_runs="true")["cancelled_runs"]["left"] == 1
    monkeypatch.setattr(unended, "PAGE", 1)
    monkeypatch.setattr(unended, "LOOKED_AT_MAX", 1)
    assert delete(api)["runs"]["more"]


def test_repeating_it_gets_past_those_that_were_told_to_stop(
    api: ApiUnderTest, ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_job(api)
    for _ in range(3):
        move(ports, 10)
        windows(ports)
    for number, message in enumerate(ready(ports)[:3]):
        assert start(api, message, f"claim-{number:04d}")["granted"]
    monkeypatch.setattr(unended, "CANCELLED_MAX", 1)
    told = [delete(api, cancel_runs="true")["cancelled_runs"] for _ in range(3)]
    assert [(one["told_to_stop"], one["left"]) for one in told] == [(1, 2), (2, 1), (3, 0)]


@pytest.mark.parametrize("value", ["yes", "1", "", "TRUE"])
def test_a_word_that_is_no_answer_is_refused(api: ApiUnderTest, value: str) -> None:
    create_job(api)
    status, problem = api.call("DELETE", JOB, cancel_runs=value)
    assert (status, problem["errors"][0]["field"]) == (422, "cancel_runs")
    assert api.call("GET", JOB)[1]["status"] == "active"
