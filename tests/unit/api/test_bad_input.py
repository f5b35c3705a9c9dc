"""Whatever is wrong with a request is named by its field, says what to change, and leaves nothing stored."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tickwork.core.ledger.tables import ALL_TABLES, LEASES
from tickwork.ports import Ports

TARGET = {"pool": "payments", "handler": "settlement"}
JOB = {"team": "payments", "name": "nightly", "schedule": {"cron": "0 2 * * *"}, "target": {"pool": "payments"}}
TIMER = {"team": "payments", "delay_s": 5, "target": TARGET}


def job(**changes: Any) -> dict[str, Any]:
    return {**JOB, **changes}


def timer(**changes: Any) -> dict[str, Any]:
    return {**TIMER, **changes}


def timer_at(at: object, **changes: Any) -> dict[str, Any]:
    return {"team": "payments", "target": TARGET, "at": at, **changes}


REFUSED = [
    ("an unknown zone", "/jobs", job(schedule={"cron": "0 2 * * *", "zone": "America/New_Yrok"}), 422, "schedule.zone"),
    ("an impossible date", "/jobs", job(schedule={"cron": "0 0 30 2 *"}), 422, "schedule.cron"),
    ("a range that runs backwards", "/jobs", job(schedule={"cron": "0 22-5 * * *"}), 422, "schedule.cron.hour"),
    ("a step of zero", "/jobs", job(schedule={"cron": "*/0 * * * *"}), 422, "schedule.cron.minute"),
    ("a full-width digit", "/jobs", job(schedule={"cron": "\uff15 * * * *"}), 422, "schedule.cron"),
    ("no schedule at all", "/jobs", job(schedule={}), 422, "schedule"),
    ("an unknown kind of schedule", "/jobs", job(schedule={"crom": "0 2 * * *"}), 422, "schedule.crom"),
    ("a past at", "/timers", timer_at("2020-01-01T00:00:00Z"), 422, "at"),
    ("an at without offset or zone", "/timers", timer_at("2026-12-01T09:00:00"), 422, "at"),
    ("a date that does not exist", "/timers", timer_at("2027-02-30T00:00:00Z"), 422, "at"),
    ("an at beyond 2150", "/timers", timer_at("2150-01-01T00:00:00Z"), 422, "at"),
    ("an at that is a number", "/timers", timer_at(1_735_689_600), 422, "at"),
    ("both at and delay", "/timers", timer(at="2026-12-01T09:00:00Z"), 422, None),
    ("neither at nor delay", "/timers", {"team": "payments", "target": TARGET}, 422, None),
    ("a negative delay", "/timers", timer(delay_s=-1), 422, "delay_s"),
    ("a delay beyond 2150", "/timers", timer(delay_s=10**12), 422, "delay_s"),
    ("a delay that is text", "/timers", timer(delay_s="5"), 422, "delay_s"),
    ("a payload of 300 KB", "/timers", timer(payload="x" * 300_000), 413, "payload"),
    ("half a surrogate pair", "/timers", timer(payload="\ud800"), 422, "payload"),
    ("an unknown field", "/jobs", job(onwer="me"), 422, "onwer"),
    ("an unknown field inside", "/jobs", job(target={"pool": "payments", "queue": "x"}), 422, "target.queue"),
    ("a wrong type", "/jobs", job(tolerance_s="5"), 422, "tolerance_s"),
    ("a truth value for a number", "/jobs", job(tolerance_s=True), 422, "tolerance_s"),
    ("a missing field", "/jobs", {k: v for k, v in JOB.items() if k != "team"}, 422, "team"),
    ("an unknown pool", "/jobs", job(target={"pool": "paymnts"}), 422, "target.pool"),
    ("a name with a slash", "/jobs", job(name="a/b"), 422, "name"),
    ("a name in another script", "/jobs", job(name="日次"), 422, "name"),
    ("an empty name", "/jobs", job(name=""), 422, "name"),
    ("a name of dots", "/jobs", job(name=".."), 422, "name"),
    ("a name of 300 characters", "/jobs", job(name="x" * 300), 422, "name"),
    ("a one-shot's name for a job", "/jobs", job(name="t~main~0001~1793318406~00000000"), 422, "name"),
    ("cron with tolerance 0 and no reason", "/jobs", job(tolerance_s=0), 422, "exact_reason"),
    ("a lease of a day", "/jobs", job(lease_s=86_400), 422, "lease_s"),
    ("an unknown catch-up policy", "/jobs", job(catch_up={"policy": "newest"}), 422, "catch_up.policy"),
    ("'last' without a number", "/jobs", job(catch_up={"policy": "last"}), 422, "catch_up"),
    ("an empty batch", "/timers:batch", {"timers": []}, 422, "timers"),
    ("a batch of 101", "/timers:batch", {"timers": [TIMER] * 101}, 422, "timers"),
    ("a bad one in a batch", "/timers:batch", {"timers": [TIMER, timer(delay_s=-1)]}, 422, "timers.1.delay_s"),
    ("a bad handler in a batch", "/timers:batch", {"timers": [timer(target={"pool": "payments", "handler": "A B"})]},
     422, "timers.0.target.handler"),
    ("a key twice in a batch", "/timers:batch", {"timers": [timer(client_key="k")] * 2}, 422, "timers.1.client_key"),
    ("a forged ref", "/runs:start", {"worker": "w", "runs": [{"ref": "x|y", "claim": "12345678"}]}, 422, "runs.0.ref"),
    ("a token of zero", "/runs:complete", {"runs": [{"ref": "x", "token": 0, "outcome": "succeeded"}]},
     422, "runs.0.token"),
    ("an unknown outcome", "/runs:complete", {"runs": [{"ref": "x", "token": 1, "outcome": "done"}]},
     422, "runs.0.outcome"),
    ("a list for a body", "/jobs", [], 422, None),
    ("text for a body", "/jobs", "payments", 422, None),
]  # fmt: skip


@pytest.mark.parametrize(("what", "path", "body", "status", "field"), REFUSED, ids=[case[0] for case in REFUSED])
def test_a_bad_body_is_refused_by_its_field_and_nothing_is_stored(
    api: ApiUnderTest, ports: Ports, what: str, path: str, body: object, status: int, field: str | None
) -> None:
    found_status, problem = api.call("POST", path, body)

    assert (found_status, problem["status"]) == (status, status), problem
    fields = [fault["field"] for fault in problem["errors"]]
    assert field in fields
    assert all(fault["detail"] for fault in problem["errors"])
    assert_nothing_stored(ports)


def test_an_unknown_zone_comes_with_a_suggestion(api: ApiUnderTest) -> None:
    _, problem = api.call("POST", "/jobs", job(schedule={"cron": "0 2 * * *", "zone": "America/New_Yrok"}))

    assert "America/New_York" in problem["errors"][0]["remedy"]


def test_a_misspelt_field_comes_with_the_likely_one(api: ApiUnderTest) -> None:
    _, problem = api.call("POST", "/jobs", job(tolerence_s=5))

    assert problem["errors"][0] == {
        "field": "tolerence_s",
        "detail": "there is no such field",
        "remedy": "did you mean 'tolerance_s'?",
    }


@pytest.mark.parametrize("raw", [b"{", b"", b"\xff\xfe", b'{"team": NaN}', b"nul", b"[" * 100_000])
def test_malformed_json_is_a_problem_of_status_400(api: ApiUnderTest, ports: Ports, raw: bytes) -> None:
    status, problem = api.call("POST", "/jobs", raw)

    assert status == 400
    assert problem["type"] == "urn:tickwork:problem:malformed-json"
    assert_nothing_stored(ports)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/jobs/payments:none"),
        ("DELETE", "/jobs/payments:none"),
        ("GET", "/jobs/payments:none/next"),
        ("GET", "/timers/payments:t~main~0001~1793318406~00000000"),
        ("DELETE", "/timers/payments:t~main~0001~1793318406~00000000"),
        ("DELETE", "/timers/payments:nightly"),
        ("GET", "/nowhere"),
        ("PUT", "/jobs"),
    ],
)
def test_an_unknown_id_or_path_is_not_found(api: ApiUnderTest, method: str, path: str) -> None:
    assert api.call(method, path)[0] == 404


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("/runs", {"status": "done"}, "status"),
        ("/runs", {"status": ""}, "status"),
        ("/runs", {"limit": "0"}, "limit"),
        ("/runs", {"limit": "x"}, "limit"),
        ("/runs", {"limit": "\u0661"}, "limit"),
        ("/runs", {"since": "yesterday"}, "since"),
        ("/runs", {"cursor": "!"}, "cursor"),
        ("/runs", {"cursor": "WzEsIngiXQ"}, "cursor"),
        ("/runs", {"sttaus": "dead"}, "sttaus"),
        ("/runs", {"team": "No Team"}, "team"),
        ("/jobs", {}, "team"),
        ("/jobs/nocolon", {}, "job_id"),
    ],
)
def test_a_bad_parameter_is_refused_by_its_name(
    api: ApiUnderTest, path: str, query: dict[str, str], field: str
) -> None:
    status, problem = api.call("GET", path, **query)

    assert status == 422
    assert problem["errors"][0]["field"] == field


def assert_nothing_stored(ports: Ports) -> None:
    stored = {table.name: ports.store.scan(table, limit=10, after=None)[0] for table in ALL_TABLES if table != LEASES}
    assert not any(stored.values()), stored


def test_two_resolvers_of_one_process_do_not_take_each_others_request() -> None:
    """Found by chaos: one request was judged by the body of another, which came in on another thread."""
    one, other = ApiUnderTest(fake_ports()), ApiUnderTest(fake_ports())
    one.call("GET", "/health")
    other.call("GET", "/jobs", team="shop")
    assert one._app.current_event.path == "/health"
    assert other._app.current_event.path == "/jobs"
