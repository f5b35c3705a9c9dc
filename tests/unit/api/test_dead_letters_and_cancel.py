"""Dead letters, replays and cancelled runs over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tickwork.core.instants import parse_iso
from tickwork.core.ledger.tables import TIMERS
from tickwork.ports import Ports

TEAM = "payments"


def timer(api: ApiUnderTest, **more: Any) -> dict[str, Any]:
    body = {"team": TEAM, "delay_s": 0, "target": {"pool": "payments", "handler": "refund"}, **more}
    return post(api, "/timers", body)


def post(api: ApiUnderTest, path: str, body: object) -> Any:
    return api.call("POST", path, body)[1]


def dead_letters(api: ApiUnderTest, team: str = TEAM) -> list[dict[str, Any]]:
    return api.call("GET", "/dead-letters", team=team)[1]["runs"]


def shown(api: ApiUnderTest, run: dict[str, Any]) -> dict[str, Any]:
    return api.call("GET", f"/timers/{run['timer_id']}")[1]


def start(api: ApiUnderTest, ref: str) -> dict[str, Any]:
    return post(api, "/runs:start", {"worker": "w1", "runs": [{"ref": ref, "claim": "claim-1-of-1"}]})["runs"][0]


def complete(api: ApiUnderTest, ref: str, token: int, outcome: str, **more: Any) -> dict[str, Any]:
    entry = {"ref": ref, "token": token, "outcome": outcome, **more}
    return post(api, "/runs:complete", {"runs": [entry]})["runs"][0]


def dead(api: ApiUnderTest) -> dict[str, Any]:
    run = timer(api)
    answer = complete(api, run["ref"], start(api, run["ref"])["token"], "failed_permanent", error="no such account")
    assert answer["status"] == "dead"
    return run


def test_a_dead_letter_shows_its_cause_and_history(api: ApiUnderTest) -> None:
    run = dead(api)
    (found,) = dead_letters(api)
    assert found["run_id"] == run["run_id"]
    assert found["cause"] == {"reason": "failed for good", "error": "no such account", "error_class": None}
    assert [attempt["outcome"] for attempt in found["attempts"]] == ["failed"]


def test_another_team_sees_none_and_replays_none(api: ApiUnderTest) -> None:
    run = dead(api)
    assert dead_letters(api, "other") == []
    body = {"team": "other", "runs": [run["ref"]], "by": "eve", "reason": "why not"}
    assert api.call("POST", "/dead-letters:replay", body)[0] == 422


def test_a_replay_by_filter_is_counted_first_and_then_on_record(api: ApiUnderTest) -> None:
    run = dead(api)
    body = {"team": TEAM, "filter": {"error_contains": "account"}, "by": "ann", "reason": "account is back"}
    counted = post(api, "/dead-letters:replay", body | {"dry_run": True})
    assert (counted["matched"], counted["cursor"]) == (1, None)
    assert shown(api, run)["status"] == "dead"
    answer = post(api, "/dead-letters:replay", body)
    assert (answer["matched"], answer["replayed"]) == (1, 1)
    after = shown(api, run)
    assert after["status"] == "waiting"
    assert after["replays"][0]["by"] == "local (ann)"
    assert after["replays"][0]["died_of"] == "failed for good"


def test_a_replay_needs_a_reason_and_one_way_of_choosing(api: ApiUnderTest) -> None:
    for wrong in ({}, {"filter": {}, "runs": ["x"]}, {"filter": {"nosuch": "x"}}):
        body = {"team": TEAM, "by": "ann", "reason": "r", **wrong}
        assert api.call("POST", "/dead-letters:replay", body)[0] == 422
    assert api.call("POST", "/dead-letters:replay", {"team": TEAM, "filter": {}, "by": "ann"})[0] == 422


def test_a_forged_cursor_is_refused(api: ApiUnderTest) -> None:
    for cursor in ("Zm9v", "IltbMV1dIg", "Ilt7fV0i", "ImFiYyI"):
        assert api.call("GET", "/dead-letters", team=TEAM, cursor=cursor)[0] == 422


def test_a_run_in_flight_is_cancelled_by_way_of_its_heartbeat(api: ApiUnderTest) -> None:
    run = timer(api)
    token = start(api, run["ref"])["token"]
    (answer,) = post(api, "/runs:cancel", {"runs": [{"job_id": run["timer_id"]}], "reason": "sold"})["runs"]
    assert (answer["accepted"], answer["status"], answer["cancel_requested"]) == (True, "running", True)
    (beat,) = post(api, "/runs:heartbeat", {"runs": [{"ref": run["ref"], "token": token}]})["runs"]
    assert (beat["accepted"], beat["cancel"]) == (True, True)
    assert complete(api, run["ref"], token, "cancelled")["status"] == "cancelled"
    assert shown(api, run)["reason"] == "sold"


def test_one_run_that_can_not_be_cancelled_leaves_the_others_cancelled(api: ApiUnderTest) -> None:
    first, second = timer(api, delay_s=60), dead(api)
    body = {"runs": [{"ref": first["ref"]}, {"ref": second["ref"]}, {"job_id": f"{TEAM}:nightly"}], "reason": "r"}
    answers = post(api, "/runs:cancel", body)["runs"]
    assert [answer["accepted"] for answer in answers] == [True, False, False]
    assert [answer.get("problem") for answer in answers] == [None, "too-late", "not-found"]


def test_an_attempt_s_error_class_and_retry_after_decide_about_its_retry(api: ApiUnderTest) -> None:
    run = timer(api, retry_policy={"no_retry_on": ["Gone"], "jitter_percent": 0})
    token = start(api, run["ref"])["token"]
    answer = complete(api, run["ref"], token, "failed", error_class="Timeout", retry_after_s=7_200)
    assert answer["status"] == "waiting"
    other = timer(api, retry_policy={"no_retry_on": ["Gone"]})
    token = start(api, other["ref"])["token"]
    assert complete(api, other["ref"], token, "failed", error_class="shop.Gone")["status"] == "dead"


def test_an_unsafe_job_needs_its_sign_off_and_side_effects_need_a_key(api: ApiUnderTest) -> None:
    body = {"team": TEAM, "name": "fax", "schedule": {"rate": "1h"}, "target": {"pool": "payments"}}
    signed = {"idempotency_class": "unsafe", "unsafe_sign_off": {"who": "ann", "why": "a fax cannot be taken back"}}
    for wrong in (
        {"idempotency_class": "unsafe"},
        {"unsafe_sign_off": signed["unsafe_sign_off"]},
        signed | {"side_effects": ["email"]},
        {"idempotency_class": "natural", "side_effects": ["payment"]},
    ):
        assert api.call("POST", "/jobs", body | wrong)[0] == 422
    status, job = api.call("POST", "/jobs", body | signed)
    assert (status, job["unsafe_sign_off"]) == (201, signed["unsafe_sign_off"])
    again, _ = api.call("POST", "/jobs", body | signed)
    assert again == 200


@pytest.mark.parametrize("tolerances", [(0, 3_000), (3_000, 0)])
def test_cancelling_by_time_finds_the_run_that_counts_of_a_job_made_anew(
    api: ApiUnderTest, ports: Ports, tolerances: tuple[int, int]
) -> None:
    """cancelled-stays: the deleted job's own occurrence is cancelled already; to be told that of it is no answer."""
    body = {"team": "payments", "name": "n", "target": {"pool": "payments"}}
    for tolerance_s in tolerances:
        api.call("DELETE", "/jobs/payments:n")
        schedule = {"rate": "1 hour", "anchor": "2026-01-01T00:00:00Z"}
        _, made = api.call("POST", "/jobs", body | {"schedule": schedule, "tolerance_s": tolerance_s})
    named = {"job_id": "payments:n", "scheduled_at": made["next"]["scheduled_at"]}

    assert api.call("POST", "/runs:cancel", {"runs": [named]})[1]["runs"][0]["accepted"]
    pending = [item for item in ports.store.scan(TIMERS, limit=20, after=None)[0] if item["status"] == "pending"]
    assert [item["scheduled_at_ms"] > parse_iso(named["scheduled_at"]) for item in pending] == [True]
