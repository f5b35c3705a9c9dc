"""A Lambda function as worker: what it reports as failed comes again, what it does not is deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.worker_bench import FakeApi, message, unreachable
from tickwork.client import ApiRefused
from tickwork.worker import App, Context
from tickwork.worker.lambdas import TimeoutTooLong, lambda_handler


class Invocation:
    """The context of an invocation, whose time runs out as the test says."""

    function_name = "settler"
    aws_request_id = "request-1"

    def __init__(self, *remaining_s: float) -> None:
        self._remaining_s = list(remaining_s)

    def get_remaining_time_in_millis(self) -> int:
        left = self._remaining_s.pop(0) if len(self._remaining_s) > 1 else self._remaining_s[0]
        return int(left * 1000)


class FakeShow:
    def __init__(self) -> None:
        self.shown: list[tuple[str, int]] = []

    def change_message_visibility(self, **asked: Any) -> None:
        self.shown.append((asked["ReceiptHandle"], asked["VisibilityTimeout"]))


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


def failed(
    api: FakeApi, *bodies: str, left: Invocation | None = None, ran: list[str] | None = None, **options: Any
) -> list[str]:
    """The records reported as failed, by number."""
    app = App()

    @app.job("job")
    def job(ctx: Context) -> None:
        if ran is not None:
            ran.append(ctx.run_id)
        while ctx.payload == "long":
            ctx.check()
        if ctx.payload == "fail":
            raise ValueError("no")

    handler = lambda_handler(app, api=api, **options)  # type: ignore[arg-type]
    records = [
        {
            "messageId": str(i),
            "receiptHandle": f"r{i}",
            "body": body,
            "attributes": {"ApproximateReceiveCount": str(i + 1)},
        }
        for i, body in enumerate(bodies)
    ]
    answer = handler({"Records": records}, left or Invocation(100))
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def test_each_record_has_its_own_fate(api: FakeApi) -> None:
    fates: dict[str, dict[str, Any]] = {
        "ref-old": {"granted": False, "discard": True, "reason": "succeeded"},
        "ref-held": {"granted": False, "discard": False, "reason": "held", "retry_after_s": 9},
    }
    api.answers["/runs:start"] = lambda entry: fates.get(entry["ref"], {"granted": True, "token": 1, "attempt": 1})
    bodies = [message("go"), "{bad", message("old"), message("held"), message("fail", payload="fail")]
    assert failed(api, *bodies) == ["1", "3"]
    assert [entry["outcome"] for entry in api.entries("/runs:complete")] == ["succeeded", "failed"]


def test_a_held_run_comes_back_when_that_lease_ends_if_the_queue_may_be_told(api: FakeApi) -> None:
    api.answers["/runs:start"] = lambda _: {"granted": False, "discard": False, "reason": "held", "retry_after_s": 9}
    show = FakeShow()
    assert failed(api, message(), sqs=show, queue_url="q") == ["0"]
    assert show.shown == [("r0", 9)]


def test_the_lease_outlasts_the_function_and_nothing_beats(api: FakeApi) -> None:
    failed(api, message("a", lease_s=30), message("b", lease_s=300), left=Invocation(100))
    assert [entry["lease_s"] for entry in api.entries("/runs:start")] == [102, 300]
    assert api.of("/runs:heartbeat") == []


def test_a_lease_is_never_longer_than_the_longest(api: FakeApi) -> None:
    failed(api, message(), left=Invocation(899.5))
    assert api.entries("/runs:start")[0]["lease_s"] == 900


def test_a_function_that_may_outlast_every_lease_is_refused(api: FakeApi) -> None:
    with pytest.raises(TimeoutTooLong):
        failed(api, message(), left=Invocation(1_200))
    assert api.calls == []


def test_what_no_time_is_left_for_goes_back_unstarted(api: FakeApi) -> None:
    ran: list[str] = []
    assert failed(api, message("a"), message("b"), left=Invocation(60, 3), ran=ran) == ["1"]
    assert ran == ["run-a"]
    assert len(api.entries("/runs:start")) == 1


def test_a_start_that_found_no_answer_leaves_the_record(api: FakeApi) -> None:
    api.fail["/runs:start"] = [unreachable()]
    assert failed(api, message()) == ["0"]


def test_a_complete_that_found_none_while_its_lease_held_leaves_it_too(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.worker.completing.PAUSE_S", 0.0)
    api.answers["/runs:start"] = lambda _: {"granted": True, "token": 1, "attempt": 1, "lease_ms": 50}
    api.answers["/runs:complete"] = lambda _: {"accepted": False, "reason": "busy", "discard": False}
    assert failed(api, message()) == ["0"]
    assert len(api.of("/runs:complete")) > 1


def test_an_outcome_is_told_again_whatever_went_wrong_with_its_report(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.worker.completing.PAUSE_S", 0.0)
    api.fail["/runs:complete"] = [ValueError("what nobody has foreseen"), None]
    assert failed(api, message()) == []
    assert len(api.of("/runs:complete")) == 2


def test_a_run_refused_at_its_end_is_done_with_only_when_told_so(api: FakeApi) -> None:
    api.answers["/runs:complete"] = lambda entry: {"accepted": False, "reason": "x", "discard": entry["ref"] == "ref-b"}
    assert failed(api, message("a"), message("b")) == ["0"]


def test_an_event_without_records_is_fine(api: FakeApi) -> None:
    assert json.dumps(lambda_handler(App(), api=api)({}, Invocation(1))) == '{"batchItemFailures": []}'  # type: ignore[arg-type]


# --- what it cannot do --------------------------------------------------------------------------------------------


def test_a_record_whose_handler_is_not_here_is_left_to_another_function_unstarted(api: FakeApi) -> None:
    show, ran = FakeShow(), list[str]()
    left = [message("a", handler="new"), message("b"), message("c", handler="new")]
    assert failed(api, *left, ran=ran, sqs=show, queue_url="q") == ["0", "2"]
    assert ran == ["run-b"]
    assert [entry["ref"] for entry in api.entries("/runs:start")] == ["ref-b"]
    assert show.shown == [("r0", 5), ("r2", 20)]
    assert [entry["handler"] for entry in api.entries("/runs:unhandled")] == ["new", "new"]


def test_a_platform_that_does_not_ask_for_them_is_no_matter(api: FakeApi) -> None:
    api.fail["/runs:unhandled"] = [ApiRefused(404, {}), unreachable()]
    assert failed(api, message(handler="new"), message(handler="newer")) == ["0", "1"]


def test_a_job_that_outlasts_the_function_is_told_to_stop_in_time_and_has_failed(api: FakeApi) -> None:
    """It had all of the function's time: handing it back would only begin it again."""
    assert failed(api, message(payload="long"), left=Invocation(3.05), needed_s=1.0) == []
    (entry,) = api.entries("/runs:complete")
    assert (entry["outcome"], entry["error_class"]) == ("failed", "FunctionTimeout")


def test_one_that_was_begun_late_is_handed_back(api: FakeApi) -> None:
    show = FakeShow()
    left = Invocation(60, 3.05)
    assert failed(
        api, message("a"), message("b", payload="long"), left=left, needed_s=1.0, sqs=show, queue_url="q"
    ) == ["1"]
    assert [entry["ref"] for entry in api.entries("/runs:release")] == ["ref-b"]
    assert show.shown == [("r1", 0)]
    assert [entry["ref"] for entry in api.entries("/runs:complete")] == ["ref-a"]


def test_a_platform_that_takes_nothing_back_lets_it_lapse(api: FakeApi) -> None:
    show = FakeShow()
    api.fail["/runs:release"] = [ApiRefused(404, {})]
    left = Invocation(60, 3.05)
    runs = (message("a"), message("b", payload="long"))
    assert failed(api, *runs, left=left, needed_s=1.0, sqs=show, queue_url="q") == ["1"]
    assert show.shown == []
