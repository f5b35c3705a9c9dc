"""What an occurrence does is fixed when it is fired (W13): retries, replays, repeated windows and audits all go by the
definition it was fired by, whatever its job has become, and by another only when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes import RememberingSender
from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import complete, create_job, move, ready, start, windows
from tests.unit.jobs.test_changing_jobs import JOB, change
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import JOB_VERSIONS, JOBS
from tickwork.core.ledger.writes import Anyway, Item, Update
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
