"""Answers that say nothing of a run cost it nothing: what was not decided, not read, not understood is asked again."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from tests.support.worker_bench import Bench, HandClock, message, receipt, refused, unreachable
from tests.unit.worker.test_worker_ending import GRACE_S, Ending, released, until
from tickwork.worker import App
from tickwork.worker.claims import CLAIMS_MAX, Claims
from tickwork.worker.delivery import Delivery
from tickwork.worker.sources import LeaseSource

NO_ANSWERS = [{}, {"runs": None}, {"runs": ["x"]}, {"runs": [None]}, [], "ok", None]
"""What stands where an answer should: a proxy's words, half an object, another service's."""
UNDECIDED = ["busy", "contended", "unreadable"]


def bench() -> Bench:
    app = App()
    app.job("job")(lambda ctx: None)
    return Bench(app)


def declined(reason: str, **more: Any) -> dict[str, Any]:
    return {"granted": False, "accepted": False, "reason": reason, "discard": False, **more}


def script(found: Bench, path: str, *answers: dict[str, Any]) -> None:
    """The first answers of a call; then the usual one."""
    left = list(answers)
    usual = {"accepted": True, "lease_ms": 60_000}
    found.api.answers[path] = lambda _: left.pop(0) if left else usual


def answer_once(found: Bench, path: str, answer: object) -> None:
    """The whole answer of the next call is this."""
    usual, left = found.api.post, [answer]

    def post(called: str, body: Any, **options: Any) -> Any:
        answered = usual(called, body, **options)
        return left.pop() if called == path and left else answered

    found.api.post = post  # type: ignore[method-assign]


# --- heartbeats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", UNDECIDED)
def test_a_heartbeat_that_decides_nothing_is_one_that_failed(reason: str) -> None:
    found = bench()
    found.take(message())
    (delivery,) = found.active
    script(found, "/runs:heartbeat", declined(reason), {"accepted": True, "lease_ms": 60_000})
    for _ in range(2):
        found.clock.at_s += 20
        found.worker._beats.step()
    assert not delivery.stop
    assert delivery.failed_beats == 0


@pytest.mark.parametrize("reason", UNDECIDED)
def test_and_two_of_them_end_the_attempt(reason: str) -> None:
    found = bench()
    found.take(message())
    (delivery,) = found.active
    script(found, "/runs:heartbeat", declined(reason), declined(reason))
    for _ in range(2):
        found.clock.at_s += 20
        found.worker._beats.step()
    assert delivery.stop.is_lost


def test_an_answer_that_is_none_costs_no_other_run_its_heartbeat() -> None:
    found = bench()
    found.take(message("r1"), message("r2"))
    script(found, "/runs:heartbeat")
    answer_once(found, "/runs:heartbeat", {"runs": ["?", {"accepted": True}]})
    for _ in range(2):
        found.clock.at_s += 20
        found.worker._beats.step()
    assert [one.failed_beats for one in found.active] == [0, 0]
    assert len(found.api.of("/runs:heartbeat")) == 2, "the next one comes a third of the lease later"


def test_the_look_at_lease_ends_goes_on_whatever_it_met() -> None:
    found = bench()
    found.take(message())
    (delivery,) = found.active
    done, looks = threading.Event(), list[int]()

    def look() -> None:
        looks.append(1)
        if len(looks) == 3:
            done.set()
        raise RuntimeError("the event loop is closed")

    found.worker._beats.give_up_outlasted = look  # type: ignore[method-assign]
    found.worker._beats.watch_until(done)
    assert len(looks) == 3
    assert not delivery.stop


# --- completions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", UNDECIDED)
def test_an_outcome_that_was_not_taken_is_told_again(reason: str) -> None:
    found = bench()
    script(found, "/runs:complete", *[declined(reason)] * 30)
    found.take(message())
    found.run_all()
    assert len(found.api.of("/runs:complete")) == 31
    assert found.sqs.deleted == [receipt(message())]


@pytest.mark.parametrize("answer", NO_ANSWERS, ids=json.dumps)
def test_an_outcome_whose_answer_is_none_is_told_again(answer: object) -> None:
    found = bench()
    answer_once(found, "/runs:complete", answer)
    found.take(message())
    found.run_all()
    assert len(found.api.of("/runs:complete")) == 2
    assert found.sqs.deleted == [receipt(message())]


def test_whatever_else_goes_wrong_while_it_is_told() -> None:
    found = bench()
    found.api.fail["/runs:complete"] = [OSError("no more files"), RuntimeError("shutting down")]
    found.take(message())
    found.run_all()
    assert len(found.api.of("/runs:complete")) == 3
    assert found.sqs.deleted == [receipt(message())]


def test_but_not_beyond_its_lease() -> None:
    found = bench()
    found.api.fail["/runs:complete"] = [OSError("no more files")] * 1_000
    found.take(message())
    found.run_all()
    assert len(found.api.of("/runs:complete")) == 60
    assert found.active == []
    assert found.sqs.deleted == []


# --- releases -----------------------------------------------------------------------------------------------------


def ending(*answers: dict[str, Any]) -> Ending:
    found = Ending(until(threading.Event()))
    script(found.bench, "/runs:release", *answers)
    found.when(GRACE_S, found.threads[0].join)
    return found


@pytest.mark.parametrize("reason", UNDECIDED)
def test_a_release_that_was_not_taken_is_tried_again(reason: str) -> None:
    found = ending(declined(reason), declined(reason))
    assert found.end()
    assert len(released(found)) == 3
    assert found.bench.sqs.shown[receipt(message())][-1] == 0


@pytest.mark.parametrize("status", [401, 403, 409])
def test_a_release_that_credentials_about_to_change_refuse_is_tried_again(status: int) -> None:
    found = ending()
    found.bench.api.fail["/runs:release"] = [refused(status), refused(status)]
    assert found.end()
    assert len(released(found)) == 3
    assert found.bench.sqs.shown[receipt(message())][-1] == 0


@pytest.mark.parametrize("status", [400, 413, 422])
def test_releases_that_are_refused_for_what_one_says_are_sent_one_by_one(status: int) -> None:
    found = Ending(until(threading.Event()), runs=3)
    for thread in found.threads:
        found.when(GRACE_S, thread.join)
    found.bench.api.fail["/runs:release"] = [refused(status), None, refused(status), None]
    assert found.end()
    assert [len(body["runs"]) for body in found.bench.api.of("/runs:release")] == [3, 1, 1, 1]
    assert sorted(shown[-1] for shown in found.bench.sqs.shown.values())[:2] == [0, 0]


# --- starts -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", NO_ANSWERS, ids=json.dumps)
def test_a_start_whose_answer_is_none_leaves_the_message_and_the_worker_goes_on(answer: object) -> None:
    found = bench()
    answer_once(found, "/runs:start", answer)
    found.take(message())
    assert found.active == []
    assert found.sqs.shown[receipt(message())] == [2]
    found.take(message())
    assert len(found.active) == 1


@pytest.mark.parametrize("answer", NO_ANSWERS, ids=json.dumps)
def test_a_lease_whose_answer_is_none_does_not_end_the_worker(answer: object) -> None:
    class Api:
        def post(self, *_: object, **__: object) -> Any:
            return answer

    api: Any = Api()
    source = LeaseSource(
        pool="p", worker="w", api=api, stopping=threading.Event(), clock=HandClock(), lease_s=60, wait_s=0
    )
    assert source.take(1) == []


def claims(found: Bench) -> list[str]:
    return [entry["claim"] for entry in found.api.entries("/runs:start")]


def test_a_start_that_was_not_answered_is_asked_again_by_its_own_claim() -> None:
    """It may have been granted: by another claim it would be held by nobody until its lease lapses."""
    found = bench()
    found.api.fail["/runs:start"] = [unreachable()]
    found.take(message())
    found.take(message())
    first, second = claims(found)
    assert first == second
    assert len(found.active) == 1


@pytest.mark.parametrize("reason", UNDECIDED)
def test_nor_is_one_that_was_not_decided(reason: str) -> None:
    found = bench()
    left = [declined(reason)]
    usual = {"granted": True, "token": 7, "attempt": 1}
    found.api.answers["/runs:start"] = lambda _: left.pop() if left else usual
    found.take(message())
    found.take(message())
    first, second = claims(found)
    assert first == second


def test_a_claim_stands_for_one_delivery_at_a_time() -> None:
    found = bench()
    found.api.fail["/runs:start"] = [unreachable()]
    for _ in range(3):
        found.take(message())
    first, second, third = claims(found)
    assert first == second != third


@pytest.mark.parametrize("reason", ["held", "not_due", "no_slot"])
def test_one_that_was_decided_is_claimed_anew(reason: str) -> None:
    found = bench()
    found.api.answers["/runs:start"] = lambda _: declined(reason, retry_after_s=1)
    found.take(message())
    found.take(message())
    first, second = claims(found)
    assert first != second


def test_another_attempt_of_the_run_has_a_claim_of_its_own() -> None:
    found = bench()
    found.api.fail["/runs:start"] = [unreachable()]
    found.take(message())
    found.take(message(attempt=2, retry_ref="x"))
    first, second = claims(found)
    assert first != second


def test_only_so_many_claims_are_kept() -> None:
    kept = Claims()
    deliveries = [Delivery.read("r", message(f"r{n}"), f"claim-{n}") for n in range(CLAIMS_MAX + 1)]
    kept.keep(deliveries)
    first, second = (Delivery.read("r", message(f"r{n}"), "new") for n in (0, 1))
    kept.name_again([first, second])
    assert (first.claim, second.claim) == ("new", "claim-1")


# --- what is shown and hidden at once ------------------------------------------------------------------------------


def test_a_message_that_was_given_back_while_it_was_being_hidden_is_shown_again() -> None:
    """The heartbeat's call to the queue was under way when the release came, and the queue heard it last."""
    found = bench()
    found.take(message())
    (delivery,) = found.active
    change = found.sqs.change_message_visibility_batch

    def late(**asked: Any) -> dict[str, Any]:
        found.sqs.change_message_visibility_batch = change  # type: ignore[method-assign]
        delivery.shown_in_s, delivery.is_given_back = 0, True
        found.source.give_back([delivery], 0)
        return change(**asked)

    found.sqs.change_message_visibility_batch = late  # type: ignore[method-assign]
    found.source.hold([delivery])
    found.settle()
    assert found.sqs.shown[receipt(message())][-1] == 0


