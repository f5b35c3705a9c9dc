"""A queue, an API and a clock in the test's hands."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.worker import App
from tickwork.worker.clock import WorkerClock
from tickwork.worker.delivery import Delivery
from tickwork.worker.process import Worker, WorkerOptions
from tickwork.worker.sources import SqsSource

QUEUE = "https://queue.test/ready"


class HandClock(WorkerClock):
    """Stands still until it is moved; waiting moves it."""

    def __init__(self) -> None:
        self.at_s = 1_000.0
        self.waits: list[float] = []
        self._names = 0

    def now_s(self) -> float:
        return self.at_s

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waits.append(seconds)
        self.at_s += seconds
        return event.is_set()

    def unique(self) -> str:
        self._names += 1
        return f"claim-{self._names:08d}"


class FakeSqs:
    """Hands out batches of bodies, and writes down what it is told."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.asked_for: list[int] = []
        self.waited_for: list[int] = []
        self.shown: dict[str, list[int]] = {}
        self.deleted: list[str] = []
        self.on_receive: Callable[[], object] = lambda: None
        self.journal: list[str] = []
        self.receives: dict[str, int] = {}

    def receive_message(self, **asked: Any) -> dict[str, Any]:
        self.asked_for.append(asked["MaxNumberOfMessages"])
        self.waited_for.append(asked["WaitTimeSeconds"])
        self.on_receive()
        bodies = self.batches.pop(0) if self.batches else []
        return {"Messages": [self._message(body) for body in bodies]}

    def _message(self, body: str) -> dict[str, Any]:
        """As an endpoint gives it that says how often it was received, where a test does."""
        received = self.receives.get(body)
        attributes = {"Attributes": {"ApproximateReceiveCount": str(received)}} if received else {}
        return {"ReceiptHandle": f"receipt of {body}", "Body": body} | attributes

    def change_message_visibility_batch(self, **asked: Any) -> dict[str, Any]:
        for entry in asked["Entries"]:
            self.shown.setdefault(entry["ReceiptHandle"], []).append(entry["VisibilityTimeout"])
        return {}

    def delete_message_batch(self, **asked: Any) -> dict[str, Any]:
        for entry in asked["Entries"]:
            self.deleted.append(entry["ReceiptHandle"])
            self.journal.append("deleted")
        return {}


class FakeApi:
    """Answers each path with what `answers` says of an entry; by default everything is granted and accepted."""

    def __init__(self, journal: list[str] | None = None) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.options: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {}
        self.fail: dict[str, list[Exception | None]] = {}
        self.journal = journal if journal is not None else []

    def post(self, path: str, body: Any, **options: Any) -> Any:
        self.calls.append((path, body))
        self.options.append(options)
        failures = self.fail.get(path)
        if failures and (failure := failures.pop(0)) is not None:
            raise failure
        self.journal.append(path)
        return {"runs": [self._answer(path, entry) for entry in body.get("runs", [])]}

    def _answer(self, path: str, entry: dict[str, Any]) -> dict[str, Any]:
        usual: dict[str, Any] = {"accepted": True}
        if path == "/runs:start":
            usual = {"granted": True, "token": 7, "attempt": entry.get("attempt", 1)}
        return self.answers.get(path, lambda _: usual)(entry)

    def of(self, path: str) -> list[Any]:
        return [body for called, body in self.calls if called == path]

    def entries(self, path: str) -> list[dict[str, Any]]:
        return [entry for body in self.of(path) for entry in body["runs"]]


class Bench:
    """A worker whose threads are the test: each step is called, and is over when the call returns."""

    def __init__(self, app: App | None = None, concurrency: int = 4, handlers: list[str] | None = None) -> None:
        self.app = app or App()
        self.sqs, self.clock, self.stopping = FakeSqs(), HandClock(), threading.Event()
        self.api = FakeApi(self.sqs.journal)
        self.source = SqsSource(
            queue_url=QUEUE,
            sqs=self.sqs,  # type: ignore[arg-type]
            control=self.sqs,  # type: ignore[arg-type]
            api=self.api,  # type: ignore[arg-type]
            worker="worker-1",
            stopping=self.stopping,
            clock=self.clock,
            handlers=handlers,
        )
        self.worker = Worker(
            self.app,
            self.source,
            self.api,  # type: ignore[arg-type]
            WorkerOptions(concurrency),
            self.stopping,
            self.clock,
        )
        self.submitted: list[Callable[[], object]] = []

    def take(self, *bodies: str) -> None:
        """One turn of the loop with these messages in the queue; nothing is run yet."""
        if bodies:
            self.sqs.batches.append(list(bodies))
        self.worker.take_and_run(lambda function, delivery: self.submitted.append(lambda: function(delivery)))
        self.settle()

    def run_all(self) -> None:
        """Run what was taken, and report each outcome."""
        while self.submitted:
            self.submitted.pop(0)()
            self.report()

    def report(self) -> None:
        """What the completer's threads would do."""
        completer = self.worker._completer
        while not completer._ended.empty():
            first = completer._ended.get()
            assert first is not None
            completer.work_off(completer._gather(first))
        self.settle()

    def settle(self) -> None:
        """Wait for what was handed to the queue's threads: only when all of them meet is none still at it."""
        threads = self.source._queue_calls._max_workers
        meeting = threading.Barrier(threads)
        for future in [self.source._queue_calls.submit(meeting.wait, 5) for _ in range(threads)]:
            future.result(5)

    @property
    def active(self) -> list[Delivery]:
        return self.worker.active()


def message(name: str = "r1", **changes: Any) -> str:
    body = {
        "v": 1,
        "ref": f"ref-{name}",
        "run_id": f"run-{name}",
        "job_id": "payments:nightly",
        "scheduled_at": "2026-11-30T02:00:00Z",
        "fire_at": "2026-11-30T02:00:05Z",
        "attempt": 1,
        "handler": "job",
        "lease_s": 60,
    }
    return json.dumps({name: value for name, value in (body | changes).items() if value is not None})


def receipt(body: str) -> str:
    return f"receipt of {body}"


def unreachable() -> ApiUnreachable:
    return ApiUnreachable("no answer")


def refused(status: int = 422) -> ApiRefused:
    return ApiRefused(status, {"detail": "a field is not valid"})
