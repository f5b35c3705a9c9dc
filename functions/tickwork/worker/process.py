"""The worker process: receive only what can start, start, run, heartbeat, complete, and only then delete.

Protects W2 to W4. A crash at any point leaves the message in the queue (it comes back when its visibility ends) and
the lease in the ledger (it lapses): the run is delivered again as the next attempt. A message is deleted after its
completion was accepted, or when the API says that it is of no more use; never because a claim was lost.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import traceback
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.worker.app import App, FailPermanently, LeaseLost, UnknownHandler
from tickwork.worker.delivery import Delivery

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

log = logging.getLogger("tickwork.worker")

RECEIVE_MAX = 10
LONG_POLL_S = 20
BEAT_LOOK_S = 1.0
FAILED_BEATS_MAX = 2
"""After two failed heartbeats the attempt is given up (spec W3)."""
PAUSE_AFTER_FAILURE_S = 2.0
HELD_RETRY_S_MAX = 900


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How many runs at once, and how long a shutdown waits for those that run."""

    concurrency: int = 8
    grace_s: float = 30.0
    long_poll_s: int = LONG_POLL_S


class Worker:
    """Pulls runs of one pool and calls the functions of an App. `run` blocks until `stop` was called."""

    def __init__(self, app: App, queue_url: str, sqs: SQSClient, api: ApiClient, options: WorkerOptions) -> None:
        self._app, self._queue_url, self._sqs, self._api, self._options = app, queue_url, sqs, api, options
        self.name = f"{socket.gethostname()[:40]}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._stopping = threading.Event()
        self._slots = threading.Semaphore(options.concurrency)
        self._active: dict[str, Delivery] = {}
        self._active_lock = threading.Lock()

    def stop(self) -> None:
        """Begin a clean shutdown: receive nothing more, let what runs finish."""
        self._stopping.set()

    def run(self) -> bool:
        """Work until stopped. False when runs had to be given up at the end of the grace time."""
        beats_done = threading.Event()
        beats = threading.Thread(target=self._beat_until, args=(beats_done,), name="heartbeats", daemon=True)
        beats.start()
        pool = ThreadPoolExecutor(self._options.concurrency, thread_name_prefix="job")
        log.info("worker started", extra={"facts": {"worker": self.name, "handlers": self._app.names}})
        try:
            while not self._stopping.is_set():
                self._receive_and_start(pool)
        finally:
            self._drain(pool)
            beats_done.set()
            beats.join(timeout=BEAT_LOOK_S * 2)
            log.info("worker stopped", extra={"facts": {"worker": self.name, "given_up": len(self._active)}})
        return not self._active

    # --- receiving --------------------------------------------------------------------------------------------

    def _receive_and_start(self, pool: ThreadPoolExecutor) -> None:
        free = self._take_slots()
        if free == 0:
            return
        deliveries: list[Delivery] = []
        started: list[Delivery] = []
        try:
            deliveries = self._receive(free)
            if deliveries and self._stopping.is_set():
                self._give_back(deliveries)
            elif deliveries:
                started = self._start(deliveries)
        finally:
            for _ in range(free - len(started)):
                self._slots.release()
        with self._active_lock:
            self._active |= {delivery.claim: delivery for delivery in started}
        for delivery in started:
            pool.submit(self._work_off, delivery)

    def _take_slots(self) -> int:
        """Wait for one free slot, then take as many as are free: never receive what can not start."""
        if not self._slots.acquire(timeout=0.5):
            return 0
        taken = 1
        while taken < RECEIVE_MAX and self._slots.acquire(blocking=False):
            taken += 1
        return taken

    def _receive(self, most: int) -> list[Delivery]:
        try:
            answer = self._sqs.receive_message(
                QueueUrl=self._queue_url, MaxNumberOfMessages=most, WaitTimeSeconds=self._options.long_poll_s
            )
        except (ClientError, BotoCoreError) as error:
            log.warning("receive failed", extra={"facts": {"error": repr(error)}})
            self._stopping.wait(PAUSE_AFTER_FAILURE_S)
            return []
        deliveries = []
        for message in answer.get("Messages", []):
            try:
                deliveries.append(Delivery.read(message["ReceiptHandle"], message["Body"], uuid.uuid4().hex))
            except (ValueError, TypeError) as error:
                # Left where it is: after enough receives SQS moves it to the pool's dead-letter queue.
                log.error("bad message", extra={"facts": {"error": repr(error), "body": message["Body"][:200]}})
        return deliveries

    def _start(self, deliveries: Sequence[Delivery]) -> list[Delivery]:
        """Claim the runs in one call; the granted ones."""
        body = {"worker": self.name, "runs": [delivery.start_request() for delivery in deliveries]}
        try:
            answers = self._api.post("/runs:start", body)["runs"]
        except (ApiUnreachable, ApiRefused) as error:
            log.warning("start failed", extra={"facts": {"error": str(error)}})
            self._give_back(deliveries, after_s=int(PAUSE_AFTER_FAILURE_S))
            self._stopping.wait(PAUSE_AFTER_FAILURE_S)
            return []
        granted = []
        for delivery, answer in zip(deliveries, answers, strict=True):
            if answer.get("granted"):
                delivery.grant(answer, time.monotonic())
                self._show_until_lease(delivery)
                granted.append(delivery)
            elif answer.get("discard"):
                self._delete(delivery)
            else:
                wait_s = min(HELD_RETRY_S_MAX, max(1, int(answer.get("retry_after_s", 1))))
                self._set_visibility(delivery, wait_s)
        return granted

    # --- one run ----------------------------------------------------------------------------------------------

    def _work_off(self, delivery: Delivery) -> None:
        try:
            outcome, error = self._call_job(delivery)
            if outcome is not None and self._complete(delivery, outcome, error):
                self._delete(delivery)
        finally:
            with self._active_lock:
                self._active.pop(delivery.claim, None)
            self._slots.release()

    def _call_job(self, delivery: Delivery) -> tuple[str | None, str]:
        """(outcome, error text); None when the lease was lost and nothing may be completed."""
        try:
            registered = self._app.find(delivery.handler)
            registered.function(delivery.context(registered.read_payload(delivery.payload)))
        except LeaseLost:
            log.warning("lease lost", extra={"facts": _names(delivery)})
            return None, ""
        except FailPermanently as error:
            return "failed_permanent", str(error)
        except UnknownHandler as error:
            log.error("unknown handler", extra={"facts": _names(delivery) | {"error": str(error)}})
            return "failed", str(error)
        except Exception as error:  # noqa: BLE001 - whatever the job raises is its attempt's failure
            log.warning("job failed", extra={"facts": _names(delivery) | {"error": traceback.format_exc()[-2000:]}})
            return "failed", f"{type(error).__name__}: {error}"
        if delivery.lost.is_set():
            log.warning("finished after the lease was lost: not completed", extra={"facts": _names(delivery)})
            return None, ""
        return "succeeded", ""

    def _complete(self, delivery: Delivery, outcome: str, error: str) -> bool:
        """Whether the message may be deleted."""
        entry = {"ref": delivery.ref, "token": delivery.token, "outcome": outcome, "error": error[:1000]}
        try:
            answer = self._api.post("/runs:complete", {"runs": [entry]})["runs"][0]
        except (ApiUnreachable, ApiRefused) as failure:
            # The lease lapses and the run comes again as the next attempt, with the same run_id.
            log.error("complete failed", extra={"facts": _names(delivery) | {"error": str(failure)}})
            return False
        if not answer.get("accepted"):
            log.warning("complete refused", extra={"facts": _names(delivery) | {"reason": answer.get("reason")}})
        return bool(answer.get("accepted") or answer.get("discard"))

    # --- heartbeats -------------------------------------------------------------------------------------------

    def _beat_until(self, done: threading.Event) -> None:
        while not done.wait(BEAT_LOOK_S):
            now_s = time.monotonic()
            with self._active_lock:
                due = [d for d in self._active.values() if now_s - d.beaten_at_s >= d.lease_s / 3]
            due = [delivery for delivery in due if not delivery.lost.is_set()]
            for begin in range(0, len(due), RECEIVE_MAX):
                self._beat(due[begin : begin + RECEIVE_MAX])

    def _beat(self, due: Sequence[Delivery]) -> None:
        asked_at_s = time.monotonic()
        body = {"runs": [{"ref": d.ref, "token": d.token, "lease_s": d.lease_s} for d in due]}
        try:
            answers: list[dict[str, Any]] = self._api.post("/runs:heartbeat", body)["runs"]
        except (ApiUnreachable, ApiRefused) as error:
            log.warning("heartbeat failed", extra={"facts": {"error": str(error)}})
            answers = [{"reason": "busy"}] * len(due)
        for delivery, answer in zip(due, answers, strict=True):
            delivery.beaten_at_s = asked_at_s
            if answer.get("accepted"):
                delivery.failed_beats = 0
                self._show_until_lease(delivery)
                continue
            delivery.failed_beats += 1
            if answer.get("reason") != "busy" or delivery.failed_beats >= FAILED_BEATS_MAX:
                delivery.lost.set()
                log.warning("lease lost", extra={"facts": _names(delivery) | {"reason": answer.get("reason")}})

    # --- the queue --------------------------------------------------------------------------------------------

    def _show_until_lease(self, delivery: Delivery) -> None:
        """Hide the message as long as the lease lasts: if this worker dies, it comes back just then."""
        self._set_visibility(delivery, delivery.lease_s + 1)

    def _give_back(self, deliveries: Sequence[Delivery], after_s: int = 0) -> None:
        for delivery in deliveries:
            self._set_visibility(delivery, after_s)

    def _set_visibility(self, delivery: Delivery, seconds: int) -> None:
        try:
            self._sqs.change_message_visibility(
                QueueUrl=self._queue_url, ReceiptHandle=delivery.receipt, VisibilityTimeout=seconds
            )
        except (ClientError, BotoCoreError) as error:
            log.info("visibility not changed", extra={"facts": _names(delivery) | {"error": repr(error)}})

    def _delete(self, delivery: Delivery) -> None:
        """The queue is not the record: a message that comes again is discarded by the next start."""
        try:
            self._sqs.delete_message(QueueUrl=self._queue_url, ReceiptHandle=delivery.receipt)
        except (ClientError, BotoCoreError) as error:
            log.info("not deleted", extra={"facts": _names(delivery) | {"error": repr(error)}})

    def _drain(self, pool: ThreadPoolExecutor) -> None:
        """Wait for what runs, up to the grace; what is left is given up, and comes again when its lease lapses."""
        deadline_s = time.monotonic() + self._options.grace_s
        while time.monotonic() < deadline_s:
            with self._active_lock:
                if not self._active:
                    break
            time.sleep(0.05)
        pool.shutdown(wait=False, cancel_futures=True)


def _names(delivery: Delivery) -> dict[str, Any]:
    return {"run_id": delivery.body["run_id"], "job_id": delivery.body["job_id"], "attempt": delivery.attempt}
