"""The production worker in the world: its process with threads, heartbeats and completer, fed by a queue or by leases
over HTTP, and the handler for Lambda.

One session is one worker process. It is started when there is something for its pool and nobody to take it, lives for a
while, and is told to stop (or dies of a fault on the way): so histories have shutdowns in them. One that was told to
stop is relied on no more: it may stand still in its last call for long, and another is started beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tests.simulator.api import SimApi
from tests.simulator.elements import LEASED_POOL
from tests.simulator.team_code import make_app
from tests.simulator.threads import Event, SimWorkerClock, strike
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.queues import ready_queue
from tickwork.testing.process import Process
from tickwork.testing.queue import Message, SimReceiver
from tickwork.worker.lambdas import lambda_handler
from tickwork.worker.process import Worker, WorkerOptions
from tickwork.worker.sources import QUEUE_THREADS, LeaseSource, Source, SqsSource

if TYPE_CHECKING:
    from tests.simulator.world import World

_LIVES_S = (40, 90, 200)
_SHORT_LIVES_S = (1, 3, 8, 20)
"""Of workers in a deploy that goes wrong again and again."""
_GRACES_S = (0, 2, 30, 130)
_CLEAN_UPS_S = (0.2, 5.0)
"""The shorter one is less than a step of a job: some do not stop in it."""
_LOOK_MS = 20 * SECOND_MS
_LAMBDA_MS = (25_000, 25_000, 100_000)
"""What a function may take: longer than the lease that a message asks for, sometimes."""
_LEASE_S, _LEASE_WAIT_S = 30, 5
_FREE_MS = 1_500
"""For so long a thread has been free that was to tell the queue something."""


class Session:
    """One worker process of a pool."""

    def __init__(self, world: World, pool: str) -> None:
        self._world, self._pool = world, pool
        self._worker: Worker | None = None
        self._is_leaving = False
        self.process = Process(world, "real-worker", self._run)

    @property
    def is_over(self) -> bool:
        return self.process.state != "running"

    @property
    def is_relied_on(self) -> bool:
        return not self.is_over and not self._is_leaving

    def _run(self, process: Process) -> None:
        world = self._world
        world.seen["worker session"] += 1
        stopping: Any = Event()
        choice = world.apart.choice
        options = WorkerOptions(choice((1, 3, 8)), float(choice(_GRACES_S)), choice(_CLEAN_UPS_S))
        app = make_app(world)
        source = self._source(process, stopping, app.names)
        api: Any = SimApi(world)
        world.checks.handling.names[process] = frozenset(app.names)
        self._worker = Worker(app, source, api, options, stopping, SimWorkerClock())
        is_short = world.faults.strikes(world.rng, "sigterm")
        life_ms = choice(_SHORT_LIVES_S if is_short else _LIVES_S) * SECOND_MS
        world.kernel.at(world.kernel.now_ms + life_ms, self._stop)
        world.kernel.at(world.kernel.now_ms + _LOOK_MS, self._look)
        clean = self._worker.run()
        world.checks.duties.is_over(process)
        world.seen["worker session ended" if clean else "worker session gave runs up"] += 1
        process.end()  # the command line ends the process here, whatever its threads are at

    def _source(self, process: Process, stopping: Any, handlers: Sequence[str]) -> Source:
        api: Any = SimApi(self._world)
        clock = SimWorkerClock()
        if self._pool == LEASED_POOL:
            return LeaseSource(
                pool=self._pool,
                worker=process.name,
                api=api,
                stopping=stopping,
                clock=clock,
                lease_s=_LEASE_S,
                wait_s=_LEASE_WAIT_S,
                handlers=handlers,
            )
        sqs: Any = SimSqsClient(self._world, process, ready_queue(self._pool))
        self._world.checks.handling.clients[process] = sqs
        return SqsSource(
            queue_url=self._pool,
            sqs=sqs,
            control=sqs,
            api=api,
            worker=process.name,
            stopping=stopping,
            clock=clock,
            handlers=handlers,
        )

    def _stop(self) -> None:
        self._is_leaving = True
        if self._worker is not None and not self.is_over:
            self._world.trace(self.process.name, "STOP", "")
            Process(self._world, "signal", lambda _: self._tell())

    def _tell(self) -> None:
        """A signal handler runs in the worker's process, by its clock."""
        worker = self._worker
        if worker is not None:
            self._world.checks.duties.stops(self.process)
            worker.stop()

    def _look(self) -> None:
        """Whatever has become of this one: while there is something to take, somebody takes it."""
        call_somebody(self._world, self._pool)
        if not self.is_over:
            self._world.kernel.at(self._world.kernel.now_ms + _LOOK_MS, self._look)


def call_somebody(world: World, pool: str) -> None:
    """See to it that there is a worker, if there is something in the queue that can be taken."""
    queue = world.queues[ready_queue(pool)]
    session = world.sessions.get(pool)
    if session is not None and session.is_relied_on:
        return
    now_ms = world.kernel.now_ms
    if any(message.visible_at_ms <= now_ms for message in queue.messages.values()):
        world.sessions[pool] = Session(world, pool)


type Entry = dict[str, Any]


