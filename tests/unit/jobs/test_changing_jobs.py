"""Changing, pausing and resuming a registered job, and what becomes of its pending occurrence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import FakeClock, fake_ports
from tests.support.http import ApiUnderTest
from tests.unit.api.test_hostile_requests import cursor
from tests.unit.api.test_jobs_and_timers import create_job, move, ready, start, windows
from tests.unit.jobs.test_certificates import CERTIFICATE
from tickwork.core.errors import OutcomeUnknown
from tickwork.core.jobs.pauses import PAUSES_KEPT_MAX
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Committed, Refused, Write
from tickwork.flows.audit.reconciling import reconcile
from tickwork.ports import Layout, Ports

JOB = "/jobs/payments:rates"
HOURLY = {"rate": "1 hour", "anchor": "2026-10-29T00:00:00Z"}


def change(api: ApiUnderTest, version: int = 1, **fields: Any) -> dict[str, Any]:
    status, job = api.call("PATCH", JOB, {"version": version} | fields)
    assert status == 200, job
    return job


def runs(api: ApiUnderTest) -> list[tuple[str, str, str | None]]:
    found = api.call("GET", f"{JOB}/runs")[1]["runs"]
    return [(run["scheduled_at"], run["status"], run["reason"]) for run in found]


def pause(api: ApiUnderTest, **fields: Any) -> dict[str, Any]:
    status, job = api.call("POST", f"{JOB}/pause", {"by": "ops@example.org", "reason": "migration"} | fields)
    assert status == 200, job
    return job


# --- changing -------------------------------------------------------------------------------------------------


def test_a_change_touches_only_what_it_names(api: ApiUnderTest) -> None:
    before = create_job(
        api,
        schedule={"cron": "0 2 * * *"},
        tolerance_s=0,
        exact_reason="the bank closes",
        payload={"ledger": "cards"},
        retry_policy={"max_attempts": 7, "base_s": 5, "no_retry_on": ["ValueError"]},
        catch_up={"policy": "last", "last": 3, "max_lateness_s": 900},
        max_duration_s=50,
        resources=[{"name": "db", "max_concurrency": 2}],
    )

    after = change(api, retry_policy={"max_attempts": 2}, lease_s=120)

    told = {"version": 2, "changed": True, "lease_s": 120, "retry_policy": before["retry_policy"] | {"max_attempts": 2}}
    assert after == before | told
    assert api.call("GET", JOB)[1] == {name: after[name] for name in after.keys() - {"warnings", "changed"}}


def test_a_new_schedule_moves_the_pending_occurrence_and_says_so(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule=HOURLY)

    job = change(api, schedule={"rate": "1 hour", "anchor": "2026-10-30T00:30:00Z"})

    assert job["next"]["scheduled_at"] == "2026-10-30T00:30:00Z"
    assert runs(api) == [
        ("2026-10-30T01:00:00Z", "cancelled", "the job was changed (version 2)"),
        ("2026-10-30T00:30:00Z", "pending", None),
    ]
    move(ports, 1_800)
    windows(ports)
    move(ports, 1_800)
    windows(ports)
    assert [message["scheduled_at"] for message in ready(ports)] == ["2026-10-30T00:30:00Z"]


def test_an_occurrence_that_comes_back_with_the_schedule_is_pending_again(api: ApiUnderTest) -> None:
    create_job(api, schedule=HOURLY)
    change(api, schedule={"rate": "2 hours", "anchor": "2026-10-29T00:00:00Z"})
    job = change(api, version=2, schedule=HOURLY)

    assert job["next"]["scheduled_at"] == "2026-10-30T01:00:00Z"
    assert ("2026-10-30T01:00:00Z", "pending", None) in runs(api)


def test_an_occurrence_whose_time_has_come_is_kept_and_runs_by_the_new_definition(
    api: ApiUnderTest, ports: Ports
) -> None:
    create_job(api)
    move(ports, 10)  # due, and no window has looked yet

    job = change(api, schedule=HOURLY, payload={"new": True})
    windows(ports)

    assert job["next"]["scheduled_at"] == "2026-10-30T00:00:10Z"
    (message,) = ready(ports)
    assert (message["scheduled_at"], message["payload"]) == ("2026-10-30T00:00:10Z", {"new": True})
    assert api.call("GET", JOB)[1]["next"]["scheduled_at"] == "2026-10-30T01:00:00Z"


def test_a_new_schedule_has_no_occurrences_from_before_the_change(api: ApiUnderTest, ports: Ports) -> None:
    """After an outage the pending occurrence is kept, and is not followed by what the new schedule never was."""
    create_job(api, schedule=HOURLY, catch_up={"policy": "all"})
    windows(ports)
    move(ports, 3 * 3_600 + 1)

    change(api, schedule={"rate": "10 minutes", "anchor": "2026-10-29T00:00:00Z"})
    change(api, version=2, lease_s=90)
    for _ in range(8):
        windows(ports)
        move(ports, 1)

    assert [message["scheduled_at"] for message in ready(ports)] == ["2026-10-30T01:00:00Z"]
    assert api.call("GET", JOB)[1]["next"]["scheduled_at"] == "2026-10-30T03:10:00Z"


def test_an_occurrence_moved_into_the_past_of_the_cursor_is_sent_by_the_change(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule=HOURLY)
    move(ports, 60)
    windows(ports)
    clock = ports.clock
    assert isinstance(clock, FakeClock)
    clock.at_ms -= 30_000  # a machine whose clock is behind the scanner's

    change(api, schedule={"at": "2026-10-30T00:00:45Z"})

    assert [message["scheduled_at"] for message in ready(ports)] == ["2026-10-30T00:00:45Z"]


@pytest.mark.parametrize("limit", [{"max_duration_s": 60}, {"resources": [{"name": "db", "max_concurrency": 1}]}])
def test_a_limit_that_is_added_holds_for_the_pending_occurrence(
    api: ApiUnderTest, ports: Ports, limit: dict[str, Any]
) -> None:
    create_job(api)
    change(api, **limit)
    (item,) = ports.store.scan(TIMERS, limit=10, after=None)[0]
    assert item["guarded"]
    move(ports, 10)
    windows(ports)
    assert start(api, ready(ports)[0])["granted"]


def test_two_changes_never_overwrite_each_other_unseen(api: ApiUnderTest) -> None:
    create_job(api)
    change(api, lease_s=120)

    status, problem = api.call("PATCH", JOB, {"version": 1, "lease_s": 300})

    assert (status, problem["errors"][0]["field"]) == (412, "version")
    assert api.call("GET", JOB)[1]["lease_s"] == 120


def test_a_change_that_is_sent_again_is_a_no_op(api: ApiUnderTest) -> None:
    create_job(api)
    first = change(api, schedule={"delay": "90s"}, payload=None)
    assert change(api, schedule={"delay": "90s"}, payload=None) == first


def test_a_change_whose_reply_is_lost_is_made_once(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    commit = ports.store.commit
    tries = []

    def losing(writes: list[Write]) -> Committed | Refused:
        result = commit(writes)
        tries.append(result)
        if len(tries) == 1:
            raise OutcomeUnknown("the reply was lost")
        return result

    ports.store.commit = losing  # type: ignore[method-assign]
    assert change(api, schedule=HOURLY)["version"] == 2
    assert len(tries) > 1


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"schedule": {"cron": "61 * * * *"}}, "schedule.cron.minute"),
        ({"schedule": {"at": "2020-01-01T00:00:00Z"}}, "schedule.at"),
        ({"schedule": None}, "schedule"),
        ({"retry_policy": {"max_attempts": 0}}, "retry_policy.max_attempts"),
        ({"tolerance_s": 0, "schedule": {"cron": "0 2 * * *"}}, "exact_reason"),
        ({"target": {"pool": "nowhere"}}, "target.pool"),
        ({"idempotency_class": "unsafe"}, None),
        ({"name": "other"}, "name"),
        ({"lease": 60}, "lease"),
        ({"lease_s": "60"}, "lease_s"),
    ],
    ids=str,
)
def test_a_bad_change_is_refused_by_its_field_and_changes_nothing(
    api: ApiUnderTest, fields: dict[str, Any], field: str | None
) -> None:
    before = create_job(api)
    status, problem = api.call("PATCH", JOB, {"version": 1} | fields)
    assert (status, problem["errors"][0]["field"]) == (422, field), problem
    assert api.call("GET", JOB)[1] == {name: value for name, value in before.items() if name != "warnings"}


def test_the_default_tolerance_follows_the_schedule_and_a_chosen_one_does_not(api: ApiUnderTest) -> None:
    assert create_job(api, schedule={"cron": "* * * * *"})["tolerance_s"] == 30
    assert change(api, schedule={"cron": "0 2 * * *"})["tolerance_s"] == 300
    assert change(api, version=2, tolerance_s=7)["tolerance_s"] == 7
    assert change(api, version=3, schedule={"cron": "0 3 * * *"})["tolerance_s"] == 7
    assert change(api, version=4, tolerance_s=None)["tolerance_s"] == 300


def test_the_handler_changes_by_itself_and_another_pool_does_not_keep_it(api: ApiUnderTest) -> None:
    create_job(api)
    assert change(api, target={"handler": "v2"})["target"] == {"pool": "payments", "handler": "v2"}
    assert change(api, version=2, target={"pool": "default"})["target"] == {"pool": "default", "handler": "rates"}


def test_a_payload_kept_apart_stays_until_it_is_replaced(api: ApiUnderTest) -> None:
    kept = create_job(api, payload={"text": "x" * 2_000})["payload_id"]
    assert change(api, lease_s=90)["payload_id"] == kept
    assert change(api, version=2, payload={"text": "y" * 2_000})["payload_id"] != kept
    assert "payload_id" not in change(api, version=3, payload=None)


@pytest.mark.parametrize("how", ["skip", "next_working_day"])
def test_a_single_time_is_found_whatever_its_calendars_do_with_it(api: ApiUnderTest, how: str) -> None:
    api.call("PUT", "/calendars/payments:weekends", {"weekly": ["sat", "sun"]})
    calendars = {"exclude": ["weekends"], "on_excluded": how}
    create_job(api, schedule={"at": "2026-11-10T09:00:00Z", "calendars": calendars})
    job = change(api, schedule={"at": "2026-11-11T09:00:00Z", "calendars": calendars})
    assert job["next"]["scheduled_at"] == "2026-11-11T09:00:00Z"


def test_a_finished_job_lives_again_by_a_new_schedule(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule={"delay": "5s"})
    move(ports, 6)
    windows(ports)
    assert api.call("GET", JOB)[1]["status"] == "finished"

    assert change(api, lease_s=90)["status"] == "finished"
    job = change(api, version=2, schedule={"rate": "10 seconds"})
    assert (job["status"], job["next"]["scheduled_at"]) == ("active", "2026-10-30T00:00:16Z")


def test_what_a_job_has_come_to_be_may_be_registered_again(api: ApiUnderTest) -> None:
    create_job(api)
    change(api, lease_s=90)
    body = {"team": "payments", "name": "rates", "schedule": {"rate": "10 seconds"}, "target": {"pool": "payments"}}
    assert api.call("POST", "/jobs", body)[0] == 409
    assert api.call("POST", "/jobs", body | {"lease_s": 90})[0] == 200


def test_a_change_that_comes_to_the_default_tolerance_may_be_sent_again(api: ApiUnderTest) -> None:
    create_job(api, schedule={"cron": "* * * * *"}, tolerance_s=300)
    first = change(api, schedule={"cron": "0 2 * * *"})  # 300 s, which was chosen, is the default of this one
    assert change(api, schedule={"cron": "0 2 * * *"}) == first


def test_a_stale_change_that_takes_the_payload_away_is_not_taken_for_the_one_that_kept_it(api: ApiUnderTest) -> None:
    create_job(api, payload={"text": "x" * 2_000})
    change(api, lease_s=90)
    assert api.call("PATCH", JOB, {"version": 1, "lease_s": 90, "payload": None})[0] == 412


def test_null_gives_a_field_inside_its_default_again(api: ApiUnderTest) -> None:
    create_job(api, retry_policy={"max_attempts": 7, "base_s": 5}, catch_up={"policy": "last", "last": 3})
    job = change(api, retry_policy={"max_attempts": None}, catch_up={"policy": None})
    assert (job["retry_policy"]["max_attempts"], job["retry_policy"]["base_s"]) == (5, 5)
    assert job["catch_up"] == {"policy": "latest"}


def test_a_calendar_that_is_not_there_is_refused_also_while_an_occurrence_is_due(
    api: ApiUnderTest, ports: Ports
) -> None:
    before = create_job(api)
    move(ports, 10)
    schedule = {"cron": "0 2 * * *", "calendars": {"exclude": ["nowhere"]}}
    status, problem = api.call("PATCH", JOB, {"version": 1, "schedule": schedule})
    assert (status, problem["type"]) == (422, "urn:tickwork:problem:bad-schedule")
    assert problem["errors"][0]["field"].startswith("schedule")
    assert api.call("GET", JOB)[1]["version"] == before["version"]


def test_a_schedule_that_can_not_be_read_any_more_can_be_replaced(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, tolerance_s=7)
    item = ports.store._tables[JOBS.name]["payments:rates"][""]  # type: ignore[attr-defined]
    item["schedule"] = {"from": "the future"}
    kept = change(api, lease_s=90)
    assert (kept["schedule"], kept["lease_s"]) == (item["schedule"], 90)
    job = change(api, version=2, schedule=HOURLY)
    assert (job["next"]["scheduled_at"], job["tolerance_s"]) == ("2026-10-30T01:00:00Z", 7)


def test_a_parked_job_whose_schedule_can_not_be_read_is_not_set_going_by_another_change(
    api: ApiUnderTest, ports: Ports
) -> None:
    create_job(api)
    item = ports.store._tables[JOBS.name]["payments:rates"][""]  # type: ignore[attr-defined]
    item |= {"schedule": {"from": "the future"}, "status": "error", "next_scheduled_at_ms": 0, "next_fire_at_ms": 0}
    assert api.call("PATCH", JOB, {"version": 1, "lease_s": 90})[0] == 422


PUSHED = {
    "schedule": {"rate": "1 hour"},
    "target": {"url": "https://hooks.example.com/x", "max_concurrency": 3},
    "resources": [{"name": "db", "max_concurrency": 2}],
}


@pytest.fixture
def pushing() -> Ports:
    return fake_ports(layout=Layout(pools=("payments", "push"), require_certificates=True))


def test_the_cap_of_a_url_is_found_in_whatever_order_the_store_gives_its_tags(pushing: Ports) -> None:
    """DynamoDB keeps no order among the members of a map."""
    api = ApiUnderTest(pushing)
    before = create_job(api, **PUSHED)
    item = pushing.store._tables[JOBS.name]["payments:rates"][""]  # type: ignore[attr-defined]
    item["work"]["resources"] = dict(reversed(item["work"]["resources"].items()))

    after = change(api, lease_s=90)

    assert (after["target"], after["resources"]) == (PUSHED["target"], PUSHED["resources"])
    assert after == before | {"version": 2, "lease_s": 90, "changed": True}


def test_a_url_keeps_its_certificate_until_it_is_another(pushing: Ports) -> None:
    api = ApiUnderTest(pushing)
    certificate = CERTIFICATE | {"job": "push"}
    before = create_job(api, **PUSHED, side_effects=["payment"], certificate=certificate)
    assert change(api, lease_s=90)["certificate"] == before["certificate"]
    other = {"version": 2, "target": {"url": "https://hooks.example.com/y"}}
    status, problem = api.call("PATCH", JOB, other)
    assert (status, problem["errors"][0]["field"]) == (422, "certificate")


def test_a_new_calendar_brings_back_nothing_from_before_a_change(api: ApiUnderTest, ports: Ports) -> None:
    """The reconciler moves what is pending; what the new schedule had before it was the job's never was its own."""
    api.call("PUT", "/calendars/payments:holidays", {"dates": ["2026-12-25"]})
    create_job(api, schedule={"rate": "1 day", "anchor": "2026-10-30T01:00:00Z"}, tolerance_s=0)
    move(ports, 3_600)
    windows(ports)
    move(ports, 4 * 3_600 + 10)
    pending = change(api, schedule=HOURLY | {"calendars": {"exclude": ["holidays"]}})["next"]
    assert pending["scheduled_at"] == "2026-10-30T06:00:00Z"

    api.call("PUT", "/calendars/payments:holidays", {"version": 1, "dates": ["2026-12-24"]})
    reconcile(ports)

    assert {message["scheduled_at"] for message in ready(ports)} == {"2026-10-30T01:00:00Z"}
    assert api.call("GET", JOB)[1]["next"] == pending


