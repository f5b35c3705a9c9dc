"""Creating, reading, listing, deleting: jobs, timers and what became of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import FakeClock, RememberingSender
from tests.support.http import ApiUnderTest
from tickwork.core.instants import iso, parse_iso, second_of
from tickwork.core.ledger.tables import PAYLOADS, TIMERS
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import Ports

TARGET = {"pool": "payments", "handler": "settlement"}


def create_job(api: ApiUnderTest, name: str = "rates", **changes: Any) -> dict[str, Any]:
    body = {"team": "payments", "name": name, "schedule": {"rate": "10 seconds"}, "target": {"pool": "payments"}}
    body["overlap"] = "allow"  # these tests look at runs one by one, and end few of them
    status, job = api.call("POST", "/jobs", body | changes)
    assert status == 201, job
    return job


def create_timer(api: ApiUnderTest, **changes: Any) -> tuple[int, dict[str, Any]]:
    return api.call("POST", "/timers", {"team": "payments", "delay_s": 5, "target": TARGET} | changes)


def windows(ports: Ports) -> None:
    for slice_no in range(ports.layout.slices):
        run_window(ports, slice_no, second_of(ports.clock.now_ms()))


def move(ports: Ports, seconds: int) -> None:
    clock = ports.clock
    assert isinstance(clock, FakeClock)
    clock.at_ms += seconds * 1_000


def ready(ports: Ports) -> list[dict[str, Any]]:
    sender = ports.sender
    assert isinstance(sender, RememberingSender)
    return sender.bodies("ready-payments")


def start(api: ApiUnderTest, message: dict[str, Any], claim: str = "claim-0001") -> dict[str, Any]:
    passed_on = ("ref", "attempt", "retry_ref", "payload_id", "dispatched_at_ms", "dispatched_by")
    entry = {"claim": claim} | {name: message[name] for name in passed_on if name in message}
    status, body = api.call("POST", "/runs:start", {"worker": "w1", "runs": [entry]})
    assert status == 200, body
    return body["runs"][0]


def complete(api: ApiUnderTest, ref: str, token: int, outcome: str = "succeeded", error: str = "") -> dict[str, Any]:
    entry = {"ref": ref, "token": token, "outcome": outcome, "error": error}
    status, body = api.call("POST", "/runs:complete", {"runs": [entry]})
    assert status == 200, body
    return body["runs"][0]


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        ({"cron": "0 2 * * *", "zone": "America/New_York"}, "2026-10-30T06:00:00Z"),
        ({"rate": "10 seconds"}, "2026-10-30T00:00:10Z"),
        ({"at": "2026-12-01T09:00:00Z"}, "2026-12-01T09:00:00Z"),
        ({"delay": "90s"}, "2026-10-30T00:01:30Z"),
    ],
)
def test_a_job_is_created_with_its_first_occurrence(api: ApiUnderTest, schedule: dict[str, str], first: str) -> None:
    job = create_job(api, schedule=schedule)

    assert job["next"]["scheduled_at"] == first
    assert job["status"] == "active"
    assert api.call("GET", "/jobs/payments:rates")[1]["next"] == job["next"]


def test_creating_the_same_job_twice_is_a_no_op_and_other_content_a_conflict(api: ApiUnderTest) -> None:
    first = create_job(api)
    body = {"team": "payments", "name": "rates", "target": {"pool": "payments"}}

    status, again = api.call("POST", "/jobs", body | {"schedule": {"rate": "10 seconds"}})
    assert (status, again) == (200, first)
    status, problem = api.call("POST", "/jobs", body | {"schedule": {"rate": "20 seconds"}})
    assert (status, problem["type"]) == (409, "urn:tickwork:problem:already-exists")


def test_a_deleted_job_fires_no_more_and_its_name_is_free_again(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    assert api.call("DELETE", "/jobs/payments:rates")[1]["changed"] is True
    assert api.call("DELETE", "/jobs/payments:rates")[1]["changed"] is False
    move(ports, 30)
    windows(ports)

    assert ready(ports) == []
    assert api.call("GET", "/jobs/payments:rates")[0] == 404
    assert create_job(api)["version"] == 3


def test_jobs_are_listed_page_by_page_by_team(api: ApiUnderTest) -> None:
    for i in range(5):
        create_job(api, name=f"job-{i}")
    create_job(api, name="other", team="risk")

    seen, cursor = [], None
    while True:
        query = {"team": "payments", "limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = api.call("GET", "/jobs", **query)[1]
        seen += [job["name"] for job in page["jobs"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == [f"job-{i}" for i in range(5)]


def test_a_timer_fires_once_and_its_item_is_the_record_of_its_run(api: ApiUnderTest, ports: Ports) -> None:
    status, timer = create_timer(api, payload={"seat": "1A"})
    assert (status, timer["status"], timer["fire_at"]) == (201, "pending", "2026-10-30T00:00:05Z")

    windows(ports)
    assert ready(ports) == [], "never early"
    move(ports, 5)
    windows(ports)
    (message,) = ready(ports)
    assert message["payload"] == {"seat": "1A"}
    assert api.call("GET", f"/timers/{timer['timer_id']}")[1]["status"] == "queued"

    granted = start(api, message)
    assert (granted["granted"], granted["attempt"], granted["token"]) == (True, 1, 1)
    assert complete(api, message["ref"], granted["token"])["status"] == "succeeded"

    run = api.call("GET", f"/timers/{timer['timer_id']}")[1]
    assert (run["status"], run["attempt"], run["worker"], run["run_id"]) == ("succeeded", 1, "w1", message["run_id"])
    assert len(ports.store.scan(TIMERS, limit=10, after=None)[0]) == 1


def test_a_cancelled_timer_is_not_dispatched_and_cancelling_again_changes_nothing(
    api: ApiUnderTest, ports: Ports
) -> None:
    _, timer = create_timer(api)
    for _ in range(2):
        status, cancelled = api.call("DELETE", f"/timers/{timer['timer_id']}")
        assert (status, cancelled["status"]) == (200, "cancelled")
    move(ports, 10)
    windows(ports)

    assert ready(ports) == []


def test_cancelling_works_until_the_start_and_not_after(api: ApiUnderTest, ports: Ports) -> None:
    _, timer = create_timer(api)
    _, second = create_timer(api)
    move(ports, 5)
    windows(ports)
    messages = {message["job_id"]: message for message in ready(ports)}

    assert api.call("DELETE", f"/timers/{timer['timer_id']}")[0] == 200
    declined = start(api, messages[timer["timer_id"]])
    assert (declined["granted"], declined["reason"], declined["discard"]) == (False, "cancelled", True)

    assert start(api, messages[second["timer_id"]])["granted"] is True
    status, problem = api.call("DELETE", f"/timers/{second['timer_id']}")
    assert (status, problem["type"]) == (409, "urn:tickwork:problem:too-late")


@pytest.mark.parametrize(
    ("delay_s", "due"), [(5, "00:00:06"), (5.0004, "00:00:06"), (5.8, "00:00:07"), (0.2, "00:00:01")]
)
def test_a_delay_that_is_asked_for_amid_a_second_is_over_no_sooner(
    api: ApiUnderTest, ports: Ports, delay_s: float, due: str
) -> None:
    assert isinstance(ports.clock, FakeClock)
    ports.clock.at_ms += 300
    status, timer = create_timer(api, delay_s=delay_s)
    assert (status, timer["fire_at"]) == (201, f"2026-10-30T{due}Z")


def test_a_client_key_makes_creation_idempotent(api: ApiUnderTest, ports: Ports) -> None:
    status, first = create_timer(api, client_key="order-1")
    move(ports, 2)
    assert (status, create_timer(api, client_key="order-1")) == (201, (200, first))
    assert create_timer(api, client_key="order-1", delay_s=6)[0] == 409
    assert create_timer(api, client_key="order-2")[1]["timer_id"] != first["timer_id"]


def test_timers_are_created_and_cancelled_in_bulk(api: ApiUnderTest) -> None:
    bodies = [{"team": "payments", "delay_s": i, "target": TARGET} for i in range(1, 101)]
    status, body = api.call("POST", "/timers:batch", {"timers": bodies})
    ids = [timer["timer_id"] for timer in body["timers"]]
    assert (status, len(set(ids))) == (201, 100)

    unknown = "payments:t~main~0001~1793318406~00000000"
    answers = api.call("POST", "/timers:cancel", {"timer_ids": [*ids[:9], unknown]})[1]["timers"]
    assert [answer["cancelled"] for answer in answers] == [True] * 9 + [False]
    assert answers[-1]["problem"] == "not-found"


def test_a_large_payload_is_kept_apart_and_handed_over_at_the_start(api: ApiUnderTest, ports: Ports) -> None:
    payload = {"text": "x" * 200_000}
    create_timer(api, payload=payload)
    create_job(api, payload=payload)
    move(ports, 10)
    windows(ports)

    assert len(ports.store.scan(PAYLOADS, limit=10, after=None)[0]) == 2
    for message in ready(ports):
        assert "payload" not in message
        assert start(api, message)["payload"] == payload


def test_a_payload_of_another_job_is_not_handed_over(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, name="secret", payload={"text": "x" * 1_000})
    create_job(api, name="other")
    move(ports, 10)
    windows(ports)
    message = next(message for message in ready(ports) if message["job_id"] == "payments:other")

    (secret,) = ports.store.scan(PAYLOADS, limit=10, after=None)[0]
    assert "payload" not in start(api, message | {"payload_id": secret["payload_id"]})


def test_a_duplicate_message_dies_at_the_start(api: ApiUnderTest, ports: Ports) -> None:
    create_timer(api)
    move(ports, 5)
    windows(ports)
    (message,) = ready(ports)

    granted = start(api, message, claim="claim-of-one")
    declined = start(api, message, claim="claim-of-two")
    assert (declined["granted"], declined["reason"], declined["discard"]) == (False, "held", False)
    assert declined["retry_after_s"] == 60
    assert start(api, message, claim="claim-of-one")["token"] == granted["token"], "a repeated request is known again"


def test_a_failed_attempt_is_retried_with_the_same_run_id_until_it_is_dead(api: ApiUnderTest, ports: Ports) -> None:
    _, timer = create_timer(api, retry_policy={"max_attempts": 2, "base_s": 10, "cap_s": 60})
    move(ports, 5)
    windows(ports)
    (first,) = ready(ports)
    granted = start(api, first)
    answer = complete(api, first["ref"], granted["token"], "failed", "boom")
    assert answer["status"] == "waiting"
    assert start(api, first, claim="another-claim")["reason"] == "superseded"

    move(ports, 25)
    windows(ports)
    second = ready(ports)[-1]
    assert (second["run_id"], second["attempt"]) == (first["run_id"], 2)
    granted = start(api, second, claim="claim-0002")
    assert (granted["attempt"], granted["token"]) == (2, 2)
    assert complete(api, second["ref"], 1)["reason"] == "stale_token"
    assert complete(api, second["ref"], 2, "failed", "boom again")["status"] == "dead"

    run = api.call("GET", f"/timers/{timer['timer_id']}")[1]
    assert (run["status"], run["reason"]) == ("dead", "out of attempts (2)")
    assert [attempt["error"] for attempt in run["attempts"]] == ["boom", "boom again"]


def test_an_attempt_whose_lease_lapsed_is_lost_and_its_completion_refused(api: ApiUnderTest, ports: Ports) -> None:
    create_timer(api)
    move(ports, 5)
    windows(ports)
    (message,) = ready(ports)
    first = start(api, message, claim="claim-of-one")
    move(ports, 61)
    second = start(api, message, claim="claim-of-two")

    assert (second["attempt"], second["token"]) == (2, 2)
    beat = {"runs": [{"ref": message["ref"], "token": first["token"]}]}
    assert api.call("POST", "/runs:heartbeat", beat)[1]["runs"][0]["reason"] == "stale_token"
    assert complete(api, message["ref"], first["token"])["accepted"] is False
    assert complete(api, message["ref"], second["token"])["status"] == "succeeded"
    assert complete(api, message["ref"], second["token"])["accepted"] is True, "repeating it is harmless"


def test_runs_are_listed_newest_first_with_filters_and_cursors(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api)
    for _ in range(12):
        move(ports, 10)
        windows(ports)
    for message in ready(ports)[:5]:
        complete(api, message["ref"], start(api, message)["token"])

    seen, query = [], {"limit": "5"}
    while True:
        page = api.call("GET", "/runs", **query)[1]
        seen += page["runs"]
        if page["cursor"] is None:
            break
        query["cursor"] = page["cursor"]
    assert [run["fire_at"] for run in seen] == sorted((run["fire_at"] for run in seen), reverse=True)
    assert len(seen) == 12
    assert len(api.call("GET", "/runs", status="succeeded", limit="50")[1]["runs"]) == 5
    assert api.call("GET", "/runs", team="risk")[1]["runs"] == []

    history = api.call("GET", "/jobs/payments:rates/runs", limit="3")[1]
    more = api.call("GET", "/jobs/payments:rates/runs", limit="50", cursor=history["cursor"])[1]
    nominal = [run["scheduled_at"] for run in history["runs"] + more["runs"]]
    assert nominal == sorted(set(nominal), reverse=True)
    assert len(nominal) == 13


def test_a_preview_shows_where_the_clocks_change(api: ApiUnderTest) -> None:
    schedule = {"cron": "30 2 * * *", "zone": "America/New_York"}
    body = {"schedule": schedule, "after": "2027-03-13T12:00:00Z", "count": 2}
    status, preview = api.call("POST", "/schedules:preview", body)

    assert status == 200
    assert [one["scheduled_at"] for one in preview["occurrences"]] == ["2027-03-14T07:00:00Z", "2027-03-15T06:30:00Z"]
    assert preview["occurrences"][0]["note"]


def test_a_run_is_not_started_before_its_time_and_its_chain_stays_whole(api: ApiUnderTest, ports: Ports) -> None:
    job = create_job(api, schedule={"rate": "1 hour"})
    (item,) = ports.store.scan(TIMERS, limit=2, after=None)[0]
    early = start(api, {"ref": f"{item['pk']}|{item['sk']}"})

    assert (early["granted"], early["reason"], early["discard"]) == (False, "not_due", False)
    assert early["retry_after_s"] >= 3_600
    assert api.call("GET", "/jobs/payments:rates")[1]["next"] == job["next"]


def test_a_claim_that_is_repeated_after_its_lease_lapsed_is_a_new_attempt(api: ApiUnderTest, ports: Ports) -> None:
    create_timer(api)
    move(ports, 5)
    windows(ports)
    (message,) = ready(ports)
    start(api, message)
    move(ports, 61)

    again = start(api, message)
    assert (again["granted"], again["attempt"], again["token"]) == (True, 2, 2)


def test_a_deadline_for_the_start_is_shown_before_and_after(api: ApiUnderTest, ports: Ports) -> None:
    job = create_job(api, start_within_s=60)
    assert job["start_within_s"] == 60
    upcoming = job["next"]
    assert upcoming["start_by"] == _later(upcoming["fire_at"], 60)
    _, preview = api.call("GET", "/jobs/payments:rates/next", count="2")
    assert [one["start_by"] for one in preview["occurrences"]] == [
        _later(one["scheduled_at"], 60) for one in preview["occurrences"]
    ]
    _, timer = create_timer(api, start_within_s=60)
    assert (timer["start_within_s"], timer["start_by"]) == (60, _later(timer["fire_at"], 60))

    move(ports, 5)
    windows(ports)
    message = next(one for one in ready(ports) if one["ref"] == timer["ref"])
    move(ports, 61)
    declined = start(api, message)
    assert (declined["accepted"], declined["reason"], declined["discard"]) == (False, "expired", True)
    _, shown = api.call("GET", f"/timers/{timer['timer_id']}")
    assert (shown["status"], shown["reason"]) == ("expired", "not started within 60 s of its time (start_within_s)")
    _, listed = api.call("GET", "/runs", team="payments", status="expired")
    assert [(run["run_id"], run["start_by"]) for run in listed["runs"]] == [(timer["run_id"], timer["start_by"])]

    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "start_within_s": None})
    assert "start_within_s" not in changed
    assert "start_by" not in changed["next"]


def test_the_deadline_of_a_job_with_tolerance_counts_from_when_it_fires(api: ApiUnderTest) -> None:
    job = create_job(api, "spread", schedule={"cron": "0 2 * * *"}, tolerance_s=3_600, start_within_s=60)
    assert job["next"]["fire_at"] > job["next"]["scheduled_at"]
    _, preview = api.call("GET", "/jobs/payments:spread/next", count="1")
    assert preview["occurrences"][0]["start_by"] == job["next"]["start_by"] == _later(job["next"]["fire_at"], 60)


def _later(instant: str, seconds: int) -> str:
    return iso(parse_iso(instant) + seconds * 1_000)


def test_an_occurrence_that_another_run_holds_up_is_skipped_and_says_by_which(api: ApiUnderTest, ports: Ports) -> None:
    job = create_job(api, overlap="skip", schedule={"rate": "10 seconds"})
    assert job["overlap"] == "skip"
    for _ in range(2):
        move(ports, 10)
        windows(ports)
    first = ready(ports)[0]
    _, listed = api.call("GET", "/jobs/payments:rates/runs", status="skipped")
    (run,) = listed["runs"]
    assert (run["reason"], run["held_by"]["run_id"], run["held_by"]["status"]) == (
        "overlap",
        first["run_id"],
        "pending",
    )

    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "lease_s": 90})
    assert changed["overlap"] == "skip", "what a change leaves out stays"
    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 2, "overlap": None})
    assert changed["overlap"] == "skip", "that is the default"
    assert changed["version"] == 3, "and follows it from now on, which it did not"
    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 3, "overlap": "allow"})
    assert (changed["overlap"], changed["version"]) == ("allow", 4)
    assert api.call("PATCH", "/jobs/payments:rates", {"version": 3, "overlap": "allow"})[1]["version"] == 4, "a repeat"


def test_a_change_of_the_policy_says_what_it_waits_for_and_a_preview_what_holds(
    api: ApiUnderTest, ports: Ports
) -> None:
    create_job(api)
    for _ in range(2):
        move(ports, 10)
        windows(ports)
    first, second = ready(ports)
    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "overlap": "buffer_one"})
    names = [f"payments:rates@{run['scheduled_at']}" for run in (first, second)]
    assert changed["waits_for"] == {"runs": names, "more": False, "bounded": False}
    _, again = api.call("PATCH", "/jobs/payments:rates", {"version": 2, "lease_s": 90})
    assert "waits_for" not in again, "it was not asked"
    _, preview = api.call("GET", "/jobs/payments:rates/next", count="1")
    note = f"waits, or is skipped, while {names[1]} has not ended (overlap buffer_one)"
    assert [row["note"] for row in preview["occurrences"]] == [note]

    move(ports, 10)
    windows(ports)
    _, shown = api.call("GET", "/jobs/payments:rates")
    assert shown["buffered"]["count"] == 1
    _, listed = api.call("GET", "/jobs/payments:rates/runs", status="buffered")
    (waiting,) = listed["runs"]
    assert (waiting["run_id"], waiting["reason"]) == (shown["buffered"]["run_id"], "overlap")
    assert waiting["held_by"]["occurrence"] == names[1]
    for run in (second, first):
        complete(api, run["ref"], start(api, run)["token"], "succeeded")
    _, listed = api.call("GET", "/jobs/payments:rates/runs", status="queued")
    (released,) = listed["runs"]
    assert (released["run_id"], "released_at" in released) == (waiting["run_id"], True)
    _, preview = api.call("GET", "/jobs/payments:rates/next", count="1")
    assert "while" in preview["occurrences"][0]["note"], "the one that waited holds it now"
    assert "buffered" not in api.call("GET", "/jobs/payments:rates")[1]


def test_how_many_wait_and_how_long_goes_with_the_policy_that_has_several_wait(api: ApiUnderTest) -> None:
    job = create_job(api, overlap="buffer_all", buffer_max=20, buffer_age_s=600)
    assert (job["buffer_max"], job["buffer_age_s"]) == (20, 600)
    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "buffer_age_s": None})
    assert (changed["buffer_max"], "buffer_age_s" in changed) == (20, False)
    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 2, "overlap": "skip"})
    assert "buffer_max" not in changed, "they go with the policy"
    status, refused = api.call("PATCH", "/jobs/payments:rates", {"version": 3, "buffer_max": 5})
    assert (status, refused["errors"][0]["field"]) == (422, "buffer_max")
    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 3, "overlap": "buffer_all"})
    assert changed["buffer_max"] == 100, "as many as usual"


@pytest.mark.parametrize(
    ("catch_up", "overlap", "is_told"),
    [
        ({"policy": "all"}, None, True),
        ({"policy": "last", "last": 3}, "skip", True),
        ({"policy": "last", "last": 1}, "skip", False),
        ({"policy": "latest"}, "skip", False),
        ({"policy": "all"}, "allow", False),
    ],
)
def test_who_wants_all_that_was_missed_hears_that_overlap_skips_it(
    api: ApiUnderTest, catch_up: dict[str, Any], overlap: str | None, is_told: bool
) -> None:
    told = create_job(api, catch_up=catch_up, overlap=overlap)["warnings"]
    assert [warning.partition(":")[0] for warning in told] == ["overlap_skips_missed"] * is_told
    _, changed = api.call("PATCH", "/jobs/payments:rates", {"version": 1, "lease_s": 90})
    assert changed["warnings"] == told


def test_a_replay_that_another_run_holds_up_says_by_which(api: ApiUnderTest, ports: Ports) -> None:
    create_job(api, overlap="skip", retry_policy={"max_attempts": 1})
    move(ports, 10)
    windows(ports)
    dead = ready(ports)[0]
    complete(api, dead["ref"], start(api, dead)["token"], "failed", "boom")
    move(ports, 10)
    windows(ports)
    body = {"team": "payments", "reason": "again", "runs": [dead["ref"]]}
    _, answer = api.call("POST", "/dead-letters:replay", body)
    (outcome,) = answer["runs"]
    holder = ready(ports)[-1]
    assert (outcome["replayed"], outcome["reason"]) == (False, "held")
    assert outcome["held_by"] == f"payments:rates@{holder['scheduled_at']}"