class SimSqsClient:
    """The calls of an SQS client that a worker makes, as its process sees them."""

    def __init__(self, world: World, process: Process, queue: str) -> None:
        self._world, self._process, self._name = world, process, queue
        self._queue = process.world.queues[queue]
        self._calls = 0
        self._busy_ms = 0
        self._received: dict[int, str] = {}

    @property
    def is_free(self) -> bool:
        """Whether a thread was free for what had to be told."""
        return self._calls < QUEUE_THREADS and self._world.kernel.now_ms - self._busy_ms > _FREE_MS

    def receive_message(
        self,
        *,
        QueueUrl: str,  # noqa: N803
        MaxNumberOfMessages: int,  # noqa: N803
        WaitTimeSeconds: int,  # noqa: N803
        MessageSystemAttributeNames: Sequence[str] = (),  # noqa: N803
    ) -> dict[str, Any]:
        hide_s = self._queue.visibility_ms // SECOND_MS
        receiver = SimReceiver(self._process)
        found = self._try(
            "ReceiveMessage",
            lambda: receiver.receive(self._name, limit=MaxNumberOfMessages, wait_s=WaitTimeSeconds, hide_s=hide_s),
        )
        strike()
        for message in found:
            self._received[int(message.receipt)] = message.body
            self._world.checks.handling.received(self._process, int(message.receipt), message.body)
        return {
            "Messages": [
                {
                    "ReceiptHandle": message.receipt,
                    "Body": message.body,
                    "Attributes": {name: str(message.receives) for name in MessageSystemAttributeNames},
                }
                for message in found
            ]
        }

    def delete_message_batch(self, *, QueueUrl: str, Entries: Sequence[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        for body in self._bodies(Entries):
            self._world.checks.handling.drops(self._process, body)
        return self._batch("DeleteMessageBatch", Entries, lambda entry: self._delete(int(entry["ReceiptHandle"])))

    def _delete(self, number: int) -> None:
        if (message := self._queue.messages.get(number)) is not None:
            self._world.checks.ledger.given_up(self._process, message.body)
        self._queue.delete(number)

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: Sequence[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        def show(entry: dict[str, Any]) -> None:
            self._queue.delay(int(entry["ReceiptHandle"]), entry["VisibilityTimeout"] * SECOND_MS)

        for entry, body in zip(Entries, self._bodies(Entries), strict=True):
            self._world.checks.handling.shows(self._process, body, entry["VisibilityTimeout"])
        return self._batch("ChangeMessageVisibilityBatch", Entries, show)

    def _bodies(self, entries: Sequence[dict[str, Any]]) -> list[str]:
        """What stood in the messages, as they were received."""
        return [self._received.get(int(entry["ReceiptHandle"]), "") for entry in entries]

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> None:  # noqa: N803
        def effect() -> None:
            self._queue.delay(int(ReceiptHandle), VisibilityTimeout * SECOND_MS)

        self._try("ChangeMessageVisibility", lambda: self._process.call("show", ReceiptHandle, effect))

    def _batch(
        self, verb: str, entries: Sequence[dict[str, Any]], act: Callable[[dict[str, Any]], None]
    ) -> dict[str, Any]:
        world = self._process.world

        def effect() -> list[dict[str, str]]:
            failed = []
            for entry in entries:
                if world.faults.strikes(world.rng, "send_failed"):
                    failed.append({"Id": entry["Id"], "Code": "Simulated"})
                else:
                    act(entry)
            return failed

        return {
            "Failed": self._try(verb, lambda: self._process.call(verb, [e["ReceiptHandle"] for e in entries], effect))
        }

    def _try[T](self, verb: str, call: Callable[[], T]) -> T:
        with nullcontext() if verb == "ReceiveMessage" else self.at_work():
            try:
                return call()
            except WorldError as error:
                raise ClientError({"Error": {"Code": "RequestThrottled"}}, verb) from error

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """A thread that tells the queue something is at it."""
        self._calls += 1
        try:
            yield
        finally:
            if self._calls >= QUEUE_THREADS:
                self._busy_ms = self._world.kernel.now_ms
            self._calls -= 1


def invoke_lambda(world: World, messages: list[Message]) -> None:
    """One invocation of a Lambda worker with a batch; the event source deletes those that did not fail."""
    queue = world.queues[ready_queue("lambda")]
    may_take_ms = world.apart.choice(_LAMBDA_MS)

    def body(process: Process) -> None:
        began_ms = process.monotonic_ms()
        context: Any = SimpleNamespace(
            function_name="worker",
            aws_request_id=process.name,
            get_remaining_time_in_millis=lambda: max(0, began_ms + may_take_ms - process.monotonic_ms()),
        )
        world.kernel.at(world.kernel.now_ms + may_take_ms, process.end)  # Lambda kills what takes longer
        api: Any = SimApi(world)
        sqs: Any = SimSqsClient(world, process, queue.name)
        ends_ms = world.kernel.now_ms + may_take_ms
        handle = lambda_handler(make_app(world, ends_ms), api=api, sqs=sqs, queue_url=queue.name)
        records = [
            {
                "messageId": str(message.id),
                "receiptHandle": str(message.id),
                "body": message.body,
                "attributes": {"ApproximateReceiveCount": str(message.receives)},
            }
            for message in messages
        ]
        failed = {one["itemIdentifier"] for one in handle({"Records": records}, context)["batchItemFailures"]}
        world.seen["lambda batch"] += 1
        for message in messages:
            if str(message.id) not in failed:
                world.checks.ledger.given_up(process, message.body)
                queue.delete(message.id)

    Process(world, "lambda", body)
