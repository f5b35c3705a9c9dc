"""The registration contract: owner, pager route, tags, dead-man's switch (A3), and what the strict tags demand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import FakePager, fake_ports
from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import create_job
from tickwork.core.jobs import contracts
from tickwork.core.jobs.definitions import Job, registered
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import longest_gap_s, parse_calendar, parse_schedule
from tickwork.flows.jobs import registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

JOB = "/jobs/payments:rates"
HOOK, TOPIC = "https://hooks.example.org/payments", "arn:aws:sns:eu-west-1:123456789012:env-pager-payments"
NOW = 1_793_232_000_000


@pytest.fixture
def ports() -> Ports:
    return fake_ports(MemoryStore(), Layout(shards=2, slices=1, pools=("default", "payments")))


@pytest.fixture
def api(ports: Ports) -> ApiUnderTest:
    return ApiUnderTest(ports)


def team(api: ApiUnderTest, *routes: tuple[str, str], version: int | None = None, **content: Any) -> dict[str, Any]:
    told = [{"kind": kind, "address": address} for kind, address in routes]
    body = {"contact": "ann", "routes": told} | content | ({"version": version} if version else {})
    status, answer = api.call("PUT", "/teams/payments", body)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def refused(answer: tuple[int, Any]) -> dict[str, Any]:
    assert answer[0] == 422, answer
    (fault,) = answer[1]["errors"]
    found: dict[str, Any] = fault
    return found


def new(**fields: Any) -> dict[str, Any]:
    base = {"team": "payments", "name": "rates", "schedule": {"rate": "1 hour"}, "target": {"pool": "default"}}
    return base | fields


# --- saying it ------------------------------------------------------------------------------------------------


FULL = {
    "owner": "bob",
    "pager_route": HOOK,
    "runbook": "https://wiki.example.org/rates",
    "description": "rates of the day",
    "tags": ["compliance", "rates"],
    "dead_man_switch": "on",
    "max_silence_s": 10_800,
    "min_duration_s": 5,
}


def test_a_job_says_who_answers_for_it_and_shows_it(api: ApiUnderTest) -> None:
    team(api, ("topic", TOPIC), ("webhook", HOOK))
    shown = create_job(api, **FULL)
    assert {name: shown[name] for name in FULL} == FULL


def test_the_same_contract_in_other_words_is_the_same_request(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK))
    body = new(**FULL, payload=None)
    assert api.call("POST", "/jobs", body)[0] == 201
    status, again = api.call("POST", "/jobs", body | {"tags": ["rates", "compliance", "rates"]})
    assert (status, again["version"]) == (200, 1)


def test_a_job_that_says_nothing_of_it_stores_nothing_of_it(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    item = ports.store.get(JOBS, {"job_id": "payments:rates"})
    assert item is not None
    assert not FULL.keys() & item.keys()


def test_a_change_takes_one_part_back_and_leaves_the_others(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK))
    create_job(api, **FULL)
    status, changed = api.call("PATCH", JOB, {"version": 1, "owner": None, "tags": ["compliance"]})
    assert (status, changed["tags"]) == (200, ["compliance"])
    assert "owner" not in changed
    assert changed["max_silence_s"] == FULL["max_silence_s"]


def test_what_is_sent_back_as_it_is_shown_changes_nothing(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK))
    shown = create_job(api, **FULL)
    status, changed = api.call("PATCH", JOB, {"version": 1} | {name: shown[name] for name in FULL})
    assert (status, changed["changed"], changed["version"]) == (200, False, 1)


def test_a_change_of_a_job_without_a_contract_is_known_by_the_fingerprint_of_before(
    api: ApiUnderTest, ports: Ports
) -> None:
    """Versions that knew of no contract made fingerprints without one: zeros and empty texts must not be in it."""
    create_job(api, schedule={"rate": "1 hour", "anchor": "2026-10-29T00:00:00Z"})
    api.call("PATCH", JOB, {"version": 1, "lease_s": 120})
    job = registering.get_job(ports, "payments:rates")
    assert job.fingerprint == "2548d7dd7009b8b009084434414df8b0"


@pytest.mark.parametrize(
    "fields",
    [
        {"max_silence_s": 299},
        {"min_duration_s": 0},
        {"dead_man_switch": "perhaps"},
        {"tags": ["Two Words"]},
        {"tags": [f"t{n}" for n in range(21)]},
        {"owner": ""},
    ],
)
def test_what_makes_no_sense_is_refused_by_its_field(api: ApiUnderTest, fields: dict[str, Any]) -> None:
    status, answer = api.call("POST", "/jobs", new(**fields))
    assert status == 422
    assert answer["errors"][0]["field"].startswith(next(iter(fields)))


# --- what the strict tags demand ------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", ["compliance", "financial"])
def test_a_strict_tag_is_refused_without_a_route(api: ApiUnderTest, tag: str) -> None:
    team(api)
    fault = refused(api.call("POST", "/jobs", new(tags=[tag], dead_man_switch="on")))
    assert fault["field"] == "pager_route"
    assert tag in fault["detail"]
    assert "tickwork teams set payments" in fault["remedy"]


def test_a_strict_tag_is_refused_without_a_switch(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK))
    fault = refused(api.call("POST", "/jobs", new(tags=["financial"])))
    assert (fault["field"], "dead_man_switch" in fault["remedy"]) == ("dead_man_switch", True)
    fault = refused(api.call("POST", "/jobs", new(tags=["financial"], dead_man_switch="off", max_silence_s=3_600)))
    assert fault["field"] == "dead_man_switch"


@pytest.mark.parametrize("switch", [{"dead_man_switch": "on"}, {"max_silence_s": 7_200}])
def test_a_strict_tag_is_taken_with_both(api: ApiUnderTest, switch: dict[str, Any]) -> None:
    team(api, ("webhook", HOOK))
    assert api.call("POST", "/jobs", new(tags=["financial"], **switch))[0] == 201


def test_other_tags_demand_nothing(api: ApiUnderTest) -> None:
    assert api.call("POST", "/jobs", new(tags=["nightly"]))[0] == 201


def test_a_team_says_it_for_its_jobs(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK), defaults={"dead_man_switch": "on"})
    assert api.call("POST", "/jobs", new(tags=["financial"]))[0] == 201


def test_a_tag_that_a_team_gives_to_all_its_jobs_demands_the_same(api: ApiUnderTest) -> None:
    team(api, defaults={"tags": ["compliance"]})
    assert refused(api.call("POST", "/jobs", new(dead_man_switch="on")))["field"] == "pager_route"


def test_a_route_that_is_not_the_teams_is_refused(api: ApiUnderTest) -> None:
    team(api, ("topic", TOPIC))
    fault = refused(api.call("POST", "/jobs", new(pager_route=HOOK)))
    assert (fault["field"], TOPIC in fault["remedy"]) == ("pager_route", True)


def test_a_route_that_the_team_got_a_second_ago_counts(api: ApiUnderTest, ports: Ports) -> None:
    team(api)
    refused(api.call("POST", "/jobs", new(tags=["financial"], dead_man_switch="on")))
    other = ApiUnderTest(fake_ports(ports.store, ports.layout))  # another process
    team(other, ("webhook", HOOK), version=1)
    assert api.call("POST", "/jobs", new(tags=["financial"], dead_man_switch="on"))[0] == 201


def test_a_change_may_not_take_away_what_a_tag_demands(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK))
    create_job(api, tags=["financial"], dead_man_switch="on")
    assert refused(api.call("PATCH", JOB, {"version": 1, "dead_man_switch": "off"}))["field"] == "dead_man_switch"
    assert api.call("PATCH", JOB, {"version": 1, "dead_man_switch": "off", "tags": None})[0] == 200


def test_what_breaks_its_contract_already_is_changed_in_other_things(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK))
    create_job(api, tags=["financial"], dead_man_switch="on")
    team(api, version=1)  # the team gives up its route
    status, changed = api.call("PATCH", JOB, {"version": 1, "lease_s": 120})
    assert (status, changed["version"]) == (200, 2)


# --- stopping what is tagged ----------------------------------------------------------------------------------


def test_a_tagged_job_is_not_deleted_without_a_reason_and_the_audit_keeps_it(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK))
    create_job(api, tags=["compliance"], dead_man_switch="on")
    assert refused(api.call("DELETE", JOB))["field"] == "reason"
    assert api.call("DELETE", JOB, reason="replaced by rates-2")[0] == 200
    assert api.call("DELETE", JOB)[1]["changed"] is False  # again is a no-op, whatever it says
    (entry, *_) = api.call("GET", "/audit", team="payments", object="job:rates")[1]["entries"]
    assert (entry["action"], entry["facts"]) == ("job.deleted", {"reason": "replaced by rates-2"})


def test_who_answers_for_a_tagged_job_hears_that_it_is_paused_and_that_it_is_deleted(
    api: ApiUnderTest, ports: Ports
) -> None:
    team(api, ("topic", TOPIC))
    create_job(api, tags=["compliance"], dead_man_switch="on")
    create_job(api, name="other")
    for path in (JOB, JOB, "/jobs/payments:other"):  # again is a no-op, and says nothing again
        assert api.call("POST", f"{path}/pause", {"by": "ann", "reason": "the bank is closed"})[0] == 200
    api.call("DELETE", JOB, reason="replaced")
    api.call("DELETE", JOB, reason="replaced")
    api.call("DELETE", "/jobs/payments:other", reason="replaced")
    assert isinstance(ports.pager, FakePager)
    paused, deleted = [text for address, text in ports.pager.sent if address == TOPIC]
    assert paused.endswith("the bank is closed")
    assert "was deleted by" in deleted


def test_a_route_that_fails_stops_no_pause(api: ApiUnderTest, ports: Ports) -> None:
    team(api, ("topic", TOPIC))
    create_job(api, tags=["compliance"], dead_man_switch="on")
    assert isinstance(ports.pager, FakePager)
    ports.pager.broken.add(TOPIC)
    assert api.call("POST", f"{JOB}/pause", {"reason": "the bank is closed"})[0] == 200
    assert any(action == "owner_not_told" for action, _ in ports.signals.lines)  # type: ignore[attr-defined]


def test_any_other_job_is_deleted_without_one(api: ApiUnderTest) -> None:
    create_job(api, tags=["nightly"])
    assert api.call("DELETE", JOB)[0] == 200


def test_a_job_is_paused_with_a_reason_only(api: ApiUnderTest) -> None:
    create_job(api)
    assert api.call("POST", f"{JOB}/pause", {"by": "ann"})[0] == 422


# --- the list of violations -----------------------------------------------------------------------------------


def test_violations_of_what_exists_are_listed_and_nothing_is_stopped(api: ApiUnderTest) -> None:
    team(api, ("webhook", HOOK))
    create_job(api, tags=["compliance"], dead_man_switch="on")
    create_job(api, name="other")
    team(api, version=1)
    status, page = api.call("GET", "/contracts:check", team="payments")
    assert status == 200
    found = [(one["job_id"], one["field"], one["refused"]) for one in page["violations"]]
    assert found == [("payments:rates", "pager_route", True), ("payments:rates", "pager_route", False)]
    assert api.call("GET", JOB)[1]["status"] == "active"


def test_of_a_team_that_nobody_registered_nobody_answers_for_the_jobs(api: ApiUnderTest) -> None:
    create_job(api)
    page = api.call("GET", "/contracts:check", team="payments")[1]
    assert [(one["field"], one["refused"]) for one in page["violations"]] == [("owner", False)]


# --- how long it may be silent --------------------------------------------------------------------------------


def gap_of(spec: dict[str, Any], **calendars: Any) -> int | None:
    schedule = parse_schedule(spec, now_ms=NOW, job_id="payments:rates")
    return longest_gap_s(schedule, NOW, calendars)


@pytest.mark.parametrize(
    ("spec", "hours"),
    [
        ({"cron": "0 2 * * *"}, 24),
        ({"cron": "0 2 * * *", "zone": "America/New_York"}, 25),  # clocks go back
        ({"cron": "0 */6 * * *"}, 6),
        ({"cron": "*/5 9-17 * * 1-5"}, 63 + 5 / 60),  # the weekend
        ({"cron": "0 0 29 2 *"}, 1461 * 24),
        ({"cron": "0 0 1 1 *"}, 366 * 24),
        ({"rate": "90 minutes"}, 1.5),
    ],
)
def test_the_longest_gap_is_found_wherever_in_four_years_it_lies(spec: dict[str, Any], hours: float) -> None:
    assert gap_of(spec) == round(hours * 3_600)


def test_a_calendar_makes_a_gap_that_lies_a_year_ahead() -> None:
    off = parse_calendar({"name": "h", "ranges": [{"from": "2027-12-20", "to": "2027-12-31"}]})
    spec = {"cron": "*/10 * * * *", "calendars": {"exclude": ["h"]}}
    assert gap_of(spec, h=off) == 12 * 86_400 + 600


def test_what_is_due_once_has_no_gap() -> None:
    assert gap_of({"at": "2027-12-01T00:00:00Z"}) is None


def job_of(spec: dict[str, Any], **fields: Any) -> Job:
    schedule = parse_schedule(spec, now_ms=NOW, job_id="payments:rates")
    definition = NewJob("payments", "rates", schedule.spec, Work("default", "rates"), tolerance_s=60)
    return registered(definition, created_at_ms=NOW, **fields)


@pytest.mark.parametrize(
    ("spec", "fields", "silence_s"),
    [
        ({"cron": "0 2 * * *"}, {}, 2 * 86_400 + 60),
        ({"cron": "0 2 * * *"}, {"usual_s": 1_800}, 2 * 86_400 + 60 + 1_800),
        ({"rate": "1 minute"}, {}, 2 * 150 + 60),
        ({"at": "2027-12-01T00:00:00Z"}, {}, 300),
    ],
)
def test_the_usual_silence_is_two_gaps_and_what_a_run_takes(
    spec: dict[str, Any], fields: dict[str, Any], silence_s: int
) -> None:
    job = job_of(spec, **fields)
    assert contracts.max_silence_s(job, contracts.contract_of(job, None), NOW) == silence_s


def test_a_bound_that_the_schedule_does_not_keep_is_warned_of(api: ApiUnderTest) -> None:
    shown = create_job(api, schedule={"cron": "0 2 * * *"}, max_silence_s=3_600)
    assert any(one.startswith("silence_shorter_than_gap: ") for one in shown["warnings"])
    calm = create_job(api, name="calm", schedule={"cron": "0 2 * * *"}, max_silence_s=90_000)
    assert not any("silence" in one for one in calm["warnings"])
