"""Running a job by hand over HTTP: who may, what is answered, and what the record says of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.access.test_matrix import OWN, Stage, api_for
from tests.unit.api.test_jobs_and_timers import complete, create_job, move, ready, start, windows
from tickwork.core.ledger.tables import AUDIT
from tickwork.ports import Ports

PATH = "/jobs/payments:rates/run"
LATE = {"reason": "the file came late"}


def ran(api: ApiUnderTest, **body: Any) -> tuple[int, dict[str, Any]]:
    return api.call("POST", PATH, LATE | body)


def test_it_is_made_sent_and_shown_with_who_asked_for_it_and_why(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, payload={"day": 1})
    status, run = ran(api, by="ann")
    assert (status, run["created"], run["kind"]) == (201, True, "manual")
    assert run["asked_for"] == {"by": "local (ann)", "reason": "the file came late"}
    assert run["occurrence"].startswith("payments:rates@")
    windows(ports)
    (message,) = ready(ports)
    assert (message["run_id"], message["payload"]) == (run["run_id"], {"day": 1})
    token = start(api, message)["token"]
    assert complete(api, message["ref"], token)["status"] == "succeeded"
    for path, query in ((f"/runs/{run['occurrence']}", {}), (f"/runs/{run['run_id']}", {"job_id": "payments:rates"})):
        status, shown = api.call("GET", path, **query)
        assert (status, shown["status"], shown["asked_for"]) == (200, "succeeded", run["asked_for"])
    _, page = api.call("GET", "/jobs/payments:rates/runs")
    assert [one.get("kind") for one in page["runs"]].count("manual") == 1
    _, job = api.call("GET", "/jobs/payments:rates")
    assert job["last"] is None


def test_a_run_without_a_reason_is_refused(api: ApiUnderTest) -> None:
    create_job(api)
    assert api.call("POST", PATH, {})[0] == 422
    assert api.call("POST", PATH, {"reason": ""})[0] == 422


def test_the_same_request_is_answered_with_the_first_run_and_another_one_is_refused(
    api: ApiUnderTest, ports: Ports
) -> None:
    create_job(api)
    _, first = ran(api, client_key="late-17", payload={"a": 1, "b": 2})
    move(ports, 60)
    status, again = ran(api, client_key="late-17", payload={"b": 2, "a": 1})
    assert (status, again["run_id"], again["created"]) == (200, first["run_id"], False)
    for other in ({"payload": {"a": 2}}, {"payload": None}, {}, {"payload": {"a": 1, "b": 2}, "overlap": "allow"}):
        status, problem = ran(api, client_key="late-17", **other)
        assert (status, problem["type"]) == (409, "urn:tickwork:problem:already-exists"), other


def test_a_payload_that_is_null_is_one_and_one_that_is_left_out_is_the_jobs(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, payload={"day": 1})
    ran(api, payload=None)
    ran(api)
    windows(ports)
    assert sorted(repr(message.get("payload")) for message in ready(ports)) == ["None", "{'day': 1}"]


def test_what_is_hidden_in_the_jobs_payload_is_meant_by_its_mask(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, payload={"day": 1, "pin": "0000"}, secret_fields=["pin"])
    ran(api, payload={"day": 2, "pin": "***masked***"})
    windows(ports)
    assert [message["payload"] for message in ready(ports)] == [{"day": 2, "pin": "0000"}]


@pytest.mark.parametrize("payload", ["x" * 300_000, "***masked***"])
def test_a_payload_that_no_job_could_have_no_run_has(api: ApiUnderTest, payload: str) -> None:
    create_job(api)
    assert ran(api, payload=payload)[0] in (413, 422)


def test_one_that_is_held_is_told_by_whom_and_may_run_beside(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, overlap="skip")
    _, first = ran(api)
    status, problem = ran(api)
    assert (status, problem["type"]) == (409, "urn:tickwork:problem:held")
    assert first["occurrence"] in problem["detail"]
    status, beside = ran(api, overlap="allow")
    assert (status, beside["asked_for"]["overlap"]) == (201, "allow")
    assert "overlap" not in first["asked_for"]


def test_a_payload_of_its_own_is_given_by_owners() -> None:
    """X6: who may not say what a job does may not say it for one run either."""
    stage = Stage()
    path = f"/jobs/{OWN}:nightly/run"
    operator, owner = api_for(stage, "key", "operator"), api_for(stage, "key", "owner")
    assert operator.call("POST", path, LATE)[0] == 201
    for payload in ({"amount": 5}, None):
        status, problem = operator.call("POST", path, LATE | {"payload": payload})
        assert (status, problem["type"]) == (403, "urn:tickwork:problem:forbidden")
    assert owner.call("POST", path, LATE | {"payload": {"amount": 5}, "overlap": "allow"})[0] == 201


def test_the_audit_says_who_ran_what_and_why_and_not_with_which_payload() -> None:
    """X2: whose request it is, whoever the run is like."""
    stage = Stage()
    owner = api_for(stage, "key", "owner")
    owner.call("POST", f"/jobs/{OWN}:nightly/run", LATE | {"payload": {"amount": 51_423}, "client_key": "k"})
    owner.call("POST", f"/jobs/{OWN}:nightly/run", LATE | {"payload": {"amount": 51_423}, "client_key": "k"})
    items, _ = stage.ports.store.scan(AUDIT, limit=10_000, after=None)
    (entry,) = [item for item in items if item.get("action") == "jobs.run"]
    assert (entry["actor"][: len(f"key:{OWN}:")], entry["role"]) == (f"key:{OWN}:", "owner")
    assert (entry["facts"]["job_id"], entry["facts"]["reason"]) == (f"{OWN}:nightly", LATE["reason"])
    assert entry["result"] == {"asked_for": 1}
    assert "51423" not in repr(items)


def test_a_job_that_is_not_there_is_told_so(api: ApiUnderTest) -> None:
    status, problem = ran(api)
    assert (status, problem["type"]) == (404, "urn:tickwork:problem:not-found")


@pytest.mark.parametrize("kind", ["manual", "manual.1", "manual.0123456789abcdeg", "other.0123456789abcdef", ""])
def test_a_name_with_a_kind_that_is_none_names_no_run(api: ApiUnderTest, kind: str) -> None:
    create_job(api)
    status, problem = api.call("GET", f"/runs/payments:rates@2026-12-01T02:00:00Z~{kind}")
    assert (status, problem["type"]) == (422, "urn:tickwork:problem:invalid-field")
