"""Skipping one coming occurrence over HTTP and the command line: what is shown, refused and recorded."""

from __future__ import annotations

from typing import Any

from tests.support.http import ApiUnderTest
from tests.unit.access.test_matrix import OWN, Stage, api_for
from tests.unit.api.test_jobs_and_timers import create_job, move, windows
from tickwork.core.instants import iso, parse_iso
from tickwork.core.ledger.tables import AUDIT
from tickwork.ports import Ports

AT = "/jobs/payments:rates"
WHY = {"reason": "the bank is closed"}


def upcoming(api: ApiUnderTest, count: int = 3) -> list[dict[str, Any]]:
    status, shown = api.call("GET", f"{AT}/next", count=str(count))
    assert status == 200
    return list(shown["occurrences"])


def test_the_preview_says_which_one_will_be_skipped_by_whom_and_history_that_it_was(
    api: ApiUnderTest, ports: Ports
) -> None:
    create_job(api)
    one = upcoming(api)[0]["scheduled_at"]
    status, job = api.call("POST", f"{AT}/skip", WHY | {"scheduled_at": one, "by": "ann"})
    assert status == 200
    assert job["skips"] == [{"scheduled_at": one, "by": "local (ann)", "reason": "the bank is closed"}]
    notes = [row["note"] for row in upcoming(api)]
    assert notes == ["will be skipped: skipped by local (ann): the bank is closed", None, None]
    move(ports, 11)
    windows(ports)
    _, run = api.call("GET", f"/runs/payments:rates@{one}")
    assert (run["status"], run["reason"]) == ("skipped", "skipped by local (ann): the bank is closed")
    _, job = api.call("GET", AT)
    assert "skips" not in job


def test_an_instant_is_the_same_however_it_is_written(api: ApiUnderTest) -> None:
    create_job(api)
    one = upcoming(api)[1]["scheduled_at"]
    shifted = one.replace("Z", ".000+00:00")
    api.call("POST", f"{AT}/skip", WHY | {"scheduled_at": shifted})
    status, job = api.call("POST", f"{AT}/skip", WHY | {"scheduled_at": one})
    assert (status, [skip["scheduled_at"] for skip in job["skips"]], job["version"]) == (200, [one], 2)


def test_what_is_taken_back_says_by_whom(api: ApiUnderTest) -> None:
    create_job(api)
    one = upcoming(api)[0]["scheduled_at"]
    assert api.call("POST", f"{AT}/unskip", {"scheduled_at": one})[1]["changed"] is False
    api.call("POST", f"{AT}/skip", WHY | {"scheduled_at": one})
    for _ in range(2):
        status, job = api.call("POST", f"{AT}/unskip", {"scheduled_at": one})
        assert (status, job["changed"], job["skips"][0]["undone_by"]) == (200, True, "local")
    assert upcoming(api)[0]["note"] is None


def test_one_that_is_none_is_refused_with_the_nearest(api: ApiUnderTest) -> None:
    create_job(api)
    first, second = (parse_iso(row["scheduled_at"]) for row in upcoming(api, 2))
    status, problem = api.call("POST", f"{AT}/skip", WHY | {"scheduled_at": iso(first + 4_000)})
    assert (status, problem["type"]) == (422, "urn:tickwork:problem:invalid-field")
    assert problem["errors"][0]["field"] == "scheduled_at"
    assert problem["errors"][0]["remedy"] == f"the nearest to come: {iso(first)} and {iso(second)}"
    assert api.call("POST", f"{AT}/skip", WHY | {"scheduled_at": "tomorrow"})[0] == 422
    assert api.call("POST", f"{AT}/skip", {"scheduled_at": iso(first)})[0] == 422, "without a reason nothing is skipped"


def test_the_audit_says_who_skipped_what_and_who_took_it_back() -> None:
    stage = Stage()
    operator, owner = api_for(stage, "key", "operator"), api_for(stage, "key", "owner")
    path = f"/jobs/{OWN}:nightly"
    _, shown = operator.call("GET", f"{path}/next")
    at = {"scheduled_at": shown["occurrences"][0]["scheduled_at"]}
    assert operator.call("POST", f"{path}/skip", WHY | at)[0] == 200
    assert owner.call("POST", f"{path}/unskip", at)[0] == 200
    items, _ = stage.ports.store.scan(AUDIT, limit=10_000, after=None)
    found = [item for item in items if "skipped" in str(item.get("action"))]
    assert [(item["action"], item["role"]) for item in sorted(found, key=lambda item: item["version"])] == [
        ("job.occurrence_skipped", "operator"),
        ("job.occurrence_unskipped", "owner"),
    ]
    assert all(item["facts"] == at for item in found)
