"""A request that an honest client repeats gets the first answer, however late and however it is written (A10)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import move, ready, start, windows
from tickwork.api.timers.bodies import TimerIn
from tickwork.core.errors import Conflict, OutcomeUnknown
from tickwork.core.ledger.tables import CLIENT_KEYS, JOBS, TIMERS
from tickwork.core.ledger.writes import Anyway, Committed, Delete, Refused, Update, Write
from tickwork.ports import Layout, Ports

TARGET = {"pool": "payments", "handler": "settlement"}
DAY_S = 86_400
LATER = pytest.mark.parametrize("later_s", [70, 20 * DAY_S])

type Body = dict[str, Any]


def timer(**fields: Any) -> Body:
    return {"team": "payments", "target": TARGET, "client_key": "order-1"} | fields


def job(**fields: Any) -> Body:
    return {
        "team": "payments",
        "name": "rates",
        "schedule": {"rate": "1 hour"},
        "target": {"pool": "payments"},
    } | fields


def items(ports: Ports, table: Any = TIMERS) -> list[Any]:
    return ports.store.scan(table, limit=500, after=None)[0]


# --- however late ---------------------------------------------------------------------------------------------


@LATER
@pytest.mark.parametrize(
    "asked",
    [
        timer(at="2026-10-30T00:00:05Z"),
        timer(at="2026-10-30T01:00:05", zone="Europe/Berlin"),
        timer(delay_s=5),
        timer(at="2026-10-30T00:00:00Z"),
        timer(at="2026-10-30T00:00:05Z", payload={"text": "x" * 1_000}),
    ],
)
def test_a_timer_repeated_after_its_time_is_the_first_one(
    api: ApiUnderTest, ports: Ports, asked: Body, later_s: int
) -> None:
    status, first = api.call("POST", "/timers", asked)
    move(ports, later_s)
    windows(ports)
    again, timer_again = api.call("POST", "/timers", asked)

    assert (status, again) == (201, 200)
    assert timer_again["timer_id"] == first["timer_id"]
    assert len(items(ports)) == len({message["run_id"] for message in ready(ports)}) == 1


def test_a_timer_without_a_key_whose_time_has_passed_is_refused_as_ever(api: ApiUnderTest) -> None:
    past = timer(at="2026-10-29T23:58:00Z")
    del past["client_key"]
    assert api.call("POST", "/timers", past)[0] == 422
    assert api.call("POST", "/timers", past | {"client_key": "new"})[0] == 422


def test_a_passed_time_under_the_key_of_another_timer_is_no_repeat(api: ApiUnderTest) -> None:
    api.call("POST", "/timers", timer(delay_s=5))
    status, problem = api.call("POST", "/timers", timer(at="2026-10-29T23:58:00Z"))
    assert (status, problem["errors"][0]["field"]) == (422, "at")


def test_a_repeat_is_known_though_its_pool_is_gone_meanwhile(api: ApiUnderTest, ports: Ports) -> None:
    _, first = api.call("POST", "/timers", timer(delay_s=5))
    later = ApiUnderTest(replace(ports, layout=Layout(pools=("default",))))
    status, again = later.call("POST", "/timers", timer(delay_s=5))
    assert (status, again) == (200, first)


@LATER
@pytest.mark.parametrize(
    "schedule",
    [
        {"at": "2026-10-30T00:00:05Z"},
        {"delay": "5s"},
        {"rate": "10 seconds", "end": "2026-10-30T00:00:30Z"},
        {"cron": "* * * * *", "count": 1},
        {"any_of": [{"at": "2026-10-30T00:00:05Z"}, {"delay_s": 7}]},
        {"rrule": "DTSTART:20261030T000030Z\nRRULE:FREQ=DAILY;COUNT=1"},
    ],
)
def test_a_job_registered_again_after_its_last_occurrence_is_the_first_one(
    api: ApiUnderTest, ports: Ports, schedule: Body, later_s: int
) -> None:
    status, first = api.call("POST", "/jobs", job(schedule=schedule))
    assert status == 201, first
    for _ in range(8):
        move(ports, 10)
        windows(ports)
    move(ports, later_s)
    windows(ports)
    again, job_again = api.call("POST", "/jobs", job(schedule=schedule))

    assert (again, job_again["version"], job_again["schedule"]) == (200, 1, first["schedule"])
    assert job_again["status"] == "finished"
    assert job_again["warnings"] == first["warnings"]


@LATER
@pytest.mark.parametrize("change", [{"at": "2026-10-30T00:00:05Z"}, {"delay": "5s"}, {"rate": "1 minute", "count": 1}])
def test_a_change_repeated_after_its_time_is_a_no_op(
    api: ApiUnderTest, ports: Ports, change: Body, later_s: int
) -> None:
    api.call("POST", "/jobs", job())
    body = {"version": 1, "schedule": change}
    _, first = api.call("PATCH", "/jobs/payments:rates", body)
    move(ports, later_s)
    windows(ports)
    status, again = api.call("PATCH", "/jobs/payments:rates", body)

    assert (status, again["version"], again["schedule"]) == (200, 2, first["schedule"])
    assert again["warnings"] == first["warnings"]


def test_a_change_repeated_after_somebody_paused_the_job_is_a_no_op(api: ApiUnderTest) -> None:
    api.call("POST", "/jobs", job())
    body = {"version": 1, "lease_s": 90}
    api.call("PATCH", "/jobs/payments:rates", body)
    api.call("POST", "/jobs/payments:rates/pause", {"by": "ops", "reason": "migration"})
    status, again = api.call("PATCH", "/jobs/payments:rates", body)

    assert (status, again["version"], again["status"], again["lease_s"]) == (200, 3, "paused", 90)


def test_a_change_repeated_after_somebody_else_has_changed_it_is_refused(api: ApiUnderTest) -> None:
    api.call("POST", "/jobs", job())
    api.call("PATCH", "/jobs/payments:rates", {"version": 1, "lease_s": 90})
    api.call("PATCH", "/jobs/payments:rates", {"version": 2, "lease_s": 60})
    assert api.call("PATCH", "/jobs/payments:rates", {"version": 1, "lease_s": 90})[0] == 412


def test_a_change_that_no_longer_fits_the_job_is_refused_for_its_version(api: ApiUnderTest) -> None:
    api.call("POST", "/jobs", job(catch_up={"policy": "last", "last": 3}))
    api.call("PATCH", "/jobs/payments:rates", {"version": 1, "catch_up": {"policy": "all"}})
    assert api.call("PATCH", "/jobs/payments:rates", {"version": 1, "catch_up": {"last": 5}})[0] == 412
    assert api.call("PATCH", "/jobs/payments:rates", {"version": 2, "catch_up": {"last": 5}})[0] == 422


# --- however it is written --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (timer(at="2026-12-01T08:00:00Z"), timer(at="2026-12-01T08:00:00+00:00")),
        (timer(at="2026-12-01T08:00:00Z"), timer(at="2026-12-01T09:00:00+01:00")),
        (timer(at="2026-12-01T08:00:00Z"), timer(at="2026-12-01T08:00Z")),
        (timer(at="2026-12-01T08:00:00Z"), timer(at="2026-12-01T08:00:00", zone="UTC")),
        (timer(at="2026-12-01T08:00:00Z"), timer(at="2026-12-01T08:00:00.000Z", zone="Europe/Berlin")),
        (timer(at="2026-12-01T08:00:00", zone="Europe/Berlin"), timer(at="2026-12-01T08:00", zone="Europe/Berlin")),
        (timer(delay_s=90), timer(delay_s=90.0)),
        (
            timer(delay_s=5, payload={"a": 1, "b": [{"c": 1, "d": 2}]}),
            timer(delay_s=5, payload={"b": [{"d": 2, "c": 1}], "a": 1}),
        ),
        (timer(delay_s=5, payload=[100, 0.5]), timer(delay_s=5, payload=[100.0, 5e-1])),
        (timer(delay_s=5), timer(delay_s=5, lease_s=60, retry_policy={"max_attempts": 5}, idempotency_class="keyed")),
        (timer(delay_s=5), timer(delay_s=5, retry_policy={}, resources=[], payload=None)),
        (
            timer(delay_s=5, retry_policy={"no_retry_on": ["A", "B"]}, side_effects=["email", "payment"]),
            timer(delay_s=5, retry_policy={"no_retry_on": ["B", "A"]}, side_effects=["payment", "email"]),
        ),
    ],
)
def test_a_timer_asked_for_in_other_words_is_the_same(api: ApiUnderTest, one: Body, other: Body) -> None:
    _, first = api.call("POST", "/timers", one)
    status, again = api.call("POST", "/timers", dict(reversed(other.items())))
    assert (status, again["timer_id"]) == (200, first["timer_id"])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (timer(at="2026-12-01T08:00:00Z"), timer(at="2026-12-01T08:00:01Z")),
        (timer(at="2026-12-01T08:00:00", zone="Europe/Berlin"), timer(at="2026-12-01T08:00:00", zone="Europe/London")),
        (timer(delay_s=90), timer(delay_s=90.5)),
        (timer(delay_s=5, payload=1), timer(delay_s=5, payload=True)),
        (timer(delay_s=5, payload=1), timer(delay_s=5, payload="1")),
        (timer(delay_s=5, payload={}), timer(delay_s=5)),
        (timer(delay_s=5, payload=[1, 2]), timer(delay_s=5, payload=[2, 1])),
        (timer(delay_s=5, payload=9007199254740993), timer(delay_s=5, payload=9007199254740992)),
        (timer(delay_s=5), timer(delay_s=5, retry_policy={"max_attempts": 4})),
        (timer(delay_s=5), timer(at="2026-10-30T00:00:05Z")),
    ],
)
def test_a_timer_that_means_something_else_is_another(api: ApiUnderTest, one: Body, other: Body) -> None:
    api.call("POST", "/timers", one)
    assert api.call("POST", "/timers", other)[0] == 409


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (job(schedule={"rate": "1 hour"}), job(schedule={"rate": "60 minutes"})),
        (job(schedule={"rate": "1 hour"}), job(schedule={"rate": "PT1H", "zone": "UTC"})),
        (job(schedule={"delay": "90s"}), job(schedule={"delay_s": 90})),
        (job(schedule={"delay": "PT1M30S"}), job(schedule={"delay": "1m30s"})),
        (job(schedule={"at": "2026-12-01T08:00:00Z"}), job(schedule={"at": "2026-12-01T08:00:00+00:00"})),
        (job(), job(target={"pool": "payments", "handler": "rates"})),
        (job(), job(tolerance_s=300)),
        (job(), job(catch_up={"policy": "latest"}, retry_policy={"base_s": 30})),
        (
            job(schedule={"rate": "1 hour", "end": "2027-01-01T00:00:00Z"}),
            job(schedule={"end": "2027-01-01T01:00:00+01:00", "rate": "1 hour"}),
        ),
        (
            job(schedule={"any_of": [{"cron": "0 1 * * *"}, {"cron": "0 9 * * *"}]}),
            job(schedule={"any_of": [{"cron": "0 9 * * *"}, {"cron": "0 1 * * *"}]}),
        ),
    ],
)
def test_a_job_asked_for_in_other_words_later_is_the_same(
    api: ApiUnderTest, ports: Ports, one: Body, other: Body
) -> None:
    _, first = api.call("POST", "/jobs", one)
    move(ports, 7)
    status, again = api.call("POST", "/jobs", other)
    assert (status, again["version"], again["next"]) == (200, 1, first["next"])


def test_a_job_of_another_rhythm_is_another(api: ApiUnderTest) -> None:
    api.call("POST", "/jobs", job())
    for schedule in ({"rate": "61 minutes"}, {"delay": "1 hour"}, {"rate": "1 hour", "count": 3}):
        assert api.call("POST", "/jobs", job(schedule=schedule))[0] == 409


# --- what older versions have stored ----------------------------------------------------------------------------


def _of_old(body: Body) -> str:
    """How versions before took a fingerprint: of the words of the request."""
    text = TimerIn.model_validate(body).model_dump_json(exclude_defaults=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def test_a_key_that_an_older_version_has_stored_is_recognised(api: ApiUnderTest, ports: Ports) -> None:
    asked = timer(at="2026-10-30T00:00:05+00:00", payload={"b": 1, "a": 2.0})
    _, first = api.call("POST", "/timers", asked)
    (row,) = items(ports, CLIENT_KEYS)
    key = {"client_key": row["client_key"]}
    ports.store.commit(
        [Update(CLIENT_KEYS, key, Anyway("as before"), set={"fingerprint": _of_old(asked)}, remove=("meaning",))]
    )
    move(ports, 70)

    status, again = api.call("POST", "/timers", asked)
    assert (status, again["timer_id"]) == (200, first["timer_id"])
    assert api.call("POST", "/timers", timer(at="2026-10-31T00:00:05Z"))[0] == 409


def test_an_older_version_finds_in_a_new_row_what_it_compares(api: ApiUnderTest, ports: Ports) -> None:
    asked = timer(delay_s=5, payload={"b": 1, "a": 2.0})
    api.call("POST", "/timers", asked)
    (row,) = items(ports, CLIENT_KEYS)
    assert row["fingerprint"] == _of_old(asked)


def test_a_job_that_an_older_version_has_stored_is_recognised(api: ApiUnderTest, ports: Ports) -> None:
    asked = job(schedule={"at": "2026-10-30T00:00:05Z"})
    _, first = api.call("POST", "/jobs", asked)
    words = json.dumps(asked, separators=(",", ":"))
    text = '{"team":"payments","target":{"pool":"payments"},"name":"rates","schedule":{"at":"2026-10-30T00:00:05Z"}}'
    assert json.loads(words) == json.loads(text)
    old = hashlib.sha256(text.encode()).hexdigest()[:32]
    ports.store.commit([Update(JOBS, {"job_id": "payments:rates"}, Anyway("as before"), set={"fingerprint": old})])
    move(ports, 70)
    windows(ports)

    status, again = api.call("POST", "/jobs", asked)
    assert (status, again["schedule"]) == (200, first["schedule"])


# --- batches ----------------------------------------------------------------------------------------------------


def batch(api: ApiUnderTest, *timers: Body) -> tuple[int, list[Any]]:
    status, answer = api.call("POST", "/timers:batch", {"timers": list(timers)})
    return status, answer.get("timers", answer)


SOON, TOMORROW = (
    timer(at="2026-10-30T00:00:05Z", client_key="soon"),
    timer(at="2026-10-31T00:00:00Z", client_key="tomorrow"),
)


@LATER
def test_a_batch_repeated_after_some_of_it_was_due_is_the_first_one(
    api: ApiUnderTest, ports: Ports, later_s: int
) -> None:
    _, first = batch(api, SOON, TOMORROW)
    move(ports, later_s)
    windows(ports)
    status, again = batch(api, SOON, TOMORROW)

    assert status == 201
    assert [one["timer_id"] for one in again] == [one["timer_id"] for one in first]
    assert [[one["created"] for one in answer] for answer in (first, again)] == [[True, True], [False, False]]
    assert len(items(ports)) == 2


def test_of_a_batch_that_comes_late_the_timers_of_tomorrow_are_made(api: ApiUnderTest, ports: Ports) -> None:
    move(ports, 70)
    status, (soon, tomorrow) = batch(api, SOON, TOMORROW)

    assert status == 207
    assert (soon["created"], soon["problem"], soon["field"]) == (False, "bad-schedule", "timers.0.at")
    assert soon["client_key"] == "soon"
    assert (tomorrow["created"], tomorrow["status"]) == (True, "pending")
    assert batch(api, TOMORROW)[0] == 201


def test_a_key_of_another_timer_in_a_batch_costs_no_other(api: ApiUnderTest, ports: Ports) -> None:
    api.call("POST", "/timers", SOON)
    status, (taken, tomorrow) = batch(api, SOON | {"payload": 1}, TOMORROW)

    assert status == 207
    assert (taken["created"], taken["problem"]) == (False, "already-exists")
    assert tomorrow["created"] is True


@pytest.mark.parametrize(("path", "field"), [("/timers", "team"), ("/timers:batch", "timers.0.team")])
def test_a_key_is_not_looked_up_under_a_name_that_is_no_team_s(api: ApiUnderTest, path: str, field: str) -> None:
    """`payments#a` with the key `b` would be the key `a#b` of payments, and tell of its timer."""
    api.call("POST", "/timers", timer(client_key="a#b", delay_s=5))
    asked = timer(team="payments#a", client_key="b", delay_s=5)
    status, problem = api.call("POST", path, asked if path == "/timers" else {"timers": [asked, TOMORROW]})
    assert (status, problem["errors"][0]["field"]) == (422, field)
    assert "t~main" not in json.dumps(problem)


def test_a_batch_with_what_no_time_would_take_is_refused_as_a_whole(api: ApiUnderTest, ports: Ports) -> None:
    status, problem = api.call("POST", "/timers:batch", {"timers": [TOMORROW, SOON | {"target": {"pool": "nobody's"}}]})
    assert (status, problem["errors"][0]["field"]) == (422, "timers.1.target.pool")
    assert items(ports) == []


class Busy:
    """A store that gives up on the n-th commit of a timer, and on all commits after it."""

    def __init__(self, inner: Any, after: int, error: type[Exception]) -> None:
        self._inner, self._left, self._error = inner, after, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, writes: list[Write]) -> Committed | Refused:
        if any(getattr(write, "table", None) is TIMERS for write in writes):
            if self._left <= 0:
                raise self._error("as asked")
            self._left -= 1
        found: Committed | Refused = self._inner.commit(writes)
        return found


@pytest.mark.parametrize(("error", "said"), [(Conflict, "not created"), (OutcomeUnknown, "not known")])
def test_a_batch_among_busy_tables_says_of_each_what_became_of_it(error: type[Exception], said: str) -> None:
    ports = fake_ports()
    busy = ApiUnderTest(replace(ports, store=Busy(ports.store, 1, error)))
    timers = [timer(delay_s=9, client_key=f"k{i}") for i in range(3)]
    status, (first, second, third) = batch(busy, *timers)

    assert (status, first["created"]) == (207, True)
    assert (second["created"], second["problem"]) == (False, "busy")
    assert said in second["detail"]
    assert (third["problem"], "not created" in third["detail"]) == ("busy", True)
    assert batch(ApiUnderTest(ports), *timers)[0] == 201
    assert len(items(ports)) == 3


# --- a record that is gone ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "asked", [timer(delay_s=5), timer(at="2026-10-30T00:00:05Z"), timer(at="2027-10-30T00:00:05Z")]
)
def test_a_timer_whose_record_has_expired_while_its_key_lives_is_told_and_not_made_again(
    api: ApiUnderTest, ports: Ports, asked: Body
) -> None:
    _, first = api.call("POST", "/timers", asked)
    (item,) = items(ports)
    ports.store.commit([Delete(TIMERS, {"pk": item["pk"], "sk": item["sk"]}, Anyway("its time to live is over"))])
    move(ports, 9 * DAY_S)

    status, again = api.call("POST", "/timers", asked)
    assert (status, again["status"], again["timer_id"]) == (200, "forgotten", first["timer_id"])
    assert (again["fire_at"], again["target"]) == (first["fire_at"], first["target"])
    many, (told,) = batch(api, asked)
    assert (many, told["status"], told["created"]) == (201, "forgotten", False)
    assert items(ports) == []


def test_a_key_is_remembered_for_as_long_as_the_record_of_its_timer(api: ApiUnderTest, ports: Ports) -> None:
    """A delay asked again would else be a second timer, beside the record of the first."""
    api.call("POST", "/timers", timer(delay_s=5))
    (row,) = items(ports, CLIENT_KEYS)
    fires_s = ports.clock.now_ms() // 1000 + 5
    assert row["expires_at_s"] == fires_s + ports.layout.retention_s + 7 * DAY_S


def test_a_repeat_sees_to_a_timer_whose_first_request_died_before_it_did(api: ApiUnderTest, ports: Ports) -> None:
    """no-lost-timer: written behind the cursor, and its creator gone."""
    windows(ports)
    api.call("POST", "/timers", timer(at="2026-10-29T23:59:30Z"))
    ports.sender.sent.clear()  # type: ignore[attr-defined]
    move(ports, 120)

    assert batch(api, timer(at="2026-10-29T23:59:30Z"))[0] == 201
    assert len(ready(ports)) == 1


# --- what a payload says is what arrives ------------------------------------------------------------------------


@pytest.mark.parametrize("is_apart", [False, True], ids=["inline", "kept apart"])
@pytest.mark.parametrize(
    "payload",
    [
        "9007199254740993", "1" * 40, "1" * 4_000, "1e-320", "1.7976931348623157e308", "-0.0",
        "0.1000000000000000055511151231257827", "12345678901234567890.123456789", '"\\u0000"', '"\\u2028"',
        '"\\uffff"', '{"": 1}', "null", "{}", "[]", '""', "0", "false", "1.0",
    ],
)  # fmt: skip
def test_a_payload_arrives_as_it_was_written_and_is_known_again(
    api: ApiUnderTest, ports: Ports, payload: str, is_apart: bool
) -> None:
    """Integers exactly, decimals as the double that RFC 8259 lets readers expect."""
    written = f'[{payload}, "{"x" * 500}"]' if is_apart else payload
    text = json.dumps(timer(delay_s=5, payload="HERE")).replace('"HERE"', written).encode()
    assert api.call("POST", "/timers", text)[0] == 201
    assert api.call("POST", "/timers", text)[0] == 200
    move(ports, 5)
    windows(ports)
    message = ready(ports)[-1]
    arrived = start(api, message).get("payload", message.get("payload"))
    assert repr(arrived) == repr(json.loads(written))


@pytest.mark.parametrize("payload", ["1E400", "NaN", "-Infinity", "1" * 5_000, '{"a": 1, "a": 1}', '"\\ud800"'])
def test_a_payload_that_readers_would_not_agree_on_is_refused(api: ApiUnderTest, payload: str) -> None:
    text = json.dumps(timer(delay_s=5, payload="HERE")).replace('"HERE"', payload).encode()
    assert api.call("POST", "/timers", text)[0] in (400, 422)
