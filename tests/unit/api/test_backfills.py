"""Backfills over HTTP and the command line: counted, made, shown, stopped."""

from __future__ import annotations

from typing import Any

from tests.support.http import ApiUnderTest
from tests.unit.access.test_matrix import OWN, Stage, api_for
from tests.unit.api.test_jobs_and_timers import complete, create_job, ready, start, windows
from tickwork.core.ledger.tables import AUDIT
from tickwork.flows.runs import backfill_making
from tickwork.ports import Ports

PATH = "/jobs/payments:rates/backfills"
PAST = {"since": "2026-10-29T00:00:00Z", "until": "2026-10-29T00:05:00Z", "reason": "a wrong rate"}


def job(api: ApiUnderTest) -> None:
    create_job(api, schedule={"cron": "* * * * *"}, tolerance_s=0, exact_reason="tested", payload={"n": 1})


def asked(api: ApiUnderTest, **more: Any) -> tuple[int, dict[str, Any]]:
    return api.call("POST", PATH, PAST | more)


def test_it_is_counted_made_and_shown_until_it_has_finished(api: ApiUnderTest, ports: Ports) -> None:
    job(api)
    status, counted = asked(api, dry_run=True)
    assert (status, counted["matched"], counted["dry_run"]) == (200, 5, True)
    assert counted["occurrences"] == {"none": 5, "failed": 0, "succeeded": 0, "live": 0}
    assert (counted["first"], counted["last"]) == (PAST["since"], "2026-10-29T00:04:00Z")
    assert counted["cost"]["write_units"] == 45
    status, made = asked(api, token=counted["token"], by="ann")
    assert (status, made["created"], made["launched"], made["left"]) == (201, True, 1, 4)
    for number in range(1, 6):
        windows(ports)
        (message,) = [one for one in ready(ports)[-1:] if one.get("kind") == "backfill"]
        assert complete(api, message["ref"], start(api, message, f"claim-{number:04d}")["token"])["accepted"]
    status, shown = api.call("GET", f"/backfills/{made['backfill_id']}")
    assert (status, shown["status"], shown["ended"], shown["running"]) == (200, "finished", {"succeeded": 5}, 0)
    assert (shown["by"], shown["reason"]) == ("local (ann)", "a wrong rate")
    _, page = api.call("GET", "/jobs/payments:rates/runs")
    redone = [run for run in page["runs"] if run.get("kind") == "backfill"]
    assert len(redone) == 5
    assert {run["asked_for"]["reason"] for run in redone} == {"a wrong rate"}
    _, one = api.call("GET", f"/runs/{redone[0]['occurrence']}")
    assert one["run_id"] == redone[0]["run_id"]
    assert api.call("GET", PATH)[1]["backfills"] == [shown]
    assert asked(api, dry_run=True)[1]["occurrences"]["succeeded"] == 5


def test_the_same_request_in_other_words_is_answered_with_the_first(api: ApiUnderTest) -> None:
    job(api)
    _, first = asked(api, client_key="k1")
    status, again = asked(api, client_key="k1", since="2026-10-29T01:00:00+01:00", dry_run=False, by="bob")
    assert (status, again["created"], again["backfill_id"]) == (200, False, first["backfill_id"])
    status, problem = asked(api, client_key="k1", concurrency=2)
    assert (status, problem["type"]) == (409, "urn:tickwork:problem:already-exists")


def test_a_large_one_without_its_token_is_refused(api: ApiUnderTest, monkeypatch: Any) -> None:
    monkeypatch.setattr(backfill_making, "TOKEN_ABOVE", 4)
    job(api)
    status, problem = asked(api)
    assert (status, problem["errors"][0]["field"]) == (422, "token")
    status, problem = asked(api, token="5-0000000000000000")
    assert (status, problem["type"]) == (412, "urn:tickwork:problem:version-conflict")
    assert asked(api, token=asked(api, dry_run=True)[1]["token"])[0] == 201


def test_it_is_paused_resumed_and_cancelled_and_cancelling_asks_what_becomes_of_the_started(api: ApiUnderTest) -> None:
    job(api)
    at = f"/backfills/{asked(api)[1]['backfill_id']}"
    status, paused = api.call("POST", f"{at}/pause", {"reason": "too much"})
    assert (status, paused["status"], paused["stopped"]) == (200, "paused", {"by": "local", "reason": "too much"})
    assert api.call("POST", f"{at}/resume", {})[1]["status"] == "running"
    assert api.call("POST", f"{at}/cancel", {"reason": "a mistake"})[0] == 422
    status, cancelled = api.call("POST", f"{at}/cancel", {"reason": "a mistake", "runs": "leave"})
    assert (status, cancelled["status"], cancelled["ended"], cancelled["left"]) == (
        200,
        "cancelled",
        {"cancelled": 1},
        4,
    )
    assert api.call("POST", f"{at}/resume", {})[0] == 409


def test_what_is_none_is_told_so(api: ApiUnderTest) -> None:
    job(api)
    for text, expected in (("payments:rates~123", 422), ("payments:rates~0123456789abcdef", 404), ("payments", 422)):
        assert api.call("GET", f"/backfills/{text}")[0] == expected
    assert asked(api, until="2027-01-01T00:00:00Z")[0] == 422
    assert asked(api, since="yesterday")[0] == 422
    assert asked(api, concurrency=0)[0] == 422
    assert api.call("POST", "/jobs/payments:none/backfills", PAST)[0] == 404


def test_the_audit_says_who_made_and_stopped_it(monkeypatch: Any) -> None:
    stage = Stage()
    operator = api_for(stage, "key", "operator")
    past = PAST | {"since": "2026-10-20T00:00:00Z", "until": "2026-10-23T00:00:00Z"}
    status, made = operator.call("POST", f"/jobs/{OWN}:nightly/backfills", past)
    assert status == 201
    operator.call("POST", f"/backfills/{made['backfill_id']}/cancel", {"reason": "a mistake", "runs": "cancel"})
    items, _ = stage.ports.store.scan(AUDIT, limit=10_000, after=None)
    found = {item["action"]: item for item in items if str(item.get("action")).startswith("backfills.")}
    assert found.keys() == {"backfills.created", "backfills.cancelled"}
    assert found["backfills.created"]["facts"]["job_id"] == f"{OWN}:nightly"
    assert {item["role"] for item in found.values()} == {"operator"}
