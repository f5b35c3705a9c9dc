"""Where runs come from: the pool's SQS queue with a start, or the HTTP lease, which does both in one call.

Protects W2: a message is deleted when its run was completed or the API says that it is of no more use, never because
a claim was lost. The queue is not the record: a failed delete or visibility change costs a duplicate, no more.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import batched
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.aws.sqs import RECEIVES, raise_if_closed, receives_of
from tickwork.client import ApiClient, ApiRefused, ApiUnreachable, path_of
from tickwork.core.ledger.messages import ref_in
from tickwork.core.ledger.queues import unhandled_wait_s
from tickwork.worker.answers import UNDECIDED, entries_of
from tickwork.worker.claims import Claims
from tickwork.worker.clock import WorkerClock
from tickwork.worker.delivery import BadMessage, Delivery
from tickwork.worker.telling import tell
from tickwork.worker.unhandled import is_about_handlers, tell_unhandled

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

log = logging.getLogger("tickwork.worker")

BATCH_MAX = 10
"""SQS's own limit of a receive, a delete and a visibility batch."""
LONG_POLL_S = 10
"""A shutdown waits for the poll that is out (a message given to an abandoned one would stay hidden for a minute)."""
PAUSE_AFTER_FAILURE_S = 2.0
HELD_RETRY_S_MAX = 900
HELD_RETRY_S_DEFAULT = 5
QUEUE_THREADS = 2
GIVE_BACK_TRIES = 3
"""Beside those of the client itself, with its pauses: a worker that stops has no more time."""


class Source(Protocol):
    """`take` blocks until there is something, for some seconds at most, and returns only runs that were granted."""

    def take(self, most: int) -> list[Delivery]: ...

    def hold(self, deliveries: Sequence[Delivery]) -> None:
        """Their leases were extended. Must not block."""

    def drop(self, deliveries: Sequence[Delivery]) -> None:
        """They are of no more use."""

    def give_back(self, deliveries: Sequence[Delivery], seconds: int) -> None:
        """The platform has taken them back: whoever asks may have them after so many seconds."""

    def close(self) -> None: ...


