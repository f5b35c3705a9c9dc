"""A Lambda function as worker: fed by the pool's queue through an event source, one record after the other.

    handler = lambda_handler(app)

The event source must report batch item failures. Nothing beats here, so a lease is asked for that outlasts the
function's time; a function that is cut off loses its attempt when that lease lapses, like any worker that dies. A job
that outlasts the lease which was granted (it may be shorter, `max_duration_s`) is stopped; so is one that outlasts the
function: begun with all of its time it has failed, begun late it is handed back.
Protects W2: a record counts as done only when its complete was accepted or the API says to discard it.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.core.ledger.messages import ref_in
from tickwork.core.ledger.queues import unhandled_wait_s
from tickwork.core.runs.attempts import LEASE_S_MAX
from tickwork.worker.answers import entries_of
from tickwork.worker.app import RETRY, App
from tickwork.worker.calling import INTERRUPTED, Outcome, call_job
from tickwork.worker.clock import WorkerClock
from tickwork.worker.completing import Completer
from tickwork.worker.context import Interrupted, LeaseLost, StopJob
from tickwork.worker.delivery import BadMessage, Delivery
from tickwork.worker.handing_back import hand_back
from tickwork.worker.unhandled import tell_unhandled

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

log = logging.getLogger("tickwork.worker")

NEEDED_S = 5.0
"""A record is not begun with less time left than this: it goes back to the queue unstarted."""
SPARE_S = 2
"""Of the lease beyond the function's end: both are counted by different clocks."""
REPORT_S = 3.0
"""Of the function's time, kept for what is to be told when a job has not ended."""
OUT_OF_TIME = Outcome(RETRY, "it took longer than the function's time", "FunctionTimeout")
RECEIVES = "ApproximateReceiveCount"
"""How an event source says how often a message has been received."""
HELD_RETRY_S_MAX = 900

type Handler = Callable[[dict[str, Any], LambdaContext], dict[str, Any]]


class LambdaContext(Protocol):
    function_name: str
    aws_request_id: str

    def get_remaining_time_in_millis(self) -> int: ...


class TimeoutTooLong(Exception):
    """The function may run longer than any lease: give it a timeout of 15 minutes or less."""


def lambda_handler(
    app: App,
    *,
    api: ApiClient | None = None,
    sqs: SQSClient | None = None,
    queue_url: str = "",
    needed_s: float = NEEDED_S,
) -> Handler:
    """A handler for the function. With `sqs` and `queue_url` a run held elsewhere comes back when that lease ends,
    else when the queue's visibility timeout does. `needed_s`: the least time a job of this app needs."""
    clock = WorkerClock()
    show = None if sqs is None else _Shower(sqs, queue_url)
    client = api or ApiClient()

    def handle(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
        batch = _Batch(app, client, clock, context, needed_s, show)
        records = enumerate(event.get("Records", []))
        failed = [record["messageId"] for place, record in records if not batch.is_done(record, is_first=not place)]
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}

    return handle


