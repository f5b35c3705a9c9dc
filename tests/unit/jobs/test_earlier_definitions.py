"""Earlier definitions and payloads kept apart: they live as long as a run may need them, what is gone is not guessed
at, and a table of them that is refused costs only what needs one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from tests.support.fakes import FakeClock, KeptSignals, RememberingSender
from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import create_job, move, ready, start, windows
from tests.unit.jobs.test_changing_jobs import change
from tests.unit.jobs.test_job_versions import (
    LONG,
    NEW,
    OLD,
    changed,
    deleted,
    fail,
    fired,
    replay,
    retried,
    rows,
    what,
)
from tickwork.core.errors import OutcomeUnknown, Throttled
from tickwork.core.instants import DAY_MS, second_of
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import JOB_VERSIONS, JOBS, PAYLOADS, TIMERS, Table
from tickwork.core.ledger.writes import Anyway, Delete, Update
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import Page, Ports

# --- which one is asked for -----------------------------------------------------------------------------------


def test_a_replay_by_another_version_than_the_run_waits_for_is_no_repeat(api: ApiUnderTest, ports: Ports) -> None:
    first = fired(api, ports)
    fail(api, first, "failed_permanent")
    changed(api)
    change(api, version=2, target={"pool": "payments", "handler": "third"})
    for version, outcome in ((2, None), (2, None), (3, "not_dead"), (1, "not_dead")):
        assert replay(api, first, definition=version)["runs"][0].get("reason") == outcome
    assert retried(ports)["handler"] == "new"
    assert replay(api, first, definition=3)["runs"][0].get("reason") == "not_dead"


@pytest.mark.parametrize("how", ["changed by this version", "as it was"])
def test_a_version_that_nobody_noted_is_not_taken_for_a_later_one(api: ApiUnderTest, ports: Ports, how: str) -> None:
    """Older versions of ours moved a job's version and kept no definition: of version 1 nothing is known."""
    first = fired(api, ports)
    fail(api, first, "failed_permanent")
    change(api, lease_s=90)
    place = {"job_id": "payments:rates", "place": rows(ports)[0]["place"]}
    ports.store.commit([Delete(JOB_VERSIONS, place, Anyway("none kept"))])
    unknown = ("earlier_through_ms", "defined_since")
    ports.store.commit([Update(JOBS, {"job_id": "payments:rates"}, Anyway("as it was"), set={}, remove=unknown)])
    if how != "as it was":
        change(api, version=2, **NEW)
    assert replay(api, first, definition=1)["runs"][0]["reason"] == "no_definition"
    assert replay(api, first, definition=2)["runs"][0]["replayed"]
    api.call("POST", "/jobs/payments:rates/pause", {"by": "ann", "reason": "x"})
    assert retried(ports)["handler"] == "old", "a pause changes no definition"


def test_the_audit_tells_of_a_lapsed_run_whose_definition_is_gone(api: ApiUnderTest, ports: Ports) -> None:
    start(api, fired(api, ports))
    changed(api)
    for row in rows(ports):
        place = {"job_id": row["job_id"], "place": row["place"]}
        ports.store.commit([Delete(JOB_VERSIONS, place, Anyway("expired"))])
    move(ports, 900)
    signals = ports.signals
    assert isinstance(signals, KeptSignals)
    reconcile(ports)
    assert any("the definition it was fired by is gone" in str(line) for line in signals.lines)


def test_a_definition_of_a_newer_version_costs_no_other_replay(api: ApiUnderTest, ports: Ports) -> None:
    first = fired(api, ports)
    fail(api, first, "failed_permanent")
    changed(api)
    (row,) = rows(ports)
    place = {"job_id": row["job_id"], "place": row["place"]}
    ports.store.commit([Update(JOB_VERSIONS, place, Anyway("a newer version's"), set={"work": "of another shape"})])
    answer = replay(api, first)
    assert [one.get("reason") for one in answer["runs"]] == ["no_definition"]
    assert replay(api, first, definition="current")["runs"][0]["replayed"]


