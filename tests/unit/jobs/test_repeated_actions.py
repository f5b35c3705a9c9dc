"""What somebody does to a job or a run, and does again because the answer was lost: the first answer, or who it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.api.test_jobs_and_timers import complete, create_job, create_timer, move, ready, start, windows
from tickwork.core.errors import OutcomeUnknown
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Anyway, Committed, Refused, Update, Write
from tickwork.ports import Ports

JOB = "/jobs/payments:rates"
PAUSE = {"by": "ann", "reason": "migration"}


def asked(api: ApiUnderTest, action: str, **body: Any) -> tuple[int, Any]:
    return api.call("POST", f"{JOB}/{action}", body)


class Forgetful:
    """A store that carries out a transaction on a job and loses its answer, once."""

    def __init__(self, inner: Any) -> None:
        self._inner, self.is_to_lose = inner, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def commit(self, writes: list[Write]) -> Committed | Refused:
        found: Committed | Refused = self._inner.commit(writes)
        if self.is_to_lose and any(getattr(write, "table", None) is JOBS for write in writes):
            self.is_to_lose = False
            raise OutcomeUnknown("as asked")
        return found


# --- pausing --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("until", ["2026-10-30T00:01:00Z", "2026-10-30T01:01:00+01:00", "2026-10-30T00:01:00.000Z"])
def test_a_pause_repeated_after_its_end_is_the_first_one(api: ApiUnderTest, ports: Ports, until: str) -> None:
    create_job(api)
    _, first = asked(api, "pause", **PAUSE, until="2026-10-30T00:01:00Z")
    move(ports, 70)
    status, again = asked(api, "pause", **PAUSE, until=until)

    assert (status, again["version"], again["pauses"]) == (200, first["version"], first["pauses"])
    assert again["status"] == "active"


def test_a_pause_repeated_after_somebody_resumed_the_job_and_its_end_has_passed_changes_nothing(
    api: ApiUnderTest, ports: Ports
) -> None:
    create_job(api)
    asked(api, "pause", **PAUSE, until="2026-10-30T00:01:00Z")
    move(ports, 10)
    _, resumed = asked(api, "resume", by="bob")
    move(ports, 70)
    status, again = asked(api, "pause", **PAUSE, until="2026-10-30T00:01:00Z")

    assert (status, again["version"]) == (200, resumed["version"])


def test_a_pause_of_the_past_that_nobody_made_is_refused(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    asked(api, "pause", **PAUSE, until="2026-10-30T00:01:00Z")
    move(ports, 70)
    for other in (
        {"by": "bob"},
        {"reason": "another"},
        {"until": "2026-10-30T00:00:50Z"},
        {"until": "1970-01-01T00:00:00Z"},
    ):
        status, problem = asked(api, "pause", **{**PAUSE, "until": "2026-10-30T00:01:00Z"} | other)
        assert (status, problem["errors"][0]["field"]) == (422, "until")


def test_a_pause_repeated_when_its_job_has_finished_is_the_first_one(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, schedule={"at": "2026-10-30T00:00:05Z"})
    asked(api, "pause", **PAUSE)
    move(ports, 70)
    windows(ports)
    status, again = asked(api, "pause", **PAUSE)

    assert (status, again["status"]) == (200, "finished")
    assert asked(api, "pause", by="bob", reason="mine")[0] == 409


def test_a_new_pause_of_a_finished_job_is_not_taken_for_one_that_was_resumed(api: ApiUnderTest, ports: Ports) -> None:
    """cancelled-stays: told that the job is paused, its owner does not see it run once somebody has revived it."""
    create_job(api, schedule={"at": "2026-10-30T00:00:20Z"})
    asked(api, "pause", **PAUSE, until="2026-10-30T00:00:10Z")
    asked(api, "resume", by="ann")
    move(ports, 70)
    windows(ports)
    for _ in range(2):
        status, job = asked(api, "pause", **PAUSE, until="2026-10-31T00:00:00Z")
        assert (status, job["status"], job["pauses"][-1]["until"]) == (200, "finished", "2026-10-31T00:00:00.000Z")

    revived = {"version": job["version"], "schedule": {"rate": "10 seconds"}}
    assert api.call("PATCH", JOB, revived)[1]["status"] == "paused"
    before = len(ready(ports))
    move(ports, 20)
    windows(ports)
    assert len(ready(ports)) == before


def test_a_pause_repeated_when_its_job_was_resumed_and_has_finished_is_granted_as_it_was(
    api: ApiUnderTest, ports: Ports
) -> None:
    create_job(api, schedule={"at": "2026-10-30T00:00:20Z"})
    asked(api, "pause", **PAUSE)
    asked(api, "resume", by="bob")
    move(ports, 70)
    windows(ports)
    assert asked(api, "pause", **PAUSE)[0] == 200
    assert asked(api, "pause", by="ann", reason="another")[0] == 409


# --- resuming -------------------------------------------------------------------------------------------------


def test_a_resume_repeated_by_the_same_person_gets_the_first_answer(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    asked(api, "pause", **PAUSE)
    move(ports, 5)
    _, first = asked(api, "resume", by="bob")
    move(ports, 70)

    assert asked(api, "resume", by="bob") == (200, first)
    assert (first["changed"], first["resumed"]) == (True, {"by": "local (bob)", "at": "2026-10-30T00:00:05.000Z"})


def test_a_resume_by_another_says_who_it_was_and_when(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    asked(api, "pause", **PAUSE)
    asked(api, "resume", by="bob")
    move(ports, 70)
    _, second = asked(api, "resume", by="eve")

    assert (second["changed"], second["resumed"]) == (False, {"by": "local (bob)", "at": "2026-10-30T00:00:00.000Z"})


@pytest.mark.parametrize("until", [None, "2026-10-30T00:00:05Z"])
def test_a_resume_of_what_nobody_has_resumed_names_nobody(api: ApiUnderTest, ports: Ports, until: str | None) -> None:
    create_job(api)
    if until:
        asked(api, "pause", **PAUSE, until=until)
    move(ports, 10)
    _, answer = asked(api, "resume", by="bob")
    assert (answer["changed"], answer["resumed"]) == (False, None)


def test_a_second_pause_is_resumed_anew(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    for _ in range(2):
        move(ports, 5)
        asked(api, "pause", **PAUSE)
        move(ports, 5)
        _, answer = asked(api, "resume", by="bob")
        assert answer["changed"] is True
    assert answer["resumed"]["at"] == "2026-10-30T00:00:20.000Z"


# --- deleting, cancelling, replaying ----------------------------------------------------------------------------


def test_a_deletion_repeated_says_when_it_was_done(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    _, first = api.call("DELETE", JOB)
    move(ports, 70)
    _, again = api.call("DELETE", JOB)

    assert (first["changed"], first["deleted_at"]) == (True, "2026-10-30T00:00:00.000Z")
    assert again == first | {"changed": False}


def test_a_deletion_whose_answer_the_tables_lost_was_this_one(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    forgetful = ApiUnderTest(replace(ports, store=Forgetful(ports.store)))
    assert forgetful.call("DELETE", JOB)[1]["changed"] is True


def test_a_deletion_by_an_older_version_is_told_without_a_time(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    api.call("DELETE", JOB)
    old = Update(JOBS, {"job_id": "payments:rates"}, Anyway("as before"), remove=("deleted_at_ms",))
    ports.store.commit([old])
    assert api.call("DELETE", JOB)[1]["deleted_at"] is None


def test_a_job_made_anew_is_not_the_deleted_one(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    api.call("DELETE", JOB)
    create_job(api)
    move(ports, 70)
    assert api.call("DELETE", JOB)[1]["deleted_at"] == "2026-10-30T00:01:10.000Z"


@pytest.mark.parametrize("is_running", [False, True])
def test_a_cancellation_repeated_shows_the_reason_that_counts(
    api: ApiUnderTest, ports: Ports, is_running: bool
) -> None:
    create_timer(api)
    move(ports, 5)
    windows(ports)
    (message,) = ready(ports)
    if is_running:
        start(api, message)
    answers = [
        api.call("POST", "/runs:cancel", {"runs": [{"ref": message["ref"]}], "reason": reason})[1]["runs"][0]
        for reason in ("not wanted", "not wanted", "nor by me")
    ]
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["reason"] == "not wanted"


@pytest.mark.parametrize("definition", [{}, {"definition": "current"}], ids=str)
def test_a_replay_repeated_when_the_run_goes_on_again_is_the_first_one(
    api: ApiUnderTest, ports: Ports, definition: dict[str, Any]
) -> None:
    create_timer(api, retry_policy={"max_attempts": 1})
    move(ports, 5)
    windows(ports)
    (message,) = ready(ports)
    complete(api, message["ref"], start(api, message)["token"], "failed", "boom")
    order = {"team": "payments", "runs": [message["ref"]], "by": "ann", "reason": "the bank is back"}
    order |= {"per_second": 10, "dry_run": False} | definition
    _, first = api.call("POST", "/dead-letters:replay", order)
    move(ports, 2)
    windows(ports)
    granted = start(api, ready(ports)[-1], claim="claim-0002")

    assert api.call("POST", "/dead-letters:replay", order) == (200, first), "while it runs"
    complete(api, message["ref"], granted["token"])
    assert api.call("POST", "/dead-letters:replay", order) == (200, first), "when it has succeeded"
    _, other = api.call("POST", "/dead-letters:replay", order | {"by": "eve"})
    assert other["runs"][0]["replayed"] is False


# --- calendars ------------------------------------------------------------------------------------------------

DAYS = {"zone": "Europe/Berlin", "dates": ["2026-12-24", "2026-12-25"], "weekly": ["sat"]}


@pytest.mark.parametrize(
    "again",
    [
        DAYS,
        DAYS | {"dates": ["2026-12-25", "2026-12-24"]},
        DAYS | {"weekly": ["SAT"], "holidays": []},
        DAYS | {"dates": [], "ranges": [{"from": "2026-12-24", "to": "2026-12-25"}]},
    ],
)
def test_a_calendar_of_the_same_days_is_the_same(api: ApiUnderTest, again: dict[str, Any]) -> None:
    _, first = api.call("PUT", "/calendars/payments:holidays", DAYS)
    assert api.call("PUT", "/calendars/payments:holidays", again) == (200, first)
    assert api.call("PUT", "/calendars/payments:holidays", again | {"version": 1}) == (200, first)


def test_a_calendar_of_other_days_is_another(api: ApiUnderTest) -> None:
    api.call("PUT", "/calendars/payments:holidays", DAYS)
    assert api.call("PUT", "/calendars/payments:holidays", DAYS | {"weekly": ["sun"]})[0] == 409
