"""The windows on one machine: the ticker each minute, the reconciler every five, scanners fed by the ticks queue."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.aws.ticks import TickBatch
from tickwork.core.errors import WorldError
from tickwork.core.ledger.queues import SCANNER_RESERVE_MS, SCANNER_TIMEOUT_S
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.ports import TICKS_QUEUE, Ports

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

log = logging.getLogger("tickwork.windows")

TICKER_EVERY_S = 60.0
RECONCILER_EVERY_S = 300.0
WINDOW_BUDGET_MS = SCANNER_TIMEOUT_S * 1_000 - SCANNER_RESERVE_MS
LONG_POLL_S = 5
PAUSE_AFTER_FAILURE_S = 1.0


class Windows:
    """Threads that do what EventBridge Scheduler, the SQS event source and Lambda do when deployed."""

    def __init__(self, ports: Ports, sqs: SQSClient, prefix: str) -> None:
        self._ports, self._sqs, self._prefix = ports, sqs, prefix
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Blocks until stopped, then waits for the windows under way."""
        threads = [
            threading.Thread(target=self._every, args=(TICKER_EVERY_S, lambda: issue_ticks(self._ports), "ticker")),
            threading.Thread(
                target=self._every, args=(RECONCILER_EVERY_S, lambda: reconcile(self._ports), "reconciler")
            ),
            *(threading.Thread(target=self._scan) for _ in range(self._ports.layout.slices)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _every(self, period_s: float, step: Callable[[], object], name: str) -> None:
        while True:
            try:
                step()
            except (WorldError, ClientError, BotoCoreError) as error:
                log.warning("step failed", extra={"facts": {"step": name, "error": repr(error)}})
            if self._stopping.wait(period_s):
                return

    def _scan(self) -> None:
        batch = TickBatch(self._ports, self._sqs, self._prefix)
        while not self._stopping.is_set():
            try:
                self._serve_ticks(batch)
            except (ClientError, BotoCoreError) as error:
                log.warning("ticks not received", extra={"facts": {"error": repr(error)}})
                self._stopping.wait(PAUSE_AFTER_FAILURE_S)

    def _serve_ticks(self, batch: TickBatch) -> None:
        url = self._sqs.get_queue_url(QueueName=f"{self._prefix}-{TICKS_QUEUE}")["QueueUrl"]
        answer = self._sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=LONG_POLL_S)
        messages = [(m["MessageId"], m["ReceiptHandle"], m["Body"]) for m in answer.get("Messages", [])]
        if not messages:
            return
        again = set(batch.serve(messages, budget_ms=WINDOW_BUDGET_MS))
        done = [(message_id, receipt) for message_id, receipt, _ in messages if message_id not in again]
        if done:
            entries = [{"Id": str(i), "ReceiptHandle": receipt} for i, (_, receipt) in enumerate(done)]
            self._sqs.delete_message_batch(QueueUrl=url, Entries=entries)  # type: ignore[arg-type]