# --- how long a definition lives ------------------------------------------------------------------------------


def test_a_job_that_is_made_anew_after_its_tombstone_does_not_own_the_old_one_s_runs(
    api: ApiUnderTest, ports: Ports
) -> None:
    """Its versions count from 1 again, and it has passed nothing: the old run is known by its time."""
    first = fired(api, ports)
    fail(api, first, "failed_permanent")
    deleted(api)
    ports.store.commit([Delete(JOBS, {"job_id": "payments:rates"}, Anyway("a tombstone that has expired"))])
    move(ports, ports.layout.retention_s)
    create_job(api, **NEW)
    change(api, lease_s=90)
    replay(api, first)
    retried(ports)
    assert {what(one)[1] for one in ready(ports) if one["run_id"] == first["run_id"]} == {"old"}


def test_a_tombstone_of_an_older_version_gives_its_definition_to_what_it_had_fired(
    api: ApiUnderTest, ports: Ports
) -> None:
    """That version kept the definition in the tombstone alone, and registering the job anew overwrites it."""
    first = fired(api, ports, payload={"is": LONG})
    fail(api, first)
    deleted(api)
    (row,) = rows(ports)
    ports.store.commit([Delete(JOB_VERSIONS, {"job_id": row["job_id"], "place": row["place"]}, Anyway("none kept"))])
    unknown = ("deleted_at_ms", "earlier_through_ms", "defined_since")
    ports.store.commit([Update(JOBS, {"job_id": row["job_id"]}, Anyway("as it was"), set={}, remove=unknown)])
    kept = {"payload_id": row["work"]["payload_id"]}
    ports.store.commit([Update(PAYLOADS, kept, Anyway("as it was"), set={}, remove=("expires_at_s",))])
    create_job(api, **NEW)
    again = retried(ports)
    assert (again["run_id"], again["handler"]) == (first["run_id"], "old")
    assert start(api, again, "claim-0002")["payload"] == {"is": LONG}
    payload = ports.store.get(PAYLOADS, kept)
    assert payload is not None
    assert payload["expires_at_s"] == rows(ports)[0]["expires_at_s"]


def test_what_has_expired_is_not_guessed_at(api: ApiUnderTest, ports: Ports) -> None:
    """Not even by a later definition of the same job, which reaches the occurrence too."""
    first = fired(api, ports)
    fail(api, first, "failed_permanent")
    changed(api)
    change(api, version=2, lease_s=90)
    row = rows(ports)[0]
    place = {"job_id": row["job_id"], "place": row["place"]}
    ports.store.commit([Delete(JOB_VERSIONS, place, Anyway("expired"))])
    assert replay(api, first)["runs"][0]["reason"] == "no_definition"
    assert replay(api, first, definition="current")["runs"][0]["replayed"]
    assert retried(ports)["handler"] == "new"


def test_a_definition_that_a_live_run_asks_for_lives_on_with_its_payload(api: ApiUnderTest, ports: Ports) -> None:
    first = fired(api, ports, payload={"is": LONG})
    fail(api, first, "failed_permanent")
    changed(api)
    (row,), (payload,) = rows(ports), ports.store.scan(PAYLOADS, limit=9, after=None)[0]
    lasts_ms = row["expires_at_s"] * 1_000 - ports.clock.now_ms()
    assert payload["expires_at_s"] == row["expires_at_s"]
    assert lasts_ms > ports.layout.retention_s * 1_000 + 60 * DAY_MS

    replay(api, first)
    assert rows(ports) == [row], "it lasts for long"
    fail(api, retried(ports), "failed_permanent")
    clock = ports.clock
    assert isinstance(clock, FakeClock)
    clock.at_ms += 50 * DAY_MS
    replay(api, first)

    (renewed,), (kept,) = rows(ports), ports.store.scan(PAYLOADS, limit=9, after=None)[0]
    assert renewed["expires_at_s"] == kept["expires_at_s"] == row["expires_at_s"] + 50 * 86_400 + 20
    retried(ports)
    message = next(one for one in reversed(ready(ports)) if one["run_id"] == first["run_id"])
    assert start(api, message, "claim-0009")["payload"] == {"is": LONG}