class _Batch:
    """One invocation: what the completer drops is done with."""

    def __init__(
        self,
        app: App,
        api: ApiClient,
        clock: WorkerClock,
        context: LambdaContext,
        needed_s: float,
        show: _Shower | None,
    ) -> None:
        self._app, self._api, self._clock, self._context = app, api, clock, context
        self._needed_s, self._show = needed_s, show
        self._done: set[Delivery] = set()
        self._completer = Completer(api, self.drop, lambda _: None, clock, threading.Event())

    def is_done(self, record: dict[str, Any], *, is_first: bool = False) -> bool:
        """Whether the record's message may be deleted. Raises only TimeoutTooLong: the whole batch would come again.
        `is_first`: it has all of the function's time."""
        receives = int(record.get("attributes", {}).get(RECEIVES, 1))
        try:
            delivery = Delivery.read(record["receiptHandle"], record["body"], self._clock.unique(), receives)
        except BadMessage as error:
            # Left in the queue: after enough receives SQS moves it to the pool's dead-letter queue.
            facts = {"error": str(error), "ref": ref_in(record["body"]), "chars": len(record["body"])}
            log.error("bad message", extra={"facts": facts})
            return False
        remaining_s = self._context.get_remaining_time_in_millis() / 1000
        if remaining_s > LEASE_S_MAX:
            raise TimeoutTooLong(f"{remaining_s:.0f} s are left, and no lease is longer than {LEASE_S_MAX} s")
        if remaining_s < self._needed_s:
            log.info("given back unstarted", extra={"facts": delivery.names | {"remaining_s": remaining_s}})
            return False
        if delivery.handler not in self._app.names:
            tell_unhandled(self._api, self._worker(), [delivery])
            self._show_in(delivery, unhandled_wait_s(delivery.receives))
            return False
        delivery.lease_s = min(LEASE_S_MAX, max(delivery.lease_s, math.ceil(remaining_s) + SPARE_S))
        stops_at_s = self._clock.now_s() + remaining_s - REPORT_S
        return self._work_off(delivery, is_first, stops_at_s)

    def _work_off(self, delivery: Delivery, is_first: bool, stops_at_s: float) -> bool:
        answer = self._start(delivery)
        if not answer.get("granted"):
            if not answer.get("discard"):
                self._show_in(delivery, int(answer.get("retry_after_s", 1)))
            return bool(answer.get("discard"))
        outcome = self._call(delivery, stops_at_s)
        if outcome is not None and outcome.outcome == INTERRUPTED:
            if not is_first:
                self._hand_back(delivery)
                return delivery in self._done
            outcome = OUT_OF_TIME
        if outcome is not None:
            self._completer.send([(delivery, outcome)])
        return delivery in self._done

    def _call(self, delivery: Delivery, stops_at_s: float) -> Outcome | None:
        """The job, for as long as its lease can be trusted (W14), and no longer than the function can still report."""
        now_s = self._clock.now_s()
        left_s, works_s = delivery.lease_ends_s - now_s, stops_at_s - now_s
        if left_s <= 0:
            delivery.call.stop(LeaseLost)
        signals: tuple[tuple[float, type[StopJob]], ...] = ((left_s, LeaseLost), (works_s, Interrupted))
        watches = [threading.Timer(max(0.0, after_s), delivery.call.stop, (signal,)) for after_s, signal in signals]
        for watch in watches:
            watch.daemon = True
            watch.start()
        try:
            return call_job(self._app, delivery)
        finally:
            for watch in watches:
                watch.cancel()

    def _hand_back(self, delivery: Delivery) -> None:
        """It was begun late, behind other records: the next function has all of its time for it (W12)."""
        hand_back(self._api, self, [delivery])

    def give_back(self, deliveries: Sequence[Delivery], seconds: int) -> None:
        for delivery in deliveries:
            self._show_in(delivery, seconds)

    def drop(self, deliveries: Sequence[Delivery]) -> None:
        self._done.update(deliveries)

    def _show_in(self, delivery: Delivery, seconds: int) -> None:
        if self._show is not None:
            self._show(delivery, seconds)

    def _start(self, delivery: Delivery) -> dict[str, Any]:
        asked_at_s = self._clock.now_s()
        body = {"worker": self._worker(), "runs": [delivery.start_request()]}
        try:
            (answer,) = entries_of(self._api.post("/runs:start", body), 1)
        except (ApiUnreachable, ApiRefused) as error:
            log.warning("start failed", extra={"facts": delivery.names | {"error": str(error)}})
            return {}
        if answer.get("granted"):
            delivery.grant(answer, asked_at_s)
        return answer

    def _worker(self) -> str:
        return f"{self._context.function_name[:60]}-{self._context.aws_request_id}"[:128]


class _Shower:
    """Lets a message come back when its run can be started."""

    def __init__(self, sqs: SQSClient, queue_url: str) -> None:
        self._sqs, self._queue_url = sqs, queue_url

    def __call__(self, delivery: Delivery, seconds: int) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        wait_s = min(HELD_RETRY_S_MAX, max(0, seconds))
        try:
            self._sqs.change_message_visibility(
                QueueUrl=self._queue_url, ReceiptHandle=delivery.receipt, VisibilityTimeout=wait_s
            )
        except (ClientError, BotoCoreError) as error:
            log.info("visibility not changed", extra={"facts": delivery.names | {"error": repr(error)}})
