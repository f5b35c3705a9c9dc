"""Workers that each break one rule of the protocol: `python -m tests.support.faulty_worker FAULT`.

The conformance script must tell each of them from a good one.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from tickwork.aws.wiring import sqs_client
from tickwork.client import ApiClient
from tickwork.conformance.jobs import app
from tickwork.worker.beating import Heartbeats
from tickwork.worker.clock import WorkerClock
from tickwork.worker.completing import Completer
from tickwork.worker.context import StopFlag
from tickwork.worker.delivery import Delivery
from tickwork.worker.process import Worker, WorkerOptions
from tickwork.worker.sources import SqsSource
from tickwork.worker.stopping import Stoppable

FAULTS: dict[str, Callable[[], None]] = {}
KNOWN = list(app.names)


def fault(plant: Callable[[], None]) -> Callable[[], None]:
    FAULTS[plant.__name__] = plant
    return plant


def replace(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    setattr(owner, name, make(getattr(owner, name)))


@fault
def deletes_before_complete() -> None:
    def make(put: Any) -> Any:
        def early(self: Completer, delivery: Delivery, outcome: Any) -> None:
            self._drop([delivery])
            put(self, delivery, outcome)

        return early

    replace(Completer, "put", make)


@fault
def runs_declined_runs() -> None:
    def make(sort: Any) -> Any:
        def all_granted(self: Any, deliveries: Any, answers: Any, asked_at_s: float) -> Any:
            return sort(self, deliveries, [{"granted": True, "token": 1, "attempt": 1} for _ in answers], asked_at_s)

        return all_granted

    replace(SqsSource, "_sort", make)


@fault
def deletes_held_runs() -> None:
    def make(sort: Any) -> Any:
        def eager(self: Any, deliveries: Any, answers: Any, asked_at_s: float) -> Any:
            return sort(self, deliveries, [answer | {"discard": True} for answer in answers], asked_at_s)

        return eager

    replace(SqsSource, "_sort", make)


@fault
def never_beats() -> None:
    replace(Heartbeats, "step", lambda _: lambda self: None)


@fault
def ignores_failed_beats() -> None:
    replace(Stoppable, "stop", lambda _: lambda self, signal: False)


@fault
def completes_a_lost_run() -> None:
    StopFlag.is_lost = property(lambda self: False)  # type: ignore[assignment,method-assign]
    StopFlag.is_cancelled = property(lambda self: bool(self))  # type: ignore[assignment,method-assign]


@fault
def trusts_the_lease_it_asked_for() -> None:
    def make(extend: Any) -> Any:
        return lambda self, answer, asked_at_s: extend(self, {}, asked_at_s)

    replace(Delivery, "extend", make)


@fault
def lets_messages_reappear() -> None:
    replace(SqsSource, "hold", lambda _: lambda self, deliveries: None)


@fault
def takes_more_than_it_can_run() -> None:
    replace(Worker, "_free_slots", lambda _: lambda self: 10)


@fault
def keeps_what_it_received_too_late() -> None:
    def make(take: Any) -> Any:
        def keep(self: SqsSource, most: int, wait_s: int | None = None) -> Sequence[Delivery]:
            deliveries = self._receive(most, self._long_poll_s if wait_s is None else wait_s)
            return self._start(deliveries) if deliveries and not self._stopping.is_set() else []

        return keep

    replace(SqsSource, "take", make)


@fault
def forgets_a_complete() -> None:
    replace(Completer, "_send_once", lambda send: lambda self, batch: send(self, batch) and [])


@fault
def uses_one_claim_for_all() -> None:
    replace(WorkerClock, "unique", lambda _: lambda self: "claim-of-this-worker")


@fault
def dies_of_a_bad_message() -> None:
    def make(receive: Any) -> Any:
        def strict(self: SqsSource, most: int, wait_s: int) -> list[Delivery]:
            answer = self._sqs.receive_message(
                QueueUrl=self._queue_url, MaxNumberOfMessages=most, WaitTimeSeconds=wait_s
            )
            return [Delivery.read(m["ReceiptHandle"], m["Body"], "claim-12") for m in answer.get("Messages", [])]

        return strict

    replace(SqsSource, "_receive", make)


@fault
def starts_what_it_cannot_run() -> None:
    KNOWN.append("no-such-handler")


def main() -> None:
    FAULTS[sys.argv[1]]()
    stopping, clock, api, sqs = threading.Event(), WorkerClock(), ApiClient(), sqs_client(long_poll=True)
    source = SqsSource(
        queue_url=sqs.get_queue_url(QueueName="conformance")["QueueUrl"],
        sqs=sqs,
        control=sqs_client(),
        api=api,
        worker="faulty",
        stopping=stopping,
        clock=clock,
        handlers=KNOWN,
    )
    worker = Worker(app, source, api, WorkerOptions(concurrency=4), stopping, clock)
    signal.signal(signal.SIGTERM, lambda *_: worker.stop())
    worker.run()


if __name__ == "__main__":
    main()
