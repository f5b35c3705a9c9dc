"""Requests made to harm: each gets an answer that a client can read, soon, and leaves nothing behind."""

from __future__ import annotations

import base64
import json
import re
import time
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.support.runs_world import WatchedStore
from tests.unit.api.test_bad_input import JOB, TIMER, assert_nothing_stored, job
from tests.unit.api.test_jobs_and_timers import ready
from tickwork.api.gate import KeyGate
from tickwork.api.table import ROUTES
from tickwork.core.errors import AlreadyExists
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.tables import LEASES, PAYLOADS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.jobs import registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import timers
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import Ports

START = {"ref": "main#0001#29888640|1793318405#payments#nightly#1793318405", "claim": "12345678"}


def cursor(position: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def timer_with(payload: bytes) -> bytes:
    return json.dumps(TIMER).encode()[:-1] + b',"payload":' + payload + b"}"


# --- bodies ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", [b"1e999", b"-1e999", b"[1E400]", b"1" * 5_000], ids=lambda raw: raw[:10])
def test_a_number_that_not_every_reader_can_read_is_no_json(api: ApiUnderTest, ports: Ports, payload: bytes) -> None:
    status, problem = api.call("POST", "/timers", timer_with(payload))

    assert (status, problem["type"]) == (400, "urn:tickwork:problem:malformed-json")
    assert_nothing_stored(ports)


@pytest.mark.parametrize("levels", [101, 300, 5_000, 20_000])
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")], ids=["lists", "objects"])
def test_a_payload_nested_too_deeply_is_refused(
    api: ApiUnderTest, ports: Ports, levels: int, opening: bytes, closing: bytes
) -> None:
    status, problem = api.call("POST", "/timers", timer_with(opening * levels + b"1" + closing * levels))

    assert (status, problem["errors"][0]["field"]) in [(422, "payload"), (400, None)], problem
    assert_nothing_stored(ports)


def test_a_payload_of_a_hundred_levels_comes_back_as_it_was_sent(api: ApiUnderTest) -> None:
    status, created = api.call("POST", "/timers", timer_with(b"[" * 100 + b"]" * 100))

    assert (status, json.dumps(created["payload"])) == (201, "[" * 100 + "]" * 100)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/runs:start", {"worker": "w", "runs": [START | {"dispatched_at_ms": 10**16}]}, "runs.0.dispatched_at_ms"),
        ("/runs:heartbeat", {"runs": [{"ref": START["ref"], "token": 10**40}]}, "runs.0.token"),
        ("/runs:complete", {"runs": [{"ref": START["ref"], "token": 10**40, "outcome": "failed"}]}, "runs.0.token"),
        ("/jobs", job(catch_up={"policy": "all", "max_lateness_s": 10**40}), "catch_up.max_lateness_s"),
    ],
)
def test_a_number_that_can_not_be_kept_or_shown_is_refused(
    api: ApiUnderTest, ports: Ports, path: str, body: dict[str, Any], field: str
) -> None:
    status, problem = api.call("POST", path, body)

    assert (status, problem["errors"][0]["field"]) == (422, field)
    assert_nothing_stored(ports)


# --- paths ------------------------------------------------------------------------------------------------------

SIGNS = ["caf\u00e9", "a\nb", "\u00a7?", "\\", '"', "`", "\x07", "\U0007cd86", "a#b", "%", "%zz", "a%2Fb"]


@pytest.mark.parametrize("text", SIGNS, ids=ascii)
def test_any_text_in_a_path_reaches_its_route_and_is_refused_there(api: ApiUnderTest, ports: Ports, text: str) -> None:
    """Found by `make fuzz`: of signs that the resolver takes for none of a path it was said that there is no such
    path, also to who had shown no credential."""
    walled = ApiUnderTest(ports, KeyGate())
    for route in (one for one in ROUTES if one.at):
        path = re.sub(r"{\w+}", lambda _: text, route.path)
        assert walled.call(route.method, path)[0] == 401, path
        status, problem = api.call(route.method, path)
        assert problem["type"] != "urn:tickwork:problem:no-such-path", path
        assert status in (404, 422), problem