def test_a_payload_that_the_job_keeps_does_not_expire_with_its_earlier_definition(
    api: ApiUnderTest, ports: Ports
) -> None:
    fired(api, ports, payload={"is": LONG})
    change(api, lease_s=90)
    (payload,) = ports.store.scan(PAYLOADS, limit=9, after=None)[0]
    assert "expires_at_s" not in payload
    change(api, version=2, payload={"is": "new"})
    (payload,) = ports.store.scan(PAYLOADS, limit=9, after=None)[0]
    assert payload["expires_at_s"] == rows(ports)[-1]["expires_at_s"]


@pytest.mark.parametrize("times", [1, 5])
def test_no_payload_outlives_all_who_may_need_it(api: ApiUnderTest, ports: Ports, times: int) -> None:
    create_job(api, payload={"n": 0, "is": LONG})
    for n in range(times):
        change(api, version=n + 1, payload={"n": n + 1, "is": LONG})
    deleted(api)
    payloads = ports.store.scan(PAYLOADS, limit=99, after=None)[0]
    assert len(payloads) == times + 1
    assert all("expires_at_s" in payload for payload in payloads)


def test_a_job_whose_payload_is_gone_can_still_be_changed(api: ApiUnderTest, ports: Ports) -> None:
    kept = create_job(api, payload={"is": LONG})["payload_id"]
    ports.store.commit([Delete(PAYLOADS, {"payload_id": kept}, Anyway("lost"))])
    assert change(api, payload={"is": "new"})["payload"] == {"is": "new"}


def test_a_change_whose_reply_is_lost_leaves_one_row(api: ApiUnderTest, ports: Ports) -> None:
    fired(api, ports)
    commit, tries = ports.store.commit, []

    def losing(writes: Any) -> Any:
        result = commit(writes)
        tries.append(result)
        if len(tries) == 1:
            raise OutcomeUnknown("the reply was lost")
        return result

    ports.store.commit = losing  # type: ignore[method-assign]
    changed(api)
    assert [row["version"] for row in rows(ports)] == [1]


def test_a_job_of_an_older_version_of_ours_is_read_as_it_always_was(api: ApiUnderTest, ports: Ports) -> None:
    """It has kept no earlier definition: its runs go by what it says."""
    first = fired(api, ports)
    fail(api, first)
    gone = ("earlier_through_ms", "defined_since")
    ports.store.commit([Update(JOBS, {"job_id": "payments:rates"}, Anyway("an older version's"), remove=gone)])
    item = ports.store.get(TIMERS, parse_ref(first["ref"]).as_item())
    assert item is not None
    assert "definition" not in item
    assert what(retried(ports)) == what(first)


# --- payloads that are gone -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "a stub"])
def test_a_run_whose_payload_is_gone_is_not_called_and_says_so(api: ApiUnderTest, ports: Ports, how: str) -> None:
    first = fired(api, ports, payload={"is": LONG})
    place = {"payload_id": first["payload_id"]}
    if how == "deleted":
        ports.store.commit([Delete(PAYLOADS, place, Anyway("as its time to live might"))])
    else:
        ports.store.commit([Update(PAYLOADS, place, Anyway("x"), remove=("payload",), set={"expires_at_s": 1})])
    answer = start(api, first)
    assert (answer["granted"], answer["reason"], answer["discard"]) == (False, "no_payload", True)
    (letter,) = api.call("GET", "/dead-letters", team="payments")[1]["runs"]
    assert letter["cause"]["error_class"] == "PayloadLost"
    assert first["payload_id"] in letter["cause"]["error"]


