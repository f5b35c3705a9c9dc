"""What becomes of a message before its job runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.worker_bench import Bench, message, receipt, refused, unreachable
from tickwork.client import ApiRefused
from tickwork.worker import App, Context
from tickwork.worker.sources import LONG_POLL_S, LeaseSource


@pytest.fixture
def bench() -> Bench:
    app = App()

    @app.job("job")
    def job(ctx: Context) -> None:
        """Nothing."""

    return Bench(app)


def answer_starts(bench: Bench, **answer: Any) -> None:
    bench.api.answers["/runs:start"] = lambda entry: {"ref": entry["ref"], "granted": False, "accepted": False} | answer


def test_a_granted_run_is_hidden_for_its_lease_run_completed_and_then_deleted(bench: Bench) -> None:
    body = message()
    bench.take(body)
    assert bench.sqs.shown == {receipt(body): [61]}
    bench.run_all()
    assert bench.sqs.deleted == [receipt(body)]
    assert bench.sqs.journal == ["/runs:start", "/runs:complete", "deleted"]
    assert bench.active == []


def test_a_start_hands_back_the_messages_own_words(bench: Bench) -> None:
    known = {"retry_ref": "rr", "payload_id": "p1", "dispatched_at_ms": 5, "dispatched_by": "main#0#9", "attempt": 3}
    bench.take(message(**known, something_new=True))
    (entry,) = bench.api.entries("/runs:start")
    assert entry == {"claim": "claim-00000001", "ref": "ref-r1", "lease_s": 60} | known
    assert bench.api.of("/runs:start")[0]["worker"] == "worker-1"


def test_a_duplicate_of_a_run_that_has_ended_is_deleted_and_not_run(bench: Bench) -> None:
    answer_starts(bench, reason="succeeded", discard=True)
    bench.take(message())
    assert bench.sqs.deleted == [receipt(message())]
    assert bench.submitted == []


def test_a_run_held_by_another_is_left_in_the_queue_until_that_lease_ends(bench: Bench) -> None:
    answer_starts(bench, reason="held", discard=False, retry_after_s=42)
    bench.take(message())
    assert bench.sqs.deleted == []
    assert bench.sqs.shown == {receipt(message()): [42]}
    assert bench.submitted == []


@pytest.mark.parametrize(("retry_after_s", "shown_s"), [(0, 1), (5_000, 900)])
def test_the_wait_for_a_held_run_is_bounded(bench: Bench, retry_after_s: int, shown_s: int) -> None:
    answer_starts(bench, reason="held", discard=False, retry_after_s=retry_after_s)
    bench.take(message())
    assert bench.sqs.shown == {receipt(message()): [shown_s]}


def test_a_busy_answer_leaves_the_message_for_a_while(bench: Bench) -> None:
    answer_starts(bench, reason="busy", discard=False)
    bench.take(message())
    assert bench.sqs.deleted == []
    assert bench.sqs.shown == {receipt(message()): [5]}


def test_each_message_of_a_batch_has_its_own_fate(bench: Bench) -> None:
    fates: dict[str, dict[str, Any]] = {
        "ref-go": {"granted": True, "token": 1, "attempt": 1},
        "ref-old": {"granted": False, "discard": True, "reason": "succeeded"},
        "ref-held": {"granted": False, "discard": False, "reason": "held", "retry_after_s": 9},
    }
    bench.api.answers["/runs:start"] = lambda entry: fates[entry["ref"]]
    bench.take(message("go"), message("old"), message("held"))
    assert [delivery.ref for delivery in bench.active] == ["ref-go"]
    assert bench.sqs.deleted == [receipt(message("old"))]
    assert bench.sqs.shown == {receipt(message("go")): [61], receipt(message("held")): [9]}


@pytest.mark.parametrize(
    "body",
    [
        "not json",
        "5",
        "null",
        "[]",
        message(ref=None),
        message(run_id=None),
        message(scheduled_at="yesterday"),
        message(scheduled_at=None),
        message(lease_s="long"),
    ],
)
def test_a_bad_message_stays_for_the_dead_letter_queue_and_its_neighbours_run(bench: Bench, body: str) -> None:
    good = message("good")
    bench.take(body, good)
    bench.run_all()
    assert bench.sqs.deleted == [receipt(good)]
    assert receipt(body) not in bench.sqs.shown
    assert len(bench.api.entries("/runs:start")) == 1


def test_when_the_start_is_not_answered_nothing_runs_and_the_messages_come_back_soon(bench: Bench) -> None:
    bench.api.fail["/runs:start"] = [unreachable()]
    bench.take(message())
    assert bench.submitted == []
    assert bench.sqs.shown == {receipt(message()): [2]}
    assert bench.sqs.deleted == []


def test_a_start_answered_for_too_few_runs_starts_none(bench: Bench) -> None:
    bench.api.post = lambda *_, **__: {"runs": []}  # type: ignore[method-assign]
    bench.take(message())
    assert bench.submitted == []
    assert bench.sqs.deleted == []


def test_one_refused_entry_does_not_keep_its_neighbours_from_starting(bench: Bench) -> None:
    bench.api.fail["/runs:start"] = [refused(), None, refused()]
    bench.take(message("a"), message("b"))
    assert [delivery.ref for delivery in bench.active] == ["ref-a"]
    assert bench.sqs.shown[receipt(message("b"))] == [5]


def test_no_more_is_received_than_can_start(bench: Bench) -> None:
    bench.take(message("a"), message("b"), message("c"))
    bench.take(message("d"))
    bench.take()
    assert bench.sqs.asked_for == [4, 1]


def test_slots_come_back_when_nothing_was_received(bench: Bench) -> None:
    for _ in range(3):
        bench.take()
    assert bench.sqs.asked_for == [4, 4, 4]


def test_a_large_worker_asks_for_ten_at_a_time() -> None:
    bench = Bench(concurrency=64)
    bench.take()
    assert bench.sqs.asked_for == [10]


def test_what_arrives_during_a_shutdown_is_given_back_at_once(bench: Bench) -> None:
    bench.sqs.on_receive = bench.worker.stop
    bench.take(message())
    assert bench.sqs.shown == {receipt(message()): [0]}
    assert bench.api.calls == []
    assert bench.submitted == []


def test_a_failed_receive_pauses_and_takes_nothing(bench: Bench) -> None:
    from botocore.exceptions import EndpointConnectionError

    def fail() -> None:
        raise EndpointConnectionError(endpoint_url="https://queue.test")

    bench.sqs.on_receive = fail
    bench.take()
    assert bench.clock.waits == [2.0]
    assert bench.submitted == []


# --- handlers that are not here -----------------------------------------------------------------------------------


@pytest.fixture
def choosy(bench: Bench) -> Bench:
    return Bench(bench.app, handlers=bench.app.names)


@pytest.mark.parametrize(("receives", "hidden_s"), [(None, 5), (1, 5), (2, 10), (4, 40), (7, 300), (900, 300)])
def test_a_message_whose_handler_is_not_here_is_left_to_another_worker(
    choosy: Bench, receives: int | None, hidden_s: int
) -> None:
    body = message(handler="new")
    if receives is not None:
        choosy.sqs.receives[body] = receives
    choosy.take(body)
    assert choosy.sqs.shown == {receipt(body): [hidden_s]}
    assert choosy.api.calls == [
        ("/runs:unhandled", {"worker": "worker-1", "runs": [{"ref": "ref-r1", "handler": "new"}]})
    ]
    assert choosy.submitted == []
    assert choosy.sqs.deleted == []


def test_those_beside_it_are_started(choosy: Bench) -> None:
    choosy.take(message("a"), message("b", handler="new"), message("c"))
    assert [entry["ref"] for entry in choosy.api.entries("/runs:start")] == ["ref-a", "ref-c"]
    assert len(choosy.submitted) == 2


def test_its_slot_is_free_for_others(choosy: Bench) -> None:
    choosy.take(*(message(str(n), handler="new") for n in range(4)))
    choosy.take(*(message(str(n)) for n in range(4)))
    assert choosy.sqs.asked_for == [4, 4]
    assert len(choosy.submitted) == 4


@pytest.mark.parametrize("failure", [refused(404), refused(), unreachable()])
def test_a_platform_that_does_not_want_to_know_is_no_matter(choosy: Bench, failure: Exception) -> None:
    choosy.api.fail["/runs:unhandled"] = [failure]
    choosy.take(message(handler="new"), message())
    assert len(choosy.submitted) == 1


def test_during_a_shutdown_it_is_given_back_like_any_other(choosy: Bench) -> None:
    choosy.sqs.on_receive = choosy.worker.stop
    choosy.take(message(handler="new"))
    assert choosy.sqs.shown == {receipt(message(handler="new")): [0]}
    assert choosy.api.calls == []


def leases(bench: Bench) -> LeaseSource:
    return LeaseSource(
        pool="payments",
        worker="w",
        api=bench.api,  # type: ignore[arg-type]
        stopping=bench.stopping,
        clock=bench.clock,
        lease_s=60,
        wait_s=5,
        handlers=["job", "other"],
    )


def test_a_worker_over_http_says_which_handlers_it_has(bench: Bench) -> None:
    leases(bench).take(3)
    (body,) = bench.api.of("/pools/payments:lease")
    assert body["handlers"] == ["job", "other"]


def test_a_platform_of_an_older_version_is_asked_without_them(bench: Bench) -> None:
    source = leases(bench)
    problem = {"errors": [{"field": "handlers", "detail": "there is no such field"}]}
    bench.api.fail["/pools/payments:lease"] = [ApiRefused(422, problem)]
    assert source.take(3) == []
    assert bench.clock.waits == [], "at once"
    source.take(3)
    first, second = bench.api.of("/pools/payments:lease")
    assert "handlers" in first
    assert "handlers" not in second


def test_what_may_pass_is_waited_out(bench: Bench) -> None:
    source = leases(bench)
    bench.api.fail["/pools/payments:lease"] = [unreachable(), unreachable()]
    for _ in range(3):
        source.take(3)
    assert bench.clock.waits[:2] == [2.0, 2.0]
    assert all("handlers" in body for body in bench.api.of("/pools/payments:lease"))


def test_a_source_may_be_asked_without_waiting(bench: Bench) -> None:
    """As a worker of several lanes asks: one that has nothing keeps the others waiting no longer than it says."""
    source = leases(bench)
    for wait_s in (None, 0, 1):
        source.take(3, wait_s)
    assert [body["wait_s"] for body in bench.api.of("/pools/payments:lease")] == [5, 0, 1]
    for wait_s in (None, 0, 1):
        bench.source.take(3, wait_s)
    assert bench.sqs.waited_for == [LONG_POLL_S, 0, 1]
