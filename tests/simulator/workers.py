"""The production worker in the world: its process with threads, heartbeats and completer, fed by a queue or by leases
over HTTP, and the handler for Lambda.

One session is one worker process. It is started when there is something for its pool and nobody to take it, lives for a
while, and is told to stop (or dies of a fault on the way): so histories have shutdowns in them. One that was told to
stop is relied on no more: it may stand still in its last call for long, and another is started beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tests.simulator.api import SimApi
from tests.simulator.elements import BROKEN, FLAKY, LEASED_POOL, NEW_HANDLER
from tests.simulator.threads import Event, SimWorkerClock, strike, wait
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.queues import ready_queue
from tickwork.core.ledger.tables import TIMERS
from tickwork.testing.process import Process
from tickwork.testing.queue import Message, SimReceiver
from tickwork.testing.violation import Violation
from tickwork.worker.app import App
from tickwork.worker.context import Context, FailPermanently, LeaseLost, RetryLater
from tickwork.worker.lambdas import lambda_handler
from tickwork.worker.process import Worker, WorkerOptions
from tickwork.worker.sources import LeaseSource, Source, SqsSource

if TYPE_CHECKING:
    from tests.simulator.world import World

_LIVES_S = (40, 90, 200)
_SHORT_LIVES_S = (1, 3, 8, 20)
"""Of workers in a deploy that goes wrong again and again."""
_GRACES_S = (0, 2, 30, 130)
_CLEAN_UPS_S = (0.2, 5.0)
"""The shorter one is less than a step of a job: some do not stop in it."""
_HAS_NEW_SHARE = 0.5
_LOOK_MS = 20 * SECOND_MS
_STEP_MS = 1_500
_SLOW_SHARE = 0.15
"""Of the jobs: they take longer than a lease."""
_STUBBORN_SHARE = 0.3
"""Of the jobs: when they are told that their lease is lost, they come to an end as if nothing was."""
_FAILS_SHARE, _PERMANENT_SHARE = 0.2, 0.03
_LAMBDA_MS = (25_000, 25_000, 100_000)
"""What a function may take: longer than the lease that a message asks for, sometimes."""
_LAMBDA_SPARE_MS = 3_000 + 10_000
"""What it keeps for its report, and what a slow answer of a start may have cost: it says how much of the lease is left
when it is given, and is trusted from when it was asked for."""
_LEASE_S, _LEASE_WAIT_S = 30, 5


class Flaky(Exception):
    """A failure that may pass."""


class Broken(Exception):
    """A failure that may not."""


assert (Flaky.__name__, Broken.__name__) == (FLAKY, BROKEN)


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
        self._worker = Worker(app, source, api, options, stopping, SimWorkerClock())
        is_short = world.faults.strikes(world.rng, "sigterm")
        life_ms = choice(_SHORT_LIVES_S if is_short else _LIVES_S) * SECOND_MS
        world.kernel.at(world.kernel.now_ms + life_ms, self._stop)
        world.kernel.at(world.kernel.now_ms + _LOOK_MS, self._look)
        clean = self._worker.run()
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


def make_app(world: World, ends_ms: int = 0) -> App:
    """The team's code: it takes its time, looks whether it has to stop, and sometimes fails. `ends_ms`: of the function
    that it runs in."""
    app = App()

    @app.job("job")
    def job(ctx: Context) -> None:
        rng = world.apart
        if not isinstance(ctx.payload, dict) or ctx.payload.get("n") != 1:
            world.fail(Violation("payload", f"{ctx.run_id} got {ctx.payload!r}"))
        _check_fence(world, ctx)
        slow = world.faults.strikes(world.rng, "slow_worker") or (not world.faults.off and rng.random() < _SLOW_SHARE)
        left_ms = rng.choice((30_000, 90_000, 160_000)) if slow else rng.randint(20, 2_500)
        is_stubborn = rng.random() < _STUBBORN_SHARE
        try:
            while left_ms > 0:
                _step(world, ctx, ends_ms, min(left_ms, _STEP_MS))
                left_ms -= _STEP_MS
                world.checks.workers.works((ctx.run_id, ctx.token))
        except LeaseLost:
            if not is_stubborn:
                raise
            world.seen["real job ended without its lease"] += 1
            return
        drawn = rng.random()
        if world.faults.off or drawn >= _FAILS_SHARE:
            world.seen["real job done"] += 1
            return
        if drawn < _PERMANENT_SHARE:
            world.checks.workers.gave_up.add((ctx.run_id, ctx.token))
            raise FailPermanently("it is broken for good")
        if drawn < _PERMANENT_SHARE * 2:
            raise RetryLater("not now", after_s=rng.choice((1, 20)))
        raise Flaky("it may pass") if drawn < _FAILS_SHARE / 2 else Broken("it broke")

    if world.faults.off or world.apart.random() < _HAS_NEW_SHARE:
        app.job(NEW_HANDLER)(job)
    return app


def _step(world: World, ctx: Context, ends_ms: int, takes_ms: int) -> None:
    """Some of a job's work: a signal strikes it in its midst. Nothing beats in a function: its lease must last as long
    as it does, or what takes longer is never done."""
    try:
        wait([], takes_ms / 1_000)
        ctx.check()
    except LeaseLost:
        world.checks.workers.was_stopped((ctx.run_id, ctx.token))
        items = [item for item in world.tables.items(TIMERS) if "token" in item and _run_id(item) == ctx.run_id]
        # It was limited, or is another's by now: then it may have been, of which the run says nothing any more.
        limited = any(item.get("stop_at_ms") or item["token"] > ctx.token for item in items)
        limited |= any(item["status"] != "running" for item in items)  # it was ended for the time it took
        # What is left of a lease counts from when it was asked for.
        limited |= "slow_answer" in world.classes or world.checks.workers.was_slow((ctx.run_id, ctx.token))
        if world.kernel.now_ms + _LAMBDA_SPARE_MS < ends_ms and not limited:
            what = f"{ctx.run_id} was stopped for its lease {ends_ms - world.kernel.now_ms} ms before its function ends"
            world.fail(Violation("bounded-attempts", what))
        raise


def _run_id(item: dict[str, Any]) -> str:
    return parse_ref(f"{item['pk']}|{item['sk']}").run_id


def _check_fence(world: World, ctx: Context) -> None:
    """Fences are compared as text: that of any later attempt is greater (W10)."""
    later = [replace(ctx, token=ctx.token + more).fence for more in (1, 9, 90, 900)]
    if sorted({ctx.fence, *later}) != [ctx.fence, *later]:
        world.fail(Violation("one-owner-effect", f"the fences of {ctx.run_id} are out of order: {ctx.fence}, {later}"))


type Entry = dict[str, Any]


class SimSqsClient:
    """The calls of an SQS client that a worker makes, as its process sees them."""

    def __init__(self, world: World, process: Process, queue: str) -> None:
        self._world, self._process, self._name = world, process, queue
        self._queue = process.world.queues[queue]

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
        return self._batch("DeleteMessageBatch", Entries, lambda entry: self._delete(int(entry["ReceiptHandle"])))

    def _delete(self, number: int) -> None:
        if (message := self._queue.messages.get(number)) is not None:
            self._world.checks.ledger.given_up(self._process, message.body)
        self._queue.delete(number)

    def change_message_visibility_batch(self, *, QueueUrl: str, Entries: Sequence[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        def show(entry: dict[str, Any]) -> None:
            self._queue.delay(int(entry["ReceiptHandle"]), entry["VisibilityTimeout"] * SECOND_MS)

        return self._batch("ChangeMessageVisibilityBatch", Entries, show)

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
        try:
            return call()
        except WorldError as error:
            raise ClientError({"Error": {"Code": "RequestThrottled"}}, verb) from error


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