def test_a_message_is_hidden_by_the_last_heartbeat_also_where_the_calls_to_the_queue_lag() -> None:
    found = bench()
    found.take(message())
    (delivery,) = found.active
    found.settle()
    lagging = threading.Event()
    for _ in range(found.source._queue_calls._max_workers):
        found.source._queue_calls.submit(lagging.wait, 30)
    found.source.hold([delivery])
    delivery.extend({"lease_ms": 5_000}, delivery.beaten_at_s)
    lagging.set()
    found.settle()
    assert found.sqs.shown[receipt(message())][-1] == 6


@pytest.mark.parametrize("how", ["no answer", "an entry of the answer"])
def test_that_a_message_is_visible_again_is_told_until_the_queue_has_taken_it(how: str) -> None:
    """Else a run that was handed back waits for as long as its lease would have lasted."""
    found = bench()
    found.take(message("r1"), message("r2"))
    change, failures = found.sqs.change_message_visibility_batch, [1, 1]

    def failing(**asked: Any) -> dict[str, Any]:
        if not failures:
            return change(**asked)
        failures.pop()
        if how == "no answer":
            raise ReadTimeoutError(endpoint_url="https://sqs.test")
        kept = [entry for entry in asked["Entries"] if receipt(message("r1")) != entry["ReceiptHandle"]]
        change(**(asked | {"Entries": kept}))
        return {"Failed": [{"Id": one["Id"], "Code": "InternalError"} for one in asked["Entries"] if one not in kept]}

    found.sqs.change_message_visibility_batch = failing  # type: ignore[method-assign]
    found.source.give_back(found.active, 0)
    assert [found.sqs.shown[receipt(message(name))][-1] for name in ("r1", "r2")] == [0, 0]
    assert found.sqs.shown[receipt(message("r2"))].count(0) == 1, "of one that was taken it is told once"
