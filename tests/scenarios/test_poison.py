"""What cannot be fired is set aside, loudly, and never holds up the slice it is in (MISS-03, MISS-05)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scenarios.stage import NOW_MS, Stage
from tickwork.core.errors import Conflict, OutcomeUnknown, Throttled
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.tables import JOBS, SET_ASIDE, TIMERS
from tickwork.core.ledger.writes import Anyway, Put
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.sending import SEND_TRIES_MAX
from tickwork.flows.ledger.commit import COMMIT_TRIES_MAX
from tickwork.ports import Layout, SendReport

DUE_MS = NOW_MS + 10 * SECOND_MS
GOOD = 1_000


def a_slice(good: int = 20) -> Stage:
    stage = Stage(Layout(shards=1, slices=1, pools=("default", "gone")))
    stage.timers(good, DUE_MS)
    return stage


def plant(stage: Stage, table: Any, item: dict[str, Any]) -> None:
    stage.store.commit([Put(table, item, Anyway("planted"))])


def key(name: str, kind: str = "") -> LedgerKey:
    return LedgerKey("main", 0, DUE_MS, "aaa", name, DUE_MS, kind)  # "aaa": it comes first in its second


def an_item_of_a_newer_version(stage: Stage) -> None:
    plant(stage, TIMERS, key("newer").as_item() | {"status": "dreaming", "work": {"pool": "default", "handler": "j"}})


def an_item_without_sense(stage: Stage) -> None:
    plant(stage, TIMERS, key("garbled").as_item() | {"status": "pending", "work": 7})


def a_key_without_sense(stage: Stage) -> None:
    item = key("newer-key").as_item()
    plant(stage, TIMERS, item | {"sk": f"{item['sk']}#manual.1", "status": "pending"})


def a_retry_of_nothing(stage: Stage) -> None:
    retry = key("retry", "retry.2").as_item()
    plant(stage, TIMERS, retry | {"status": "pending", "run_ref": "nowhere", "attempt": 2})


def an_occurrence_without_a_job(stage: Stage) -> None:
    plant(
        stage,
        TIMERS,
        key("orphan").as_item() | {"status": "pending", "job_id": "aaa:orphan", "scheduled_at_ms": DUE_MS},
    )


def a_job_that_can_not_be_read(stage: Stage) -> None:
    plant(stage, JOBS, {"job_id": "aaa:tongues", "team": "aaa", "name": "tongues", "status": "active"})
    item = key("tongues").as_item() | {"status": "pending", "job_id": "aaa:tongues", "scheduled_at_ms": DUE_MS}
    plant(stage, TIMERS, item)


def a_queue_that_is_missing(stage: Stage) -> None:
    stage.missing_pools.add("gone")
    stage.timers(1, DUE_MS, team="aaa", pool="gone")


POISONS = (
    an_item_of_a_newer_version,
    an_item_without_sense,
    a_key_without_sense,
    a_retry_of_nothing,
    an_occurrence_without_a_job,
    a_job_that_can_not_be_read,
    a_queue_that_is_missing,
)


@pytest.mark.parametrize("poison", POISONS, ids=lambda poison: poison.__name__)
@pytest.mark.parametrize("late", [False, True], ids=["on time", "after an outage"])
def test_poison_is_set_aside_with_an_alarm_and_all_else_fires_on_time(poison: Any, late: bool) -> None:
    stage = a_slice()
    poison(stage)
    stage.at_ms = DUE_MS + (10 * MINUTE_MS if late else 0)
    report = stage.process().window()
    assert report.outcome == "served"
    assert stage.lease().done == stage.second
    assert not stage.lease().late_until
    assert stage.signals.counts["scheduler.set_aside_total"] >= 1
    assert {"item_set_aside", "message_set_aside"} & {action for action, _ in stage.signals.lines}
    workers = stage.work()
    assert len(workers.started) == 20
    left = [item for item in stage.store.items(TIMERS) if "#aaa#" in item["sk"]]
    assert left, "it was not deleted"
    assert left[0]["status"] in ("pending", "dreaming"), "and not guessed at"

    stage.serve(301)
    repairs = reconcile(stage.process().ports)
    assert repairs.audited >= 21, "nor does it hold up the audit"
    later = stage.timers(1, stage.at_ms + SECOND_MS)
    assert len(stage.serve(2).started) == 1 == len(later)


def garble(stage: Stage, job_id: str, schedule: dict[str, Any]) -> None:
    item = stage.store.get(JOBS, {"job_id": job_id})
    assert item is not None
    plant(stage, JOBS, item | {"schedule": schedule})


def test_a_thousand_good_schedules_fire_beside_two_that_can_not_be_computed() -> None:
    """MISS-05: step zero, written by an older version, and a zone that no longer loads."""
    stage = Stage(Layout(shards=2, slices=1, pools=("default",)))
    for n in range(GOOD):
        stage.job(f"good-{n:04d}", {"cron": "* * * * *", "zone": "UTC"})
    bad = {
        stage.job("step-zero", {"cron": "* * * * *", "zone": "UTC"}, team="aaa"): {
            "cron": "*/0 * * * *",
            "zone": "UTC",
        },
        stage.job("no-zone", {"cron": "* * * * *", "zone": "UTC"}, team="aaa"): {
            "cron": "* * * * *",
            "zone": "Mars/Olympus",
        },
    }
    right = {job_id: stage.get_job(job_id).schedule for job_id in bad}
    for job_id, schedule in bad.items():
        garble(stage, job_id, schedule)
    stage.at_ms = NOW_MS + MINUTE_MS
    workers = stage.serve(1)
    assert len(workers.started) == GOOD + 2, "also the occurrence that was materialised before: late beats lost"
    assert set(workers.lags_ms) == {SECOND_MS}
    for job_id in bad:
        job = stage.get_job(job_id)
        assert job.status == "error"
        assert job.reason
        assert job.next is None
    assert stage.signals.counts["scheduler.jobs_parked_total"] == 2, "an alarm after the first failure"

    stage.at_ms = NOW_MS + 2 * MINUTE_MS
    assert len(stage.serve(1).started) == GOOD, "the bad ones are not first in line for ever"
    repairs = reconcile(stage.process().ports)
    assert repairs.unparked == 0, "tried again, slowly, and kept"
    assert stage.signals.counts["scheduler.definitions_unreadable"] == 2

    for job_id, schedule in right.items():
        garble(stage, job_id, dict(schedule))
    assert reconcile(stage.process().ports).unparked == 2
    for job_id in bad:
        upcoming = stage.get_job(job_id).next
        assert upcoming is not None
        assert upcoming.scheduled_at_ms == NOW_MS + 3 * MINUTE_MS, "what it missed was only late, and is under way"
    assert len(stage.work().started) == 2, "nothing is lost"
    stage.at_ms = NOW_MS + 3 * MINUTE_MS
    assert len(stage.serve(1).started) == GOOD + 2


def test_of_a_batch_that_failed_in_part_the_rest_alone_is_sent_again() -> None:
    """MISS-03: r0 to r6 and r8 went, r7 was throttled, r9 is in neither list: 7 and 9 are sent again, alone."""
    stage = a_slice(good=10)
    stage.at_ms = DUE_MS
    scanner = stage.process()
    sends: list[list[str]] = []

    def in_part(detail: Any) -> SendReport:
        stage.put("ready-default", [m for i, m in enumerate(detail) if i not in (7, 9)])
        return SendReport(failed=(7, 9))

    def first_send_fails(call: Any) -> bool:
        if call.verb != "send" or call.what != "ready-default":
            return False
        sends.append([json.loads(m.body)["run_id"] for m in call.detail])
        if len(sends) == 1:
            scanner.results[call.n] = in_part(call.detail)
        return False

    began_ms = stage.at_ms
    scanner.before(first_send_fails, lambda: None)
    assert scanner.window().outcome == "served"
    assert [len(batch) for batch in sends] == [10, 2]
    assert sends[1] == [sends[0][7], sends[0][9]]
    assert stage.at_ms > began_ms, "with backoff"
    workers = stage.work()
    assert len(workers.started) == len(set(workers.started)) == 10
    assert workers.dead_at_start == 0


def test_what_the_queue_refuses_for_good_is_not_tried_for_ever() -> None:
    stage = a_slice(good=10)
    stage.at_ms = DUE_MS
    scanner = stage.process()
    scanner.before(
        lambda call: (
            call.what == "ready-default"
            and not scanner.results.update({call.n: SendReport(refused=((3, "InvalidMessageContents: a character"),))})
        ),
        lambda: None,
    )
    assert scanner.window().outcome == "served"
    assert sum(call.what == "ready-default" for call in scanner.calls) == 1
    (line,) = [facts for action, facts in stage.signals.lines if action == "message_set_aside"]
    assert "InvalidMessageContents" in str(line["why"])
    assert stage.signals.counts["scheduler.set_aside_total"] == 1


def test_what_a_queue_does_not_take_is_set_aside_and_sent_when_it_does() -> None:
    stage = a_slice(good=10)
    stage.at_ms = DUE_MS
    scanner = stage.process()
    scanner.before(
        lambda call: (
            call.what == "ready-default" and not scanner.results.update({call.n: SendReport(failed=tuple(range(10)))})
        ),
        lambda: None,
        times=99,
    )
    report = scanner.window()
    assert (report.outcome, report.sent) == ("served", 0)
    assert sum(call.what == "ready-default" for call in scanner.calls) == SEND_TRIES_MAX
    assert stage.at_ms - DUE_MS == 100 + 200 + 400 + 800, "the pauses double"
    assert stage.lease().done == DUE_MS // SECOND_MS, "the cursor goes on"
    assert [item["who"] for item in stage.store.items(SET_ASIDE)] == ["pool#default"], "past what a row covers"
    assert stage.lease().owner == "", "the next window may take it at once"
    assert len(stage.serve(2).started) == 10
    assert not stage.store.items(SET_ASIDE)


@pytest.mark.parametrize("error", [Throttled, Conflict, OutcomeUnknown])
def test_a_throttled_store_is_tried_again_with_backoff_and_then_left_to_the_next_tick(error: type[Exception]) -> None:
    def fail() -> None:
        raise error("the table is busy")

    stage = a_slice(good=10)
    stage.at_ms = DUE_MS
    patient = stage.process()
    patient.before(lambda call: call.verb == "commit", fail, times=COMMIT_TRIES_MAX - 1)
    assert patient.window().outcome == "served"
    assert stage.at_ms - DUE_MS == 100 + 200 + 400 + 800
    assert stage.signals.counts["store.commit_retried_total"] == COMMIT_TRIES_MAX - 1

    later = stage.timers(5, stage.at_ms + SECOND_MS)
    stage.at_ms += SECOND_MS
    busy = stage.process()
    busy.before(lambda call: call.verb == "commit", fail, times=99)
    with pytest.raises(error):
        busy.window()
    workers = stage.serve(1)
    assert len(workers.started) == 15, len(later)
