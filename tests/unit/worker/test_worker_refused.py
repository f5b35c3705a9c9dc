"""What will not get better ends a worker, with the reason; what may, does not."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from click.testing import CliRunner

from tests.support.worker_bench import Bench, FakeApi, FakeSqs, HandClock, message, receipt
from tickwork.aws import wiring
from tickwork.aws.sqs import QueueClosed
from tickwork.cli.main import main
from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.worker import App, Context
from tickwork.worker.clock import WorkerClock
from tickwork.worker.process import Worker, WorkerOptions
from tickwork.worker.sources import LeaseSource, SqsSource


class Refusing:
    def __init__(self, error: Exception) -> None:
        self._error = error

    def post(self, *_: object, **__: object) -> Any:
        raise self._error


def source(error: Exception) -> LeaseSource:
    api: Any = Refusing(error)
    return LeaseSource(
        pool="p", worker="w", api=api, stopping=threading.Event(), clock=HandClock(), lease_s=60, wait_s=0
    )


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_lease_that_is_refused_for_good_ends_the_worker_with_the_reason(status: int) -> None:
    error = ApiRefused(status, {"detail": "there is no pool 'p'"})
    with pytest.raises(ApiRefused, match="no pool"):
        source(error).take(1)


@pytest.mark.parametrize("error", [ApiRefused(409, {}), ApiRefused(412, {}), ApiUnreachable("503")])
def test_a_lease_that_may_be_had_later_is_asked_for_again(error: Exception) -> None:
    assert source(error).take(1) == []


def sqs_says(code: str, status: int) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "so it is"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "ReceiveMessage")


def fail_to_receive(bench: Bench, error: Exception) -> None:
    def fail() -> None:
        raise error

    bench.sqs.on_receive = fail


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("AccessDenied", 403),
        ("AWS.SimpleQueueService.NonExistentQueue", 400),
        ("KmsDisabled", 400),
        ("InvalidClientTokenId", 403),
        ("SignatureDoesNotMatch", 403),
    ],
)
def test_a_queue_that_is_gone_or_closed_ends_the_worker_with_the_reason(code: str, status: int) -> None:
    bench = Bench()
    fail_to_receive(bench, sqs_says(code, status))
    with pytest.raises(QueueClosed, match=f"{code}.*so it is"):
        bench.take()
    assert bench.clock.waits == []


@pytest.mark.parametrize(
    "error",
    [
        sqs_says("RequestThrottled", 403),
        sqs_says("OverLimit", 403),
        sqs_says("KmsThrottled", 400),
        sqs_says("ExpiredToken", 403),
        sqs_says("InternalError", 500),
        EndpointConnectionError(endpoint_url="https://queue.test"),
    ],
)
def test_a_queue_that_refuses_for_the_moment_is_asked_again_whatever_its_status(error: Exception) -> None:
    bench = Bench()
    fail_to_receive(bench, error)
    bench.take()
    assert bench.clock.waits == [2.0]


def test_a_worker_whose_queue_goes_finishes_what_runs_and_then_ends_with_the_reason() -> None:
    app, begun, may_end = App(), threading.Event(), threading.Event()

    @app.job("job")
    def job(ctx: Context) -> None:
        begun.set()
        assert may_end.wait(10)

    sqs: Any = FakeSqs()
    api: Any = FakeApi(sqs.journal)
    stopping, clock = threading.Event(), WorkerClock()
    sqs.batches.append([message()])

    def gone() -> None:
        if not sqs.batches:
            assert begun.wait(10)
            may_end.set()
            raise sqs_says("QueueDoesNotExist", 400)

    sqs.on_receive = gone
    source = SqsSource(
        queue_url="q", sqs=sqs, control=sqs, api=api, worker="w", stopping=stopping, clock=clock, long_poll_s=0
    )
    with pytest.raises(QueueClosed):
        Worker(app, source, api, WorkerOptions(), stopping, clock).run()
    assert sqs.journal[-2:] == ["/runs:complete", "deleted"]


@pytest.mark.parametrize("status", [401, 403])
def test_a_caller_that_may_not_start_ends_and_leaves_its_messages_to_others(status: int) -> None:
    bench = Bench()
    bench.api.fail["/runs:start"] = [ApiRefused(status, {"detail": "who are you?"})]
    with pytest.raises(ApiRefused, match="who are you"):
        bench.take(message("a"), message("b"))
    assert bench.sqs.shown == {receipt(message("a")): [5], receipt(message("b")): [5]}
    assert len(bench.api.of("/runs:start")) == 1


class Closed:
    """A queue that is there, and refuses to be read."""

    class exceptions:  # noqa: N801 - as boto3 calls it
        QueueDoesNotExist = ClientError

    def __init__(self, *, found: bool) -> None:
        self._found = found

    def get_queue_url(self, **_: Any) -> dict[str, str]:
        if not self._found:
            raise sqs_says("AWS.SimpleQueueService.NonExistentQueue", 400)
        return {"QueueUrl": "https://queue.test"}

    def receive_message(self, **_: Any) -> None:
        raise sqs_says("AccessDenied", 403)


@pytest.mark.parametrize(
    ("found", "wanted"), [(True, "does not answer this worker: An error occurred (AccessDenied)"), (False, "no queue")]
)
def test_the_command_says_why_it_ends_and_fails(found: bool, wanted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wiring, "sqs_client", lambda **_: Closed(found=found))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    ended = CliRunner().invoke(main, ["worker", "examples/demo_worker.py:app", "--pool", "payments"])
    assert ended.exit_code == 2
    assert wanted in ended.output
    assert "Traceback" not in ended.output
