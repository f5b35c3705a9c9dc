"""A Lambda function as worker: what it reports as failed comes again, what it does not is deleted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.worker_bench import FakeApi, message, unreachable
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
        if ctx.payload == "fail":
            raise ValueError("no")

    handler = lambda_handler(app, api=api, **options)  # type: ignore[arg-type]
    records = [{"messageId": str(i), "receiptHandle": f"r{i}", "body": body} for i, body in enumerate(bodies)]
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


@pytest.mark.parametrize("path", ["/runs:start", "/runs:complete"])
def test_a_run_whose_call_found_no_answer_comes_again(api: FakeApi, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tickwork.worker.completing.PAUSE_S", 0.0)
    api.fail[path] = [unreachable()] * 20
    assert failed(api, message()) == ["0"]


def test_a_run_refused_at_its_end_is_done_with_only_when_told_so(api: FakeApi) -> None:
    api.answers["/runs:complete"] = lambda entry: {"accepted": False, "reason": "x", "discard": entry["ref"] == "ref-b"}
    assert failed(api, message("a"), message("b")) == ["0"]


def test_an_event_without_records_is_fine(api: FakeApi) -> None:
    assert json.dumps(lambda_handler(App(), api=api)({}, Invocation(1))) == '{"batchItemFailures": []}'  # type: ignore[arg-type]