def test_the_payload_of_a_timer_that_is_gone_ends_it_as_well(api: ApiUnderTest, ports: Ports) -> None:
    body = {"team": "payments", "delay_s": 5, "target": OLD["target"], "payload": {"is": LONG}}
    timer = api.call("POST", "/timers", body)[1]["timer_id"]
    (payload,) = ports.store.scan(PAYLOADS, limit=9, after=None)[0]
    ports.store.commit([Delete(PAYLOADS, {"payload_id": payload["payload_id"]}, Anyway("lost"))])
    move(ports, 5)
    windows(ports)
    assert start(api, ready(ports)[0])["reason"] == "no_payload"
    assert api.call("GET", f"/timers/{timer}")[1]["status"] == "dead"


def test_a_payload_that_is_restored_is_delivered_by_a_replay(api: ApiUnderTest, ports: Ports) -> None:
    first = fired(api, ports, payload={"is": LONG})
    place = {"payload_id": first["payload_id"]}
    kept = ports.store.get(PAYLOADS, place)
    assert kept is not None
    ports.store.commit([Delete(PAYLOADS, place, Anyway("lost"))])
    start(api, first)
    ports.store.commit([Update(PAYLOADS, place, Anyway("restored"), set={"payload": kept["payload"]})])
    replay(api, first)
    assert start(api, retried(ports), "claim-0002")["payload"] == {"is": LONG}


# --- isolation (F14) ------------------------------------------------------------------------------------------


class Refusing:
    """A store whose table of earlier definitions refuses its reads."""

    def __init__(self, ports: Ports) -> None:
        self._query = ports.store.query
        self.is_over = False
        ports.store.query = self.query  # type: ignore[method-assign]

    def query(self, table: Table, *arguments: Any, **named: Any) -> Page:
        if table is JOB_VERSIONS and not self.is_over:
            raise Throttled
        return self._query(table, *arguments, **named)


def other_job(api: ApiUnderTest, at_s: int) -> str:
    at = f"2026-10-30T00:00:{at_s:02d}Z"
    return str(create_job(api, name=f"other-{at_s}", schedule={"at": at})["job_id"])


def test_while_earlier_definitions_are_refused_only_what_needs_one_waits(api: ApiUnderTest, ports: Ports) -> None:
    first = fired(api, ports)
    fail(api, first)
    changed(api)
    other = other_job(api, 25)
    refusing = Refusing(ports)
    retried(ports, 20)
    assert {message["job_id"] for message in ready(ports)[1:]} == {other}
    refusing.is_over = True
    for _ in range(40):
        second = retried(ports, 10)
    assert (what(second), second["attempt"]) == (what(first), 2)


def test_a_repeated_window_sends_the_others_meanwhile(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, **OLD)
    other = other_job(api, 5)
    move(ports, 5)
    sender = ports.sender
    assert isinstance(sender, RememberingSender)
    send, sender.send = sender.send, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[assignment, method-assign]
    for slice_no in range(ports.layout.slices):
        with suppress(KeyboardInterrupt):
            run_window(ports, slice_no, second_of(ports.clock.now_ms()))
    sender.send = send  # type: ignore[method-assign]
    changed(api)
    refusing = Refusing(ports)
    move(ports, 12)
    windows(ports)
    assert {message["job_id"] for message in ready(ports)} == {other}
    refusing.is_over = True
    for _ in range(40):
        retried(ports, 10)
    assert {message["handler"] for message in ready(ports) if message["job_id"] == "payments:rates"} == {"old"}


def test_the_audit_wakes_the_others_meanwhile_and_comes_back(api: ApiUnderTest, ports: Ports) -> None:
    first = fired(api, ports)
    start(api, first)
    changed(api)
    other_job(api, 5)
    windows(ports)
    start(api, ready(ports)[-1], "claim-of-other")
    refusing = Refusing(ports)
    move(ports, 900)
    windows(ports)
    reconcile(ports)
    woken = [message["job_id"] for message in ready(ports) if message["dispatched_by"] == "audit"]
    assert woken == ["payments:other-5"]
    refusing.is_over = True
    for _ in range(3):
        move(ports, 900)
        windows(ports)
        reconcile(ports)
    assert "old" in {message["handler"] for message in ready(ports) if message["dispatched_by"] == "audit"}
