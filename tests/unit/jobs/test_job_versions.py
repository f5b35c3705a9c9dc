"""What an occurrence does is fixed when it is fired (W13): retries, replays, repeated windows and audits all go by the
definition it was fired by, whatever its job has become, and by another only when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes import FakeClock, RememberingSender
from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import complete, create_job, move, ready, start, windows
from tests.unit.jobs.test_changing_jobs import JOB, change
from tickwork.core.errors import OutcomeUnknown
from tickwork.core.instants import DAY_MS
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import JOB_VERSIONS, JOBS, PAYLOADS, TIMERS
from tickwork.core.ledger.writes import Anyway, Delete, Item, Update
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.ledger import versions
from tickwork.flows.ledger.reading import read_run
from tickwork.ports import Ports

LONG = "x" * 2_000
OLD: dict[str, Any] = {
    "tolerance_s": 0,
    "schedule": {"rate": "1 hour", "anchor": "2026-10-29T00:00:05Z"},
    "target": {"pool": "payments", "handler": "old"},
    "payload": {"is": "old"},
    "retry_policy": {"max_attempts": 3, "base_s": 10, "cap_s": 20, "jitter_percent": 0},
}
NEW: dict[str, Any] = {
    "schedule": {"rate": "1 day", "anchor": "2026-10-30T12:00:00Z"},
    "target": {"pool": "payments", "handler": "new"},
    "payload": {"is": "new"},
    "retry_policy": {"max_attempts": 1},
}


def fired(api: ApiUnderTest, ports: Ports, **changes: Any) -> dict[str, Any]:
    """The message of the first occurrence of the old job."""
    create_job(api, **OLD | changes)
    move(ports, 5)
    windows(ports)
    (message,) = ready(ports)
    return message


def fail(api: ApiUnderTest, message: dict[str, Any], outcome: str = "failed") -> dict[str, Any]:
    claim = f"claim-{message['attempt']:04d}"
    return complete(api, message["ref"], start(api, message, claim)["token"], outcome, "boom")


def retried(ports: Ports, seconds: int = 20) -> dict[str, Any]:
    move(ports, seconds)
    windows(ports)
    return ready(ports)[-1]


def what(message: dict[str, Any]) -> tuple[Any, ...]:
    return message["run_id"], message["handler"], message.get("payload", message.get("payload_id"))


def changed(api: ApiUnderTest) -> None:
    change(api, version=api.call("GET", JOB)[1]["version"], **NEW)


def changed_often(api: ApiUnderTest) -> None:
    for n in range(3):
        change(api, version=api.call("GET", JOB)[1]["version"], **NEW | {"payload": {"is": n}})
    api.call("POST", f"{JOB}/pause", {"by": "ann", "reason": "x"})
    changed(api)


def deleted(api: ApiUnderTest) -> None:
    assert api.call("DELETE", JOB)[0] == 200


def made_anew(api: ApiUnderTest) -> None:
    deleted(api)
    create_job(api, **NEW)


def made_anew_and_changed(api: ApiUnderTest) -> None:
    made_anew(api)
    changed_often(api)
    made_anew(api)


REPLACED = pytest.mark.parametrize(
    "replace_job", [changed, changed_often, deleted, made_anew, made_anew_and_changed], ids=lambda one: one.__name__
)
type Replace = Callable[[ApiUnderTest], None]


# --- retries and replays --------------------------------------------------------------------------------------


@REPLACED
@pytest.mark.parametrize("payload", [{"is": "old"}, {"is": LONG}], ids=["inline", "apart"])
def test_a_retry_keeps_target_payload_and_policies(
    api: ApiUnderTest, ports: Ports, replace_job: Replace, payload: Any
) -> None:
    first = fired(api, ports, payload=payload)
    fail(api, first)

    replace_job(api)
    second = retried(ports)
    assert (what(second), second["attempt"]) == (what(first), 2)
    granted = start(api, second, "claim-0002")
    assert granted.get("payload", second.get("payload")) == payload
    assert complete(api, second["ref"], granted["token"], "failed", "boom")["status"] == "waiting", "of three attempts"
    third = retried(ports)
    assert (what(third), fail(api, third)["status"]) == (what(first), "dead")


@REPLACED
def test_a_replay_keeps_them_too(api: ApiUnderTest, ports: Ports, replace_job: Replace) -> None:
    first = fired(api, ports)
    fail(api, first, "failed_permanent")
    replace_job(api)
    (outcome,) = replay(api, first)["runs"]
    assert outcome["replayed"], outcome
    assert what(retried(ports)) == what(first)


def replay(api: ApiUnderTest, message: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"team": "payments", "runs": [message["ref"]], "by": "ann", "reason": "mended"} | more
    status, answer = api.call("POST", "/dead-letters:replay", body)
    assert status == 200, answer
    return answer


@REPLACED
def test_an_attempt_that_is_lost_is_followed_by_one_of_the_same(
    api: ApiUnderTest, ports: Ports, replace_job: Replace
) -> None:
    """Its lease lapses and the audit wakes it, with a message of its own."""
    first = fired(api, ports)
    start(api, first)
    replace_job(api)
    move(ports, 900)
    windows(ports)
    reconcile(ports)
    woken = ready(ports)[-1]
    assert (what(woken), woken["dispatched_by"]) == (what(first), "audit")


@REPLACED
def test_a_run_that_never_started_is_sent_again_as_it_was(
    api: ApiUnderTest, ports: Ports, replace_job: Replace
) -> None:
    first = fired(api, ports)
    replace_job(api)
    move(ports, 900)
    windows(ports)
    reconcile(ports)
    again = [message for message in ready(ports) if message["run_id"] == first["run_id"]]
    assert len(again) > 1
    assert {str(what(message)) for message in again} == {str(what(first))}


@REPLACED
def test_a_window_that_crashed_before_it_sent_sends_what_it_has_fired(
    api: ApiUnderTest, ports: Ports, replace_job: Replace
) -> None:
    create_job(api, **OLD)
    move(ports, 5)
    sender = ports.sender
    assert isinstance(sender, RememberingSender)

    class Crash(Exception):
        pass

    def dies(*_: Any) -> Any:
        raise Crash

    send, sender.send = sender.send, dies  # type: ignore[method-assign]
    with pytest.raises(Crash):
        windows(ports)
    sender.send = send  # type: ignore[method-assign]
    replace_job(api)
    move(ports, 12)
    windows(ports)
    (message,) = [one for one in ready(ports) if one["scheduled_at"] == "2026-10-30T00:00:05Z"]
    assert (message["handler"], message["payload"]) == ("old", {"is": "old"})


def test_a_limit_of_the_definition_it_was_fired_by_holds_for_a_retry(api: ApiUnderTest, ports: Ports) -> None:
    first = fired(api, ports, max_duration_s=60)
    fail(api, first)
    changed(api)
    granted = start(api, retried(ports), "claim-0002")
    run = read_run(ports, parse_ref(first["ref"]))
    assert granted["granted"]
    assert run is not None
    assert run.stop_at_ms == run.started_at_ms + 60_000


def test_what_is_fired_after_the_change_goes_by_the_new_definition(api: ApiUnderTest, ports: Ports) -> None:
    fired(api, ports)
    change(api, **NEW | {"schedule": {"rate": "1 hour", "anchor": "2026-10-29T00:00:05Z"}})
    second = retried(ports, 3_600)
    assert (second["scheduled_at"], second["handler"]) == ("2026-10-30T01:00:05Z", "new")
    change(api, version=2, target={"handler": "newer"})
    fail(api, second)
    third = retried(ports, 3_600)
    assert (third["handler"], third["attempt"]) == ("newer", 1)


def test_the_explanation_is_of_one_price(api: ApiUnderTest, ports: Ports) -> None:
    """Nothing is written for an occurrence: one row for each change, and no read for what the present one fires."""
    create_job(api, **OLD | {"schedule": {"rate": "10 seconds"}})
    for _ in range(3):
        move(ports, 10)
        windows(ports)
    assert rows(ports) == []
    change(api, lease_s=90)
    assert [(row["version"], row["through_ms"]) for row in rows(ports)] == [(1, 1_793_318_430_000)]
    ports.store.query = None  # type: ignore[method-assign, assignment]
    run = read_run(ports, parse_ref(ready(ports)[-1]["ref"]))
    job = ports.store.get(JOBS, {"job_id": "payments:rates"})
    assert run is not None
    assert job is not None
    job["earlier_through_ms"] = 0
    ports.store.commit([Update(JOBS, {"job_id": "payments:rates"}, Anyway("an older one"), set=job)])
    assert versions.work_of(ports, run) is not None


def rows(ports: Ports) -> list[Item]:
    return sorted(ports.store.scan(JOB_VERSIONS, limit=100, after=None)[0], key=lambda row: str(row["place"]))


# --- what somebody asks for -----------------------------------------------------------------------------------


def died_and_changed_twice(api: ApiUnderTest, ports: Ports) -> dict[str, Any]:
    first = fired(api, ports)
    fail(api, first, "failed_permanent")
    changed(api)
    change(api, version=2, target={"handler": "newest"}, max_duration_s=60)
    return first


@pytest.mark.parametrize(
    ("definition", "handler"), [("current", "newest"), (1, "old"), (2, "new"), (3, "newest"), (None, "old")], ids=str
)
def test_a_replay_takes_the_definition_that_it_asks_for(
    api: ApiUnderTest, ports: Ports, definition: Any, handler: str
) -> None:
    first = died_and_changed_twice(api, ports)
    more = {} if definition is None else {"definition": definition}
    assert replay(api, first, **more)["runs"][0]["replayed"]
    assert replay(api, first, **more)["runs"][0]["replayed"], "again is a no-op"
    change(api, version=3, target={"handler": "after"})
    second = retried(ports)
    assert (second["run_id"], second["handler"]) == (first["run_id"], handler)
    assert start(api, second, "claim-0002")["granted"]
    run = api.call("GET", f"{JOB}/runs")[1]["runs"][-1]
    asked = {"current": 3, None: None}.get(definition, definition)
    assert run["replays"][0].get("definition") == asked
    read = read_run(ports, parse_ref(first["ref"]))
    assert read is not None
    assert bool(read.stop_at_ms) == (handler == "newest"), "its limits are those of that definition"


@pytest.mark.parametrize("definition", [4, 99])
def test_a_version_that_the_job_never_had_is_refused(api: ApiUnderTest, ports: Ports, definition: int) -> None:
    first = died_and_changed_twice(api, ports)
    (outcome,) = replay(api, first, definition=definition)["runs"]
    assert (outcome["replayed"], outcome["reason"]) == (False, "no_definition")


def test_a_deleted_job_has_no_current_definition(api: ApiUnderTest, ports: Ports) -> None:
    first = died_and_changed_twice(api, ports)
    deleted(api)
    assert replay(api, first, definition="current")["runs"][0]["reason"] == "no_definition"
    assert replay(api, first, definition=2)["runs"][0]["replayed"]
    assert retried(ports)["handler"] == "new"


def test_a_replay_that_waits_for_its_own_definition_is_not_taken_for_one_that_asked(
    api: ApiUnderTest, ports: Ports
) -> None:
    first = died_and_changed_twice(api, ports)
    replay(api, first)
    assert replay(api, first, definition="current")["runs"][0]["reason"] == "not_dead"


@pytest.mark.parametrize("definition", [0, -1, "newest", True, 1.5])
def test_what_is_no_version_is_refused_by_its_field(api: ApiUnderTest, ports: Ports, definition: Any) -> None:
    first = died_and_changed_twice(api, ports)
    body = {"team": "payments", "runs": [first["ref"]], "by": "a", "reason": "b", "definition": definition}
    status, problem = api.call("POST", "/dead-letters:replay", body)
    assert (status, problem["errors"][0]["field"].split(".")[0]) == (422, "definition")


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