class SqsSource:
    """Messages of a ready queue, started through the API. `sqs` long-polls; `control` has short timeouts. `handlers`:
    those of this worker (None: whatever comes); a message for another is left to other workers."""

    def __init__(
        self,
        *,
        queue_url: str,
        sqs: SQSClient,
        control: SQSClient,
        api: ApiClient,
        worker: str,
        stopping: threading.Event,
        clock: WorkerClock,
        long_poll_s: int = LONG_POLL_S,
        handlers: Collection[str] | None = None,
    ) -> None:
        self._handlers = handlers
        self._queue_url, self._sqs, self._control, self._api = queue_url, sqs, control, api
        self._worker, self._stopping, self._clock, self._long_poll_s = worker, stopping, clock, long_poll_s
        self._claims, self._queue_calls = Claims(), ThreadPoolExecutor(QUEUE_THREADS, thread_name_prefix="queue")

    def take(self, most: int, wait_s: int | None = None) -> list[Delivery]:
        """`wait_s`: how long to wait for the first message, where that is not as long as ever."""
        deliveries = self._receive(min(most, BATCH_MAX), self._long_poll_s if wait_s is None else wait_s)
        if deliveries and self._stopping.is_set():
            log.info("given back unstarted", extra={"facts": {"runs": len(deliveries)}})
            self.give_back(deliveries, 0)
            return []
        known = [one for one in deliveries if self._handlers is None or one.handler in self._handlers]
        if len(known) < len(deliveries):
            self._queue_calls.submit(self._leave, [one for one in deliveries if one not in known])
        return self._start(known) if known else []

    def hold(self, deliveries: Sequence[Delivery]) -> None:
        """Hide the messages as long as the leases last: if this worker dies, they come back just then."""
        self._queue_calls.submit(self._hide, deliveries)

    def give_back(self, deliveries: Sequence[Delivery], seconds: int) -> None:
        """Told again where the queue has not taken it: else nobody sees the message before a lease would have ended."""
        left = [(delivery, seconds) for delivery in deliveries]
        for _ in range(GIVE_BACK_TRIES):
            left = self._show(left)

    def drop(self, deliveries: Sequence[Delivery]) -> None:
        for batch in batched(deliveries, BATCH_MAX):
            entries: Any = [{"Id": str(i), "ReceiptHandle": d.receipt} for i, d in enumerate(batch)]
            delete = partial(self._control.delete_message_batch, QueueUrl=self._queue_url, Entries=entries)
            tell("not deleted", batch, delete)

    def close(self) -> None:
        """After the last `hold` and `drop`."""
        self._queue_calls.shutdown(wait=True)

    def _receive(self, most: int, wait_s: int) -> list[Delivery]:
        try:
            answer = self._sqs.receive_message(
                QueueUrl=self._queue_url,
                MaxNumberOfMessages=most,
                WaitTimeSeconds=wait_s,
                MessageSystemAttributeNames=[RECEIVES],
            )
        except (ClientError, BotoCoreError) as error:
            raise_if_closed(error)  # ends the worker, when what runs has finished
            log.warning("receive failed", extra={"facts": {"error": repr(error)}})
            self._clock.wait(self._stopping, PAUSE_AFTER_FAILURE_S)
            return []
        deliveries = []
        for message in answer.get("Messages", []):
            try:
                receipt, body = message["ReceiptHandle"], message["Body"]
                deliveries.append(Delivery.read(receipt, body, self._clock.unique(), receives_of(message)))
            except BadMessage as error:
                # Left where it is: after enough receives SQS moves it to the pool's dead-letter queue.
                facts = {"error": str(error), "ref": ref_in(message["Body"]), "chars": len(message["Body"])}
                log.error("bad message", extra={"facts": facts})
        return deliveries

    def _start(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Claim the runs in one call; the granted ones."""
        asked_at_s = self._clock.now_s()
        self._claims.name_again(deliveries)
        body = {"worker": self._worker, "runs": [delivery.start_request() for delivery in deliveries]}
        try:
            answers = entries_of(self._api.post("/runs:start", body), len(deliveries))
        except ApiRefused as error:
            return self._start_one_by_one(deliveries, error)
        except ApiUnreachable as error:
            log.warning("start failed", extra={"facts": {"error": str(error)}})
            self._claims.keep(deliveries)
            self._show([(delivery, int(PAUSE_AFTER_FAILURE_S)) for delivery in deliveries])
            self._clock.wait(self._stopping, PAUSE_AFTER_FAILURE_S)
            return []
        return self._sort(deliveries, answers, asked_at_s)

    def _start_one_by_one(self, deliveries: Sequence[Delivery], error: ApiRefused) -> list[Delivery]:
        """One entry that the API refuses must not keep its neighbours from starting."""
        if len(deliveries) > 1 and not error.refuses_the_caller:
            return [granted for delivery in deliveries for granted in self._start([delivery])]
        log.error("start refused", extra={"facts": deliveries[0].names | {"error": str(error)}})
        self._show([(delivery, HELD_RETRY_S_DEFAULT) for delivery in deliveries])
        if error.refuses_the_caller:
            raise error  # ends the worker, when what runs has finished
        return []

    def _sort(
        self, deliveries: Sequence[Delivery], answers: Sequence[dict[str, Any]], asked_at_s: float
    ) -> list[Delivery]:
        granted, useless, later = [], [], []
        for delivery, answer in zip(deliveries, answers, strict=True):
            if answer.get("granted"):
                delivery.grant(answer, asked_at_s)
                granted.append(delivery)
            elif answer.get("discard"):
                useless.append(delivery)
            else:
                self._claims.keep([delivery] if answer.get("reason") in UNDECIDED else [])
                wait_s = int(answer.get("retry_after_s", HELD_RETRY_S_DEFAULT))
                later.append((delivery, min(HELD_RETRY_S_MAX, max(1, wait_s))))
        if granted:
            self.hold(granted)
        if useless:
            self._queue_calls.submit(self.drop, useless)
        if later:
            self._queue_calls.submit(self._show, later)
        return granted

    def _leave(self, unhandled: Sequence[Delivery]) -> None:
        """Leave runs to workers that have their handlers, and tell the platform: it knows when nobody has (W12)."""
        self._show([(delivery, unhandled_wait_s(delivery.receives)) for delivery in unhandled])
        tell_unhandled(self._api, self._worker, unhandled)

    def _hide(self, held: Sequence[Delivery]) -> None:
        """Hide what is still this worker's, by its last heartbeat. What was given back meanwhile is shown again."""
        hidden = [delivery for delivery in held if not delivery.is_given_back]
        self._show([(delivery, math.ceil(delivery.trust_s) + 1) for delivery in hidden])
        for delivery in [delivery for delivery in hidden if delivery.is_given_back]:
            self.give_back([delivery], delivery.shown_in_s)

    def _show(self, later: Sequence[tuple[Delivery, int]]) -> list[tuple[Delivery, int]]:
        """Let messages be visible again after so many seconds each; those of which the queue has not taken it."""
        left: list[tuple[Delivery, int]] = []
        for batch in batched(later, BATCH_MAX):
            entries: Any = [
                {"Id": str(i), "ReceiptHandle": delivery.receipt, "VisibilityTimeout": seconds}
                for i, (delivery, seconds) in enumerate(batch)
            ]
            change = partial(self._control.change_message_visibility_batch, QueueUrl=self._queue_url, Entries=entries)
            left += [batch[at] for at in tell("visibility not changed", [delivery for delivery, _ in batch], change)]
        return left


class LeaseSource:
    """Runs leased over HTTP: no AWS credentials, no queue in sight; the platform looks after the messages. `handlers`:
    those of this worker, so that it is given no run of others (None: it does not say)."""

    def __init__(
        self,
        *,
        pool: str,
        worker: str,
        api: ApiClient,
        stopping: threading.Event,
        clock: WorkerClock,
        lease_s: int,
        wait_s: int,
        handlers: Collection[str] | None = None,
    ) -> None:
        self._handlers = handlers
        self._worker = worker
        self._path = path_of("pools", f"{pool}:lease")
        self._api, self._stopping, self._clock = api, stopping, clock
        self._lease_s, self._wait_s = lease_s, wait_s

    def take(self, most: int, wait_s: int | None = None) -> list[Delivery]:
        """`wait_s`: how long to wait for the first run, where that is not as long as ever."""
        asked_at_s, wait_s = self._clock.now_s(), self._wait_s if wait_s is None else wait_s
        body: dict[str, Any] = {
            "worker": self._worker,
            "max": min(most, BATCH_MAX),
            "lease_s": self._lease_s,
            "wait_s": wait_s,
        }
        if self._handlers is not None:
            body["handlers"] = list(self._handlers)
        try:
            # Not repeated: a lease whose answer was lost lapses, and asking again would take more runs.
            answer = self._api.post(self._path, body, repeat=False, timeout_s=wait_s + 10.0)
            runs = entries_of(answer)
        except (ApiUnreachable, ApiRefused) as error:
            if isinstance(error, ApiRefused) and is_about_handlers(error):
                self._handlers = None  # an older platform: a run of a handler that is not here then fails here
                return []
            if isinstance(error, ApiRefused) and error.is_permanent:
                log.error("lease refused: it will not get better", extra={"facts": {"error": str(error)}})
                raise  # ends the worker, when what runs has finished
            log.warning("lease failed", extra={"facts": {"error": str(error)}})
            self._clock.wait(self._stopping, PAUSE_AFTER_FAILURE_S)
            return []
        if not runs:  # as many as may have waited already: the rest of the wait is ours
            self._clock.wait(self._stopping, min(int(answer.get("retry_after_s", 0)), wait_s))
            return []
        granted = []
        for run in runs:
            try:
                granted.append(self._delivery(run, asked_at_s, answer.get("waited_ms")))
            except (BadMessage, KeyError, TypeError, ValueError) as error:
                log.error("bad run in a lease", extra={"facts": {"error": str(error)}})
        return granted

    def _delivery(self, run: dict[str, Any], asked_at_s: float, waited_ms: int | None) -> Delivery:
        """A lease began somewhere within a long poll. The platform says how long it kept the question waiting, by its
        own monotonic clock: its answer is no older than that. An older one does not say: then the first heartbeat is
        due at once after a long wait, and settles it."""
        delivery = Delivery.of("", run | {"lease_s": self._lease_s}, "")
        now_s = self._clock.now_s()
        if waited_ms is not None:
            delivery.grant(run, min(now_s, asked_at_s + waited_ms / 1000))
            return delivery
        delivery.grant(run, now_s)
        delivery.beaten_at_s = asked_at_s
        return delivery

    def hold(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing to do: there is no message to hide."""

    def drop(self, deliveries: Sequence[Delivery]) -> None:
        """Nothing to do: the platform has dealt with the message."""

    def give_back(self, deliveries: Sequence[Delivery], seconds: int) -> None:
        """Nothing to do: the platform has shown the message."""

    def close(self) -> None:
        """Nothing to do."""
