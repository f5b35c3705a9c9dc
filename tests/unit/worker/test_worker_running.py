"""What becomes of a run: outcomes, heartbeats, lost leases, cancels, completes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from tests.support.worker_bench import Bench, message, receipt, refused, unreachable
from tickwork.worker import App, Context, FailPermanently, LeaseLost, RetryLater, RunCancelled
from tickwork.worker.calling import call_job


def bench_with(function: Callable[..., Any], **options: Any) -> Bench:
    app = App()
    app.job("job", **options)(function)
    return Bench(app)


def outcomes(bench: Bench) -> list[tuple[str, str]]:
    return [(entry["outcome"], entry["error"]) for entry in bench.api.entries("/runs:complete")]


def ends_with(function: Callable[..., Any], **options: Any) -> tuple[str, str]:
    bench = bench_with(function, **options)
    bench.take(message())
    bench.run_all()
    (outcome,) = outcomes(bench)
    return outcome


# --- outcomes -----------------------------------------------------------------------------------------------------


def raises(error: BaseException) -> Callable[[Context], None]:
    def job(ctx: Context) -> None:
        raise error

    return job


@pytest.mark.parametrize(
    ("error", "options", "expected"),
    [
        (ValueError("no"), {}, ("failed", "ValueError: no")),
        (FailPermanently("never"), {}, ("failed_permanent", "FailPermanently: never")),
        (ValueError("no"), {"permanent": (ValueError,)}, ("failed_permanent", "ValueError: no")),
        (UnicodeError("no"), {"permanent": (ValueError,)}, ("failed_permanent", "UnicodeError: no")),
        (
            UnicodeError("no"),
            {"permanent": (ValueError,), "retryable": (UnicodeError,)},
            ("failed", "UnicodeError: no"),
        ),
        (KeyError("k"), {"permanent": (ValueError,), "retryable": (OSError,)}, ("failed", "KeyError: 'k'")),
        (KeyError("k"), {"retryable": (OSError,)}, ("failed_permanent", "KeyError: 'k'")),
        (TimeoutError("t"), {"retryable": (OSError,)}, ("failed", "TimeoutError: t")),
        (RetryLater("shut", after_s=90), {"retryable": (OSError,)}, ("failed", "RetryLater: shut")),
        (SystemExit(3), {}, ("failed", "SystemExit: 3")),
        (KeyboardInterrupt(), {}, ("failed", "KeyboardInterrupt: ")),
    ],
)
def test_an_exception_is_the_attempts_failure_as_the_job_declared(
    error: BaseException, options: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert ends_with(raises(error), **options) == expected


def test_a_failure_tells_its_class_and_when_to_come_back() -> None:
    bench = bench_with(raises(RetryLater("shut", after_s=90)))
    bench.take(message())
    bench.run_all()
    (entry,) = bench.api.entries("/runs:complete")
    assert (entry["error_class"], entry["retry_after_s"]) == ("RetryLater", 90)


def test_a_failed_attempt_is_completed_and_its_message_deleted() -> None:
    bench = bench_with(raises(ValueError("no")))
    bench.take(message())
    bench.run_all()
    assert bench.sqs.deleted == [receipt(message())]


def test_an_unknown_handler_is_a_failure_that_the_history_shows() -> None:
    bench = bench_with(raises(ValueError()))
    bench.take(message(handler="other"))
    bench.run_all()
    assert outcomes(bench) == [("failed", "UnknownHandler: no job function 'other' in this worker (it has job)")]


def test_a_long_error_is_cut() -> None:
    assert len(ends_with(raises(ValueError("x" * 50_000)))[1]) == 1_000


# --- payloads -----------------------------------------------------------------------------------------------------


class Order(BaseModel):
    amount: int


def test_the_second_parameter_gets_the_payload_as_its_annotation() -> None:
    seen: list[Any] = []

    def job(ctx: Context, order: Order) -> None:
        seen.extend([order, ctx.payload])

    bench = bench_with(job)
    bench.take(message(payload={"amount": 5}))
    bench.run_all()
    assert seen == [Order(amount=5), Order(amount=5)]


def test_the_payload_of_the_start_wins_over_that_of_the_message() -> None:
    seen: list[Any] = []
    bench = bench_with(lambda ctx: seen.append(ctx.payload))
    bench.api.answers["/runs:start"] = lambda _: {"granted": True, "token": 1, "attempt": 1, "payload": {"big": 1}}
    bench.take(message(payload_id="p1"))
    bench.run_all()
    assert seen == [{"big": 1}]


def test_a_payload_that_does_not_fit_fails_for_good_without_a_call() -> None:
    def job(ctx: Context, order: Order) -> None:
        raise AssertionError("not called")

    outcome, error = ends_with(job)
    assert outcome == "failed_permanent"
    assert "does not fit" in error


def test_payload_types_may_be_named_beside_the_function_and_need_not_be_models() -> None:
    seen: list[Any] = []
    bench = bench_with(lambda ctx: seen.append(ctx.payload), payload=list[int])
    bench.take(message(payload=["1", 2]))
    bench.run_all()
    assert seen == [[1, 2]]


def test_a_function_of_another_shape_is_refused_at_registration() -> None:
    def too_many(ctx: Context, a: int, b: int) -> None: ...

    with pytest.raises(TypeError, match="takes"):
        App().job("job")(too_many)
    with pytest.raises(ValueError, match="twice"):
        bench_with(lambda ctx: None).app.job("job")(lambda ctx: None)


# --- context ------------------------------------------------------------------------------------------------------


def test_the_context_carries_identity_times_token_and_trace() -> None:
    seen: list[Context] = []
    bench = bench_with(seen.append)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    bench.take(message(traceparent=trace, previous_at="2026-11-29T02:00:00Z", attempt=2))
    bench.run_all()
    (ctx,) = seen
    assert (ctx.run_id, ctx.attempt, ctx.token, ctx.traceparent) == ("run-r1", 2, 7, trace)
    assert (ctx.previous_at is not None, ctx.next_at) == (True, None)
    assert ctx.fence == "2026-11-30T02:00:00.000#0000000007"


@pytest.mark.parametrize("trace", [None, 5, "", "nonsense"])
def test_a_trace_that_is_none_is_left_out(trace: Any) -> None:
    seen: list[Context] = []
    bench = bench_with(seen.append)
    bench.take(message(traceparent=trace))
    bench.run_all()
    assert seen[0].traceparent is None


# --- heartbeats ---------------------------------------------------------------------------------------------------


@pytest.fixture
def held() -> Bench:
    """A worker that holds one run with a lease of 60 s, not yet called."""
    bench = bench_with(lambda ctx: ctx.check())
    bench.take(message())
    return bench


def beat(bench: Bench, at_s: float) -> None:
    bench.clock.at_s = 1_000.0 + at_s
    bench.worker._beats.step()
    bench.settle()


def test_beats_come_at_each_third_of_the_lease_and_carry_the_visibility_along(held: Bench) -> None:
    for at_s in (5, 19.9, 20, 25, 39.9, 40, 60):
        beat(held, at_s)
    assert held.api.entries("/runs:heartbeat") == [{"ref": "ref-r1", "token": 7, "lease_s": 60}] * 3
    assert held.sqs.shown[receipt(message())] == [61] * 4


def test_a_beat_is_not_repeated_and_waits_for_a_fraction_of_the_lease(held: Bench) -> None:
    beat(held, 20)
    assert held.api.options[-1] == {"repeat": False, "timeout_s": 5.0}


def test_one_failed_beat_is_forgiven(held: Bench) -> None:
    held.api.fail["/runs:heartbeat"] = [unreachable(), None, unreachable()]
    for at_s in (20, 40, 60):
        beat(held, at_s)
    held.run_all()
    assert outcomes(held) == [("succeeded", "")]


@pytest.mark.parametrize("failures", [[unreachable(), unreachable()], [refused(), refused()]])
def test_after_two_failed_beats_the_run_is_stopped_not_completed_and_left_in_the_queue(
    held: Bench, failures: list[Exception | None]
) -> None:
    held.api.fail["/runs:heartbeat"] = failures
    beat(held, 20)
    beat(held, 40)
    beat(held, 60)
    held.run_all()
    assert len(held.api.of("/runs:heartbeat")) == 2
    assert outcomes(held) == []
    assert held.sqs.deleted == []
    assert held.active == []


def test_two_busy_answers_count_as_failed_beats(held: Bench) -> None:
    held.api.answers["/runs:heartbeat"] = lambda _: {"accepted": False, "reason": "busy"}
    beat(held, 20)
    assert not held.active[0].stop
    beat(held, 40)
    assert held.active[0].stop.is_lost


@pytest.mark.parametrize("reason", ["stale_token", "unknown", "dead", "succeeded"])
def test_a_refused_beat_stops_the_run_at_once(held: Bench, reason: str) -> None:
    held.api.answers["/runs:heartbeat"] = lambda _: {"accepted": False, "reason": reason, "discard": False}
    beat(held, 20)
    held.run_all()
    assert outcomes(held) == []
    assert held.sqs.deleted == []


def test_a_worker_that_stood_still_past_its_lease_gives_it_up_without_asking(held: Bench) -> None:
    beat(held, 61)
    assert held.active[0].stop.is_lost
    assert held.api.of("/runs:heartbeat") == []


def test_a_beat_answered_for_too_few_runs_counts_as_failed(held: Bench) -> None:
    held.api.post = lambda *_, **__: {"runs": []}  # type: ignore[method-assign]
    beat(held, 20)
    assert held.active[0].failed_beats == 1


def test_a_job_that_ends_well_after_its_lease_was_lost_is_not_completed() -> None:
    bench = bench_with(lambda ctx: bench.active[0].call.flag.set(LeaseLost))
    bench.take(message())
    bench.run_all()
    assert outcomes(bench) == []
    assert bench.sqs.deleted == []


def test_what_became_of_a_job_whose_lease_was_lost_is_nobodys_to_report() -> None:
    """W3: whoever reports outcomes, in a process or in a function, is not handed one."""
    bench = bench_with(lambda ctx: bench.active[0].call.flag.set(LeaseLost))
    bench.take(message())
    assert call_job(bench.app, bench.active[0]) is None


# --- cancels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer", [{"accepted": True, "cancel": True}, {"accepted": False, "reason": "cancelled", "discard": True}]
)
def test_a_cancelled_run_is_stopped_and_completed_as_cancelled(held: Bench, answer: dict[str, Any]) -> None:
    held.api.answers["/runs:heartbeat"] = lambda _: answer
    beat(held, 20)
    held.run_all()
    assert [outcome for outcome, _ in outcomes(held)] == ["cancelled"]


def test_a_cancelled_run_keeps_its_lease_while_it_cleans_up(held: Bench) -> None:
    held.api.answers["/runs:heartbeat"] = lambda _: {"accepted": True, "cancel": True}
    beat(held, 20)
    beat(held, 40)
    assert len(held.api.of("/runs:heartbeat")) == 2


def test_an_api_that_does_not_know_the_outcome_cancelled_gets_the_nearest(held: Bench) -> None:
    held.api.answers["/runs:heartbeat"] = lambda _: {"accepted": True, "cancel": True}
    held.api.fail["/runs:complete"] = [refused()]
    beat(held, 20)
    held.run_all()
    assert [outcome for outcome, _ in outcomes(held)] == ["cancelled", "failed_permanent"]
    assert held.sqs.deleted == [receipt(message())]


def test_a_run_that_had_succeeded_before_the_cancel_reached_it_has_succeeded() -> None:
    bench = bench_with(lambda ctx: bench.active[0].call.flag.set(RunCancelled))
    bench.take(message())
    bench.run_all()
    assert outcomes(bench) == [("succeeded", "")]


# --- completes ----------------------------------------------------------------------------------------------------


def test_a_complete_that_found_no_answer_is_repeated_until_it_is_accepted(held: Bench) -> None:
    held.api.fail["/runs:complete"] = [unreachable(), unreachable()]
    held.run_all()
    assert len(held.api.of("/runs:complete")) == 3
    assert held.sqs.deleted == [receipt(message())]


@pytest.mark.parametrize("reason", ["busy", "contended"])
def test_a_busy_complete_is_repeated(held: Bench, reason: str) -> None:
    answers = [{"accepted": False, "reason": reason, "discard": False}, {"accepted": True}]
    held.api.answers["/runs:complete"] = lambda _: answers.pop(0)
    held.run_all()
    assert held.sqs.deleted == [receipt(message())]


def test_a_complete_ends_when_the_lease_is_lost(held: Bench) -> None:
    held.api.fail["/runs:complete"] = [unreachable()] * 20
    waited = held.clock.wait

    def lose(event: threading.Event, seconds: float) -> bool:
        held.active[0].stop.set(LeaseLost)
        return waited(event, seconds)

    held.clock.wait = lose  # type: ignore[method-assign]
    held.run_all()
    assert len(held.api.of("/runs:complete")) == 1
    assert held.active == []


def test_a_complete_is_tried_again_as_long_as_its_lease_holds(held: Bench) -> None:
    held.api.fail["/runs:complete"] = [unreachable()] * 100
    ends_at_s = held.active[0].lease_ends_s
    held.run_all()
    assert ends_at_s <= held.clock.now_s() < ends_at_s + 2
    assert len(held.api.of("/runs:complete")) == 60
    assert held.sqs.deleted == []
    assert held.active == []


def test_a_complete_that_waits_for_the_api_keeps_no_other_from_ending(held: Bench) -> None:
    def answer(entry: dict[str, Any]) -> dict[str, Any]:
        is_busy = entry["ref"] == "ref-r1" and held.clock.now_s() < 1_020
        return {"accepted": False, "reason": "busy"} if is_busy else {"accepted": True}

    held.api.answers["/runs:complete"] = answer
    held.take(message("r2"))
    while held.submitted:
        held.submitted.pop(0)()
    held.report()
    assert held.sqs.deleted == [receipt(message("r2")), receipt(message())]


def test_credentials_that_are_refused_for_a_while_lose_no_outcome(held: Bench) -> None:
    held.api.fail["/runs:complete"] = [refused(401), refused(403), refused(403)]
    held.run_all()
    assert held.sqs.deleted == [receipt(message())]


@pytest.mark.parametrize(("discard", "deleted"), [(False, 0), (True, 1)])
def test_a_refused_complete_deletes_only_when_told_to(held: Bench, discard: bool, deleted: int) -> None:
    held.api.answers["/runs:complete"] = lambda _: {"accepted": False, "reason": "stale_token", "discard": discard}
    held.run_all()
    assert len(held.sqs.deleted) == deleted
    assert held.active == []


def test_one_refused_complete_does_not_keep_its_neighbours_from_ending() -> None:
    bench = bench_with(lambda ctx: None)
    bench.take(message("a"), message("b"))
    bench.api.fail["/runs:complete"] = [refused(), None, refused()]
    while bench.submitted:
        bench.submitted.pop(0)()
    bench.report()
    assert bench.sqs.deleted == [receipt(message("a"))]
    assert bench.active == []


def test_what_has_ended_together_is_reported_together() -> None:
    bench = bench_with(lambda ctx: None)
    bench.take(message("a"), message("b"), message("c"))
    while bench.submitted:
        bench.submitted.pop(0)()
    bench.report()
    assert [len(body["runs"]) for body in bench.api.of("/runs:complete")] == [3]
    assert len(bench.sqs.deleted) == 3


# --- coroutines ---------------------------------------------------------------------------------------------------


def test_a_coroutine_function_runs_in_a_loop_of_its_own() -> None:
    async def job(ctx: Context, order: Order) -> None:
        await asyncio.sleep(0)
        raise ValueError(str(order.amount))

    bench = bench_with(job)
    bench.take(message(payload={"amount": 3}))
    bench.run_all()
    assert outcomes(bench) == [("failed", "ValueError: 3")]


@pytest.mark.parametrize(("signal", "expected"), [(LeaseLost, []), (RunCancelled, ["cancelled"])])
def test_a_coroutine_is_stopped_as_asyncio_does_it(signal: type[Any], expected: list[str]) -> None:
    running, cancelled = threading.Event(), threading.Event()

    async def job(ctx: Context) -> None:
        running.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    bench = bench_with(job)
    bench.take(message())
    thread = threading.Thread(target=bench.run_all)
    thread.start()
    assert running.wait(5)
    bench.active[0].call.stop(signal)
    thread.join(5)
    assert cancelled.is_set()
    assert [outcome for outcome, _ in outcomes(bench)] == expected