def test_a_path_that_is_not_there_is_told_as_it_was_sent(api: ApiUnderTest) -> None:
    assert "GET /job\u00e9s#1" in api.call("GET", "/job\u00e9s#1")[1]["detail"]


# --- cursors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/jobs", "/runs", "/dead-letters", "/calendars", "/jobs/payments:nightly/runs"])
@pytest.mark.parametrize(
    "position",
    ["", "[" * 60_000, "\ud800", "other:job", "payments:" + "x" * 3_000, "payments:\u65e5", -1, 10**40, [10**40, 0],
     [5, -1], '[[Infinity,"p","s"],null,null,null]', '[[1e999,"p","s"],null,null,null]', '[[5,"",""],null,null,null]',
     "[5,5,5,5]", "[{},{},{},{}]", "[[1],[2],[3],[4]]"],
    ids=lambda position: str(position)[:20].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_a_forged_cursor_is_refused(api: ApiUnderTest, path: str, position: object) -> None:
    query = {} if path.endswith("runs") else {"team": "payments"}
    status, problem = api.call("GET", path, cursor=cursor(position), **query)

    assert (status, problem["errors"][0]["field"]) == (422, "cursor")


def test_a_cursor_nested_too_deeply_is_refused(api: ApiUnderTest) -> None:
    raw = base64.urlsafe_b64encode(b"[" * 60_000).decode()

    assert api.call("GET", "/jobs", team="payments", cursor=raw)[0] == 422


# --- answers --------------------------------------------------------------------------------------------------

LONG = "x" * 1_000_000


@pytest.mark.parametrize(
    "body",
    [
        job(**{LONG: 1}),
        job(schedule={LONG: 1}),
        job(schedule={"at": LONG}),
        job(schedule={"cron": "0 2 * * *", "zone": LONG}),
        job(schedule={"rrule": LONG}),
        job(schedule={"\ud800": 1}),
        job(schedule={"any_of": [{"\ud800": 1}]}),
        JOB | {f"field{number}": 1 for number in range(50_000)},
    ],
    ids=["field", "key", "at", "zone", "rrule", "surrogate", "surrogate inside", "fields"],
)
def test_a_refusal_can_be_sent_and_read_however_long_the_request(api: ApiUnderTest, body: dict[str, Any]) -> None:
    status, _, problem = api.answer("POST", "/jobs", body)

    assert status == 422
    assert len(json.dumps(problem, ensure_ascii=False).encode()) < 20_000
    assert all(fault["remedy"] for fault in problem["errors"])


# --- schedules ------------------------------------------------------------------------------------------------

HOURS, SIXTY = (",".join(map(str, range(count))) for count in (24, 60))
DAYS = "MO,TU,WE,TH,FR,SA,SU"


@pytest.mark.parametrize("days", ["FREQ=DAILY", f"FREQ=MONTHLY;BYDAY={DAYS}", f"FREQ=YEARLY;BYDAY={DAYS}"])
def test_a_rule_of_every_second_is_as_quick_as_any(api: ApiUnderTest, days: str) -> None:
    schedule = {"rrule": f"{days};BYHOUR={HOURS};BYMINUTE={SIXTY};BYSECOND={SIXTY}"}
    began = time.process_time()
    status, shown = api.call("POST", "/schedules:preview", {"schedule": schedule, "count": 1_000})

    assert time.process_time() - began < 1
    assert (status, shown["occurrences"][999]["scheduled_at"]) == (200, "2026-10-30T00:16:40Z")


@pytest.mark.parametrize(
    "rule",
    ["FREQ=DAILY;INTERVAL=\u00b2", "FREQ=DAILY;INTERVAL=" + "9" * 5_000, "FREQ=DAILY;COUNT=" + "9" * 900,
     "FREQ=DAILY;BYHOUR=" + "9" * 900, "FREQ=DAILY;BYHOUR=-1", "FREQ=DAILY;BYMINUTE=60", "FREQ=DAILY;BYSECOND=,",
     f"FREQ=DAILY;BYHOUR={HOURS};BYMINUTE={SIXTY};BYSETPOS=1", "FREQ=YEARLY;BYMONTHDAY=" + "9" * 900],
    ids=lambda rule: rule[:24].encode("ascii", "replace").decode(),
)  # fmt: skip
def test_a_rule_that_can_not_be_read_is_refused(api: ApiUnderTest, rule: str) -> None:
    status, problem = api.call("POST", "/schedules:preview", {"schedule": {"rrule": rule}})

    assert (status, problem["type"]) == (422, "urn:tickwork:problem:bad-schedule")


@pytest.mark.parametrize("until", ["99991231T235959Z", "99991231", "99991230T120000"])
def test_a_rule_until_the_end_of_time_has_no_end(api: ApiUnderTest, until: str) -> None:
    body = {"schedule": {"rrule": f"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0;UNTIL={until}"}, "count": 1}
    status, shown = api.call("POST", "/schedules:preview", body)

    assert (status, shown["occurrences"][0]["scheduled_at"]) == (200, "2026-10-30T09:00:00Z")


@pytest.mark.parametrize("names", [["\ud800"], ["x" * 100], ["a b"], ["a:b:c"], [f"c{n}" for n in range(21)]])
def test_calendars_that_can_not_exist_are_refused_by_name(api: ApiUnderTest, ports: Ports, names: list[str]) -> None:
    status, problem = api.call("POST", "/jobs", job(schedule={"cron": "0 2 * * *", "calendars": {"exclude": names}}))

    assert (status, problem["errors"][0]["field"]) == (422, "schedule.calendars.exclude")
    assert_nothing_stored(ports)


@pytest.mark.parametrize(
    ("content", "status", "field"),
    [
        ({"holidays": [{"rule": "12-25", "name": 1.5}]}, 422, "calendar.holidays[0].name"),
        ({"holidays": [{"rule": "12-25", "name": "x" * 101}]}, 422, "calendar.holidays[0].name"),
        ({"holidays": [{"rule": "12-25", "first_year": 10**40}]}, 422, "calendar.holidays[0]"),
        ({"holidays": [{"rule": "12-25", "name": "\ud800"}]}, 422, "calendar"),
        ({"dates": ["2026-12-24" + " " * 300_000]}, 413, "calendar"),
        ({"version": 10**40}, 422, "version"),
    ],
)
def test_a_calendar_that_can_not_be_stored_is_refused(
    api: ApiUnderTest, ports: Ports, content: dict[str, Any], status: int, field: str
) -> None:
    found, problem = api.call("PUT", "/calendars/payments:holidays", content)

    assert (found, problem["errors"][0]["field"]) == (status, field)
    assert_nothing_stored(ports)


@pytest.mark.parametrize("on_excluded", ["skip", "next_working_day"])
def test_a_calendar_of_thousands_of_entries_is_as_quick_as_any(api: ApiUnderTest, on_excluded: str) -> None:
    days = [(date(2026, 11, 1) + timedelta(days=2 * number)).isoformat() for number in range(1_000)]
    moments = [f"{number // 60:02}:{number % 60:02}" for number in range(1_000)]
    holidays = [{"rule": f"{number % 12 + 1}-{number % 28 + 1}", "name": f"h{number}"} for number in range(1_000)]
    weekly = [{"from": f"mon {moment}", "to": f"tue {moment}"} for moment in moments]
    content = {"dates": days, "weekly": weekly, "holidays": holidays}
    assert api.call("PUT", "/calendars/payments:full", content)[0] == 200
    schedule = {"cron": "0 2 * * *", "calendars": {"exclude": ["full"], "on_excluded": on_excluded}}
    body = {"schedule": schedule, "team": "payments", "count": 200}

    began = time.process_time()
    status, shown = api.call("POST", "/schedules:preview", body)
    assert time.process_time() - began < 1
    assert (status, len(shown["occurrences"])) == (200, 200)


# --- what is refused leaves nothing, and what is listed has an end ----------------------------------------------


def test_a_batch_that_leaves_nothing_behind_is_refused_as_a_whole(api: ApiUnderTest, ports: Ports) -> None:
    api.call("POST", "/timers", TIMER | {"client_key": "taken"})
    before = ports.store.scan(TIMERS, limit=10, after=None)
    past = {"team": "payments", "at": "2026-10-29T00:00:00Z", "target": TIMER["target"]}
    status, problem = api.call(
        "POST", "/timers:batch", {"timers": [TIMER | {"client_key": "taken", "delay_s": 9}, past]}
    )

    assert (status, problem["errors"][0]["field"]) == (409, "timers.0.client_key")
    assert ports.store.scan(TIMERS, limit=10, after=None) == before


def test_a_batch_whose_key_is_taken_at_that_moment_still_sees_to_the_timers_before_it(ports: Ports) -> None:
    """no-lost-timer: they are in the ledger, and their window may have been announced already."""
    watched = WatchedStore(ports.store)
    racing = replace(ports, store=watched)
    mine = [NewTimer("payments", ports.clock.now_ms(), Work("payments", "job"))]
    keyed = NewTimer("payments", ports.clock.now_ms(), Work("payments", "job"), "key", "mine")
    timers.create_timers(ports, mine)
    for slice_no in range(ports.layout.slices):
        run_window(ports, slice_no, ports.clock.now_ms() // 1_000)
    sent = len(ready(ports))
    watched.before_commit = lambda: timers.create_timers(ports, [replace(keyed, fingerprint="theirs")])

    with pytest.raises(AlreadyExists):
        timers.create_timers(racing, [*mine, keyed])

    assert len(ready(ports)) == sent + 2, "theirs, and the one of mine that was written"


def test_a_replay_of_a_run_that_never_was_makes_no_cursors(api: ApiUnderTest, ports: Ports) -> None:
    """cursor-honest: a slice whose cursors began in 1970 would serve half a century before anything else."""
    order = {"team": "payments", "runs": ["main#0001#00000000|0000000000#payments#x#0000000000"]}
    status, answer = api.call("POST", "/dead-letters:replay", order | {"by": "ann", "reason": "test"})

    assert (status, answer["runs"][0]["reason"]) == (200, "unknown")
    assert ports.store.scan(LEASES, limit=10, after=None)[0] == []


def test_a_list_among_many_deleted_jobs_reads_so_many_of_them_at_a_time(api: ApiUnderTest, ports: Ports) -> None:
    for number in range(30):
        api.call("POST", "/jobs", job(name=f"job-{number:02}"))
        api.call("DELETE", f"/jobs/payments:job-{number:02}")
    api.call("POST", "/jobs", job(name="last"))
    pages, after = [], {}
    while True:
        _, page = api.call("GET", "/jobs", team="payments", limit="1", **after)
        pages.append([one["name"] for one in page["jobs"]])
        if page["cursor"] is None:
            break
        after = {"cursor": page["cursor"]}

    assert pages == [[], [], [], ["last"]]


def test_a_job_keeps_its_own_payload_when_another_of_its_name_is_refused(ports: Ports) -> None:
    schedule = parse_schedule({"rate": "1 hour"}, now_ms=ports.clock.now_ms()).spec
    mine, theirs = (
        NewJob("payments", "n", schedule, Work("default", "job", f'"{text * 500}"'), 0, CatchUp(), text)
        for text in ("m", "t")
    )
    watched = WatchedStore(ports.store)
    watched.before_commit = lambda: registering.create_job(ports, mine)

    with pytest.raises(AlreadyExists):
        registering.create_job(replace(ports, store=watched), theirs)

    kept = registering.get_job(ports, "payments:n").work.payload_id
    stored = ports.store.get(PAYLOADS, {"payload_id": kept})
    assert stored is not None
    assert stored["payload"] == mine.work.payload


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/schedules:preview", {"schedule": {"cron": "0 2 * * *"}, "team": "No Team"}, "team"),
        (
            "/dead-letters:replay",
            {"team": "payments", "filter": {"since": "x"}, "by": "a", "reason": "b"},
            "filter.since",
        ),
    ],
)
def test_a_fault_is_named_by_where_the_client_wrote_it(
    api: ApiUnderTest, path: str, body: dict[str, Any], field: str
) -> None:
    status, problem = api.call("POST", path, body)

    assert (status, problem["errors"][0]["field"]) == (422, field)