def test_a_new_calendar_brings_back_nothing_from_before_the_job(api: ApiUnderTest, ports: Ports) -> None:
    api.call("PUT", "/calendars/payments:holidays", {"dates": ["2026-12-25"]})
    create_job(api, schedule={"cron": "0 2 * * *", "calendars": {"exclude": ["holidays"]}})

    api.call("PUT", "/calendars/payments:holidays", {"version": 1, "dates": ["2026-10-30"]})
    reconcile(ports)

    assert ready(ports) == []
    assert api.call("GET", JOB)[1]["next"]["scheduled_at"] == "2026-10-31T02:00:00Z"


def test_there_is_nothing_to_change_in_a_job_that_is_not_there(api: ApiUnderTest) -> None:
    assert api.call("PATCH", JOB, {"version": 1})[0] == 404
    assert api.call("POST", f"{JOB}/pause", {"by": "me", "reason": "x"})[0] == 404
    create_job(api)
    api.call("DELETE", JOB)
    assert api.call("PATCH", JOB, {"version": 2, "lease_s": 90})[0] == 404


# --- pausing --------------------------------------------------------------------------------------------------


def test_a_paused_job_skips_with_the_reason_and_goes_on_when_resumed(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    assert pause(api)["status"] == "paused"
    for _ in range(2):
        move(ports, 10)
        windows(ports)
    assert ready(ports) == []

    status, job = api.call("POST", f"{JOB}/resume", {"by": "ann"})
    assert (status, job["status"], job["changed"]) == (200, "active", True)
    move(ports, 10)
    windows(ports)

    why = "paused by local (ops@example.org): migration"
    assert runs(api)[1:] == [
        ("2026-10-30T00:00:30Z", "queued", None),
        ("2026-10-30T00:00:20Z", "skipped", why),
        ("2026-10-30T00:00:10Z", "skipped", why),
    ]
    assert [message["scheduled_at"] for message in ready(ports)] == ["2026-10-30T00:00:30Z"]
    assert job["pauses"] == [
        {
            "by": "local (ops@example.org)",
            "reason": "migration",
            "from": "2026-10-30T00:00:00.000Z",
            "until": "2026-10-30T00:00:20.000Z",
            "resumed_by": "local (ann)",
        }
    ]


def test_a_pause_ends_by_itself_and_its_end_is_the_first_instant_that_runs(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    pause(api, until="2026-10-30T00:00:20Z")
    for _ in range(2):
        move(ports, 10)
        windows(ports)
    assert [message["scheduled_at"] for message in ready(ports)] == ["2026-10-30T00:00:20Z"]
    assert api.call("GET", JOB)[1]["status"] == "active"
    assert api.call("POST", f"{JOB}/resume", {"by": "ann"})[1]["changed"] is False


def test_what_was_due_before_the_pause_runs_and_what_it_covered_stays_skipped(api: ApiUnderTest, ports: Ports) -> None:
    """The scanners stand still meanwhile: the decision goes by nominal time, not by when it is made."""
    create_job(api, catch_up={"policy": "all"})
    move(ports, 15)
    pause(api)
    move(ports, 20)
    api.call("POST", f"{JOB}/resume", {"by": "ann"})
    move(ports, 10)
    for _ in range(6):
        windows(ports)
    due = [message["scheduled_at"][-9:-1] for message in ready(ports)]
    assert due == ["00:00:10", "00:00:40"]


def test_of_more_pauses_than_are_kept_the_last_one_holds(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule=HOURLY)
    for number in range(PAUSES_KEPT_MAX):
        pause(api, reason=f"the {number}th")
        move(ports, 10)
        api.call("POST", f"{JOB}/resume", {"by": "ann"})
        move(ports, 10)
    last = pause(api, reason="the last")
    assert (last["status"], len(last["pauses"])) == ("paused", PAUSES_KEPT_MAX)
    move(ports, 3_600)
    windows(ports)
    assert ready(ports) == []
    assert runs(api)[-1] == ("2026-10-30T01:00:00Z", "skipped", "paused by local (ops@example.org): the last")


def test_a_pause_by_other_words_replaces_the_one_in_force_and_the_same_again_is_a_no_op(api: ApiUnderTest) -> None:
    create_job(api)
    first = pause(api)
    assert pause(api) == first
    second = pause(api, until="2026-10-30T01:00:00Z")
    assert [one["until"] for one in second["pauses"]] == ["2026-10-30T01:00:00.000Z"]


def test_the_preview_says_what_a_pause_will_skip(api: ApiUnderTest) -> None:
    create_job(api, schedule=HOURLY)
    pause(api, until="2026-10-30T02:00:00Z")
    notes = [row["note"] for row in api.call("GET", f"{JOB}/next", count="2")[1]["occurrences"]]
    assert notes == ["will be skipped: paused by local (ops@example.org): migration", None]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"by": "ann"}, "reason"),
        ({"by": "ann", "reason": "x", "until": "2020-01-01T00:00:00Z"}, "until"),
        ({"by": "ann", "reason": "x", "until": "soon"}, "until"),
        ({"by": "ann", "reason": "x", "until": "9999-12-31T23:59:59-14:00"}, "until"),
        ({"by": "ann", "reason": "x", "until": "0001-01-01T00:00:00+14:00"}, "until"),
    ],
    ids=str,
)
def test_a_bad_pause_is_refused(api: ApiUnderTest, body: dict[str, Any], field: str) -> None:
    create_job(api)
    status, problem = api.call("POST", f"{JOB}/pause", body)
    assert (status, problem["errors"][0]["field"]) == (422, field)
    assert "pauses" not in api.call("GET", JOB)[1]


