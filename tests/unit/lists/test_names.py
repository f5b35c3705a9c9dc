"""A run is named as a person reads it: by a timer's id, job@time or its ref; every call takes each of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.support.fakes import KeptSignals
from tests.support.worlds import move
from tests.unit.lists.stage import TEAM, Stage
from tickwork.core.instants import iso, parse_iso
from tickwork.core.ledger.tables import TIMERS


def of_timer(stage: Stage) -> dict[str, Any]:
    (made,) = stage.timers(1)
    return stage.ok("GET", f"/timers/{made['timer_id']}")


def of_job(stage: Stage) -> dict[str, Any]:
    stage.job()
    stage.after(61)
    return stage.ok("GET", "/jobs/pay:nightly/runs")["runs"][-1]


@pytest.mark.parametrize("made", [of_timer, of_job])
@pytest.mark.parametrize("name", ["ref", "occurrence", "run_id"])
def test_a_run_is_found_by_each_of_its_names(made: Any, name: str) -> None:
    stage = Stage()
    run = made(stage)
    for spelled in (run[name], quote(run[name], safe="")):
        query = {"job_id": run["job_id"]} if name == "run_id" else {}
        found = stage.ok("GET", f"/runs/{spelled}", None, **query)
        assert found["ref"] == run["ref"]
        assert found["status"] == run["status"]


def test_a_timer_is_found_by_its_id_and_its_own_time_and_by_no_other_time() -> None:
    stage = Stage()
    run = of_timer(stage)
    assert stage.ok("GET", f"/runs/{run['job_id']}@{run['scheduled_at']}")["ref"] == run["ref"]
    assert stage.api.call("GET", f"/runs/{run['job_id']}@2030-01-01T00:00:00Z")[0] == 404


@pytest.mark.parametrize("spelled", ["{at}", "{at}[+00:00]", "{at}[.000+00:00]"])
def test_the_time_of_a_name_may_be_spelled_in_any_way(spelled: str) -> None:
    stage = Stage()
    run = of_job(stage)
    at, cut, rest = spelled.partition("[")
    at = at.format(at=run["scheduled_at"][: -1 if cut else None]) + rest.rstrip("]")
    assert stage.ok("GET", f"/runs/pay:nightly@{at}")["ref"] == run["ref"]


def test_the_ref_of_a_retry_names_the_run_it_is_of() -> None:
    stage = Stage()
    (run,) = stage.timers(1)
    entry = {"ref": run["ref"], "claim": "claim-of-this-1"}
    token = stage.ok("POST", "/runs:start", {"worker": "w", "runs": [entry]})["runs"][0]["token"]
    stage.ok("POST", "/runs:complete", {"runs": [{"ref": run["ref"], "token": token, "outcome": "failed"}]})
    (retry,) = [item for item in stage.store.items(TIMERS)
                if "run_ref" in item]  # fmt: skip
    found = stage.ok("GET", f"/runs/{retry['pk']}|{retry['sk']}")
    assert found["ref"] == run["ref"]
    body = {"runs": [{"run": f"{retry['pk']}|{retry['sk']}"}], "reason": "enough"}
    (cancelled,) = stage.ok("POST", "/runs:cancel", body)["runs"]
    assert (cancelled["ref"], cancelled["status"]) == (run["ref"], "cancelled")


@pytest.mark.parametrize("name", ["occurrence", "ref"])
def test_runs_are_cancelled_by_each_name(name: str) -> None:
    stage = Stage()
    runs = [of_timer(stage), of_job(stage)]
    body = {"runs": [{"run": run[name]} for run in runs], "reason": "wrong list"}
    answers = stage.ok("POST", "/runs:cancel", body)["runs"]
    assert [one["ref"] for one in answers] == [run["ref"] for run in runs]
    assert [one["occurrence"] for one in answers] == [run["occurrence"] for run in runs]


def test_dead_runs_are_replayed_by_each_name_and_once_when_named_twice() -> None:
    stage = Stage()
    run = of_timer(stage)
    stage.kill(run)
    body = {"team": "pay", "runs": [run["occurrence"], run["ref"]], "by": "ann", "reason": "again"}
    answer = stage.ok("POST", "/dead-letters:replay", body)
    assert (answer["matched"], answer["replayed"]) == (1, 1)
    assert answer["runs"][0]["occurrence"] == run["occurrence"]


def test_a_bare_run_id_is_told_what_to_paste() -> None:
    stage = Stage()
    run = of_job(stage)
    status, problem = stage.api.call("GET", f"/runs/{run['run_id']}")
    assert status == 422
    assert "occurrence" in problem["errors"][0]["remedy"]
    assert "job_id" in problem["errors"][0]["remedy"]
    for job_id in ("pay:other", run["job_id"].replace("nightly", "nightly2")):
        assert stage.api.call("GET", f"/runs/{run['run_id']}", job_id=job_id)[0] == 404


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("pay:nightly", 422),
        ("nightly", 422),
        ("pay:nightly@yesterday", 422),
        ("pay:nightly@2030-01-01T00:00:00Z", 404),
        ("main#0000#1|x", 422),
        ("0" * 31, 422),
        ("pay:t~main~0000~1793318400~00000000000000000099", 404),
    ],
)
def test_what_names_no_run_is_told_so(name: str, status: int) -> None:
    stage = Stage()
    of_job(stage)
    assert stage.api.call("GET", f"/runs/{quote(name, safe='')}")[0] == status


def test_a_job_that_nobody_registered_is_an_error_and_no_empty_list() -> None:
    stage = Stage()
    assert stage.api.call("GET", "/jobs/pay:typo/runs")[0] == 404
    assert stage.api.call("GET", "/jobs/pay:typo/runs", status="dead")[0] == 404
    stage.job()
    assert stage.ok("GET", "/jobs/pay:nightly/runs", status="dead")["runs"] == []
    stage.ok("DELETE", "/jobs/pay:nightly")
    assert stage.ok("GET", "/jobs/pay:nightly/runs", status="dead")["runs"] == []


@pytest.mark.parametrize(
    "name", [f"{TEAM}:nightly@2020-01-01T00:00:00Z", f"{TEAM}:nobody@2026-10-30T00:01:00Z", "x", "f" * 32]
)
def test_of_several_runs_to_replay_the_one_that_is_none_is_told_by_its_place(name: str) -> None:
    stage = Stage()
    (dead,) = stage.timers(1)
    stage.after(1)
    stage.kill(dead)
    body = {"team": TEAM, "runs": [dead["timer_id"], name], "reason": "again"}
    status, problem = stage.api.call("POST", "/dead-letters:replay", body)
    assert status in (404, 422)
    assert problem["errors"][0]["field"].startswith("runs.1")
    assert stage.ok("GET", f"/runs/{dead['timer_id']}")["status"] == "dead", "nothing is done of such a request"


@pytest.mark.parametrize("off_s", [-60, -1, 1, 60])
def test_a_timers_id_with_another_time_than_its_own_names_nothing(off_s: int) -> None:
    stage = Stage()
    (made,) = stage.timers(1, delay_s=5)
    other = iso(parse_iso(made["scheduled_at"]) + off_s * 1_000)
    assert stage.api.call("GET", f"/runs/{made['timer_id']}@{other}")[0] == 404
    assert stage.api.call("GET", f"/runs/{made['timer_id']}@{made['scheduled_at']}")[0] == 200


def test_of_several_items_of_one_instant_the_name_means_the_one_that_ran() -> None:
    """Made anew with another tolerance the occurrence lies elsewhere, and the one that was given up is still there."""
    stage = Stage()
    schedule = {"cron": "10 * * * *"}
    body = {"team": TEAM, "name": "often", "schedule": schedule, "target": {"pool": "default", "handler": "h"}}
    for tolerance_s in (1_700, 7, 0):
        exact = {} if tolerance_s else {"exact_reason": "the test counts"}
        stage.ok("POST", "/jobs", body | {"tolerance_s": tolerance_s} | exact)
        if tolerance_s:
            stage.ok("DELETE", f"/jobs/{TEAM}:often")
    stage.after(601)
    stage.ok("DELETE", f"/jobs/{TEAM}:often")
    stage.ok("POST", "/jobs", body | {"schedule": {"cron": "0 3 * * *"}})  # it knows nothing of the ones before
    at = "2026-10-30T00:10:00Z"
    shown = [one for one in stage.listed(f"/jobs/{TEAM}:often/runs") if one["scheduled_at"] == at]
    assert sorted(one["status"] for one in shown) == ["cancelled", "cancelled", "queued"]
    assert stage.ok("GET", f"/runs/{TEAM}:often@{at}")["status"] == "queued"


def test_a_retry_is_shown_in_its_run_and_is_no_fault_of_the_list() -> None:
    stage = Stage()
    (made,) = stage.timers(1)
    stage.after(1)
    token = stage.ok("POST", "/runs:start", {"worker": "w", "runs": [{"ref": made["ref"], "claim": "claim-of-this-1"}]})
    entry = {"ref": made["ref"], "token": token["runs"][0]["token"], "outcome": "failed", "error": "boom"}
    stage.ok("POST", "/runs:complete", {"runs": [entry]})
    move(stage.ports, 120)
    assert [one["status"] for one in stage.listed("/runs", team=TEAM, since="2026-10-30T00:00:00Z")] == ["waiting"]
    signals = stage.ports.signals
    assert isinstance(signals, KeptSignals)
    assert [action for action, _ in signals.lines if "unreadable" in action] == []


def test_counting_what_would_be_replayed_counts_the_dead_alone() -> None:
    stage = Stage()
    dead, queued = stage.timers(2)
    stage.after(1)
    stage.kill(dead)
    (pending,) = stage.timers(1, delay_s=60)
    runs = [dead["timer_id"], queued["timer_id"], pending["ref"], dead["ref"]]
    body = {"team": TEAM, "runs": runs, "reason": "again", "dry_run": True}
    counted = stage.ok("POST", "/dead-letters:replay", body)
    assert (counted["matched"], [one["ref"] for one in counted["runs"]]) == (1, [dead["ref"]])
    done = stage.ok("POST", "/dead-letters:replay", body | {"dry_run": False})
    assert (done["replayed"], len(done["runs"])) == (1, 3)
