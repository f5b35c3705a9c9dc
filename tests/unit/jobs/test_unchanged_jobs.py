"""A change that comes to what the job says already changes nothing, not even its version."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import create_job
from tests.unit.jobs.test_changing_jobs import HOURLY, JOB, change
from tickwork.core.ledger.tables import JOB_VERSIONS, JOBS, PAYLOADS
from tickwork.core.ledger.writes import Anyway, Delete, Update
from tickwork.ports import Ports

LONG = {"text": "x" * 2_000}
WHOLE: dict[str, Any] = {
    "schedule": {"cron": "0 2 * * *", "zone": "Europe/Berlin"},
    "payload": LONG,
    "retry_policy": {"max_attempts": 7, "no_retry_on": ["ValueError"]},
    "catch_up": {"policy": "last", "last": 3},
    "resources": [{"name": "db", "max_concurrency": 2}],
    "side_effects": ["email"],
    "max_duration_s": 50,
    "tolerance_s": 120,
}


@pytest.mark.parametrize("fields", [{}, *({name: value} for name, value in WHOLE.items()), WHOLE], ids=str)
def test_a_change_to_what_is_there_is_none(api: ApiUnderTest, ports: Ports, fields: dict[str, Any]) -> None:
    before = create_job(api, **WHOLE)
    for _ in range(2):
        job = change(api, **fields)
        assert (job["version"], job["changed"]) == (1, False)
    assert {name: job[name] for name in before} == before
    assert ports.store.scan(JOB_VERSIONS, limit=9, after=None)[0] == []
    assert len(ports.store.scan(PAYLOADS, limit=9, after=None)[0]) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"schedule": {"cron": "0 2 * * *", "zone": "Europe/Paris"}},
        {"payload": {"text": "y" * 2_000}},
        {"payload": None},
        {"retry_policy": {"max_attempts": 6}},
        {"side_effects": []},
        {"tolerance_s": 121},
    ],
    ids=str,
)
def test_any_difference_is_a_change_and_its_repeat_says_so_too(api: ApiUnderTest, fields: dict[str, Any]) -> None:
    create_job(api, **WHOLE)
    for _ in range(2):
        job = change(api, **fields)
        assert (job["version"], job["changed"]) == (2, True)


@pytest.mark.parametrize("size", [3, 2_000])
@pytest.mark.parametrize("number", [b"1", b"1.0"])
def test_a_payload_in_another_spelling_is_the_same_payload(
    api: ApiUnderTest, ports: Ports, size: int, number: bytes
) -> None:
    create_job(api, payload={"a": 1, "text": "x" * size}, side_effects=["email", "payment"])
    respelled = b'{"version": 1, "side_effects": ["payment", "email"], "payload": {"text": "%b", "a": %b}}'
    for _ in range(2):
        status, job = api.call("PATCH", JOB, respelled % (b"x" * size, number))
        assert (status, job["version"], job["changed"]) == (200, 1, False)
    assert len(ports.store.scan(PAYLOADS, limit=9, after=None)[0]) == (size > 400)


def test_a_stale_version_is_refused_also_when_nothing_would_change(api: ApiUnderTest) -> None:
    create_job(api, lease_s=60)
    change(api, lease_s=90)
    change(api, version=2, lease_s=60)
    assert api.call("PATCH", JOB, {"version": 2, "max_duration_s": 0, "lease_s": 61})[0] == 412


def test_what_a_newer_version_has_stored_does_not_make_it_a_change(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, **WHOLE)
    item = ports.store.get(JOBS, {"job_id": "payments:rates"})
    assert item is not None
    newer = item["work"] | {"of_a_newer_version": 1}
    ports.store.commit([Update(JOBS, {"job_id": "payments:rates"}, Anyway("a newer version"), set={"work": newer})])
    assert change(api, lease_s=60)["changed"] is False


def test_a_payload_that_is_gone_is_written_anew_by_the_same_content(api: ApiUnderTest, ports: Ports) -> None:
    kept = create_job(api, payload=LONG)["payload_id"]
    ports.store.commit([Delete(PAYLOADS, {"payload_id": kept}, Anyway("lost"))])
    job = change(api, payload=LONG)
    assert job["changed"]
    stored = ports.store.get(PAYLOADS, {"payload_id": job["payload_id"]})
    assert stored is not None
    assert LONG["text"] in stored["payload"]


def test_a_change_beside_the_same_payload_keeps_it_where_it_is(api: ApiUnderTest, ports: Ports) -> None:
    kept = create_job(api, payload=LONG)["payload_id"]
    assert change(api, payload=LONG, lease_s=90)["payload_id"] == kept
    (payload,) = ports.store.scan(PAYLOADS, limit=9, after=None)[0]
    assert "expires_at_s" not in payload


@pytest.mark.parametrize("schedule", [{"at": "2020-01-01T00:00:00Z"}, {"cron": "0 2 30 2 *"}], ids=str)
def test_a_change_that_is_refused_leaves_no_payload_behind(
    api: ApiUnderTest, ports: Ports, schedule: dict[str, Any]
) -> None:
    create_job(api, schedule=HOURLY)
    assert api.call("PATCH", JOB, {"version": 1, "schedule": schedule, "payload": LONG})[0] == 422
    assert ports.store.scan(PAYLOADS, limit=9, after=None)[0] == []


def test_a_parked_job_is_started_again_by_what_it_says(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule=HOURLY)
    parked = {"status": "error", "reason": "no zone data", "next_scheduled_at_ms": 0}
    ports.store.commit([Update(JOBS, {"job_id": "payments:rates"}, Anyway("as a window parks it"), set=parked)])
    job = change(api, schedule=HOURLY)
    assert (job["status"], job["changed"], job["next"]["scheduled_at"]) == ("active", True, "2026-10-30T01:00:00Z")


def test_a_change_to_what_is_there_is_none_also_where_somebody_paused_the_job_meanwhile(api: ApiUnderTest) -> None:
    create_job(api, **WHOLE)
    change(api, tolerance_s=60)
    api.call("POST", f"{JOB}/pause", {"by": "ann", "reason": "x"})
    told = [api.call("PATCH", JOB, {"version": version, "tolerance_s": 60}) for version in (1, 2, 3)]
    assert [(status, job["version"]) for status, job in told] == [(200, 3)] * 3
    assert [job["changed"] for _, job in told] == [True, False, False], "the first is what made it so, once more"