def test_a_change_keeps_the_pause_and_a_pause_makes_an_older_version_stale(api: ApiUnderTest) -> None:
    create_job(api)
    paused = pause(api)
    assert api.call("PATCH", JOB, {"version": 1, "lease_s": 90})[0] == 412
    assert change(api, version=paused["version"], lease_s=90)["status"] == "paused"


# --- history --------------------------------------------------------------------------------------------------


def test_pages_of_runs_lose_none_of_two_items_of_one_instant(api: ApiUnderTest) -> None:
    create_job(api, schedule={"cron": "0 * * * *"})
    change(api, tolerance_s=200)
    whole = api.call("GET", f"{JOB}/runs")[1]["runs"]
    assert [run["status"] for run in whole].count("cancelled") == 1
    assert len({run["scheduled_at"] for run in whole}) == 1

    pages: list[Any] = []
    query = {"limit": "1"}
    for _ in whole:
        page = api.call("GET", f"{JOB}/runs", **query)[1]
        pages += page["runs"]
        query["cursor"] = page["cursor"]
    assert pages == whole


@pytest.mark.parametrize(
    "position",
    [
        [5, "p", "s"],
        [5, "main#0001#29888640", "x" * 5_000],
        [1793318400000, "main#0001#29888640", "1793318400#payments#rates#1793318410"],
        [1793318400000, "main#0001#29888640", "1793318400#other#rates#1793318400"],
    ],
    ids=["no keys", "long", "another instant", "another team"],
)
def test_a_cursor_of_runs_that_no_run_of_the_job_has_is_refused(api: ApiUnderTest, position: list[Any]) -> None:
    """DynamoDB refuses keys over 1 KB with an error of its own."""
    create_job(api)
    status, problem = api.call("GET", f"{JOB}/runs", cursor=cursor(position))
    assert (status, problem["errors"][0]["field"]) == (422, "cursor")


def test_a_run_that_can_not_be_read_hides_no_other(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    move(ports, 10)
    windows(ports)
    item = ports.store.scan(TIMERS, limit=10, after=None)[0][0]
    item["status"] = "from-the-future"
    ports.store._tables[TIMERS.name][item["pk"]][item["sk"]] = item  # type: ignore[attr-defined]
    assert len(runs(api)) == 1
    assert ports.store.get(JOBS, {"job_id": "payments:rates"}) is not None
