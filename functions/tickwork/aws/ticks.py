"""Serving batches of tick messages: the windows they ask for, and which ticks must come again, and when.

Shared by the scanner Lambda and the embedded scanner.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.messages import Tick
from tickwork.flows.windows import BACKLOG_MS_MAX, WindowReport, run_window
from tickwork.ports import TICKS_QUEUE, Ports

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

AGAIN_S_MAX = 30

type TickMessage = tuple[str, str, str]
"""(message id, receipt handle, body)"""


class TickBatch:
    """Runs the windows of a batch of ticks, one for each slice: the latest second serves the earlier ones."""

    def __init__(self, ports: Ports, sqs: SQSClient, prefix: str) -> None:
        self._ports = ports
        self._sqs = sqs
        self._queue = f"{prefix}-{TICKS_QUEUE}"
        self._url = ""

    def serve(self, messages: Sequence[TickMessage], *, budget_ms: int) -> list[str]:
        """The ids of the messages that must be delivered again; each has been given a short delay."""
        until_ms = self._ports.clock.monotonic_ms() + budget_ms
        by_slice: dict[tuple[str, int], list[tuple[TickMessage, int]]] = {}
        for message in messages:
            tick = self._read(message[2])
            if tick is not None:
                by_slice.setdefault((tick.cell, tick.slice_no), []).append((message, tick.second))
        again: list[str] = []
        for (_, slice_no), group in by_slice.items():
            left_ms = max(0, until_ms - self._ports.clock.monotonic_ms())
            wait_ms = self._window(
                slice_no, max(second for _, second in group), left_ms, BACKLOG_MS_MAX // len(by_slice)
            )
            if wait_ms is None:
                continue
            for (message_id, receipt, _), _ in group:
                self._delay(receipt, wait_ms)
                again.append(message_id)
        return again

    def _read(self, body: str) -> Tick | None:
        try:
            tick = Tick.from_json(body)
        except (ValueError, KeyError, TypeError):
            self._ports.signals.count("scheduler.bad_ticks_total")
            self._ports.signals.log("bad_tick", body=body[:200])
            return None
        if tick.cell != self._ports.layout.cell or not 0 <= tick.slice_no < self._ports.layout.slices:
            self._ports.signals.log("foreign_tick", body=json.dumps(body[:200]))
            return None
        return tick

    def _window(self, slice_no: int, second: int, budget_ms: int, backlog_ms: int) -> int | None:
        """None when the tick has done its work, else how long to wait before it comes again."""
        try:
            report: WindowReport = run_window(self._ports, slice_no, second, budget_ms=budget_ms, backlog_ms=backlog_ms)
        except (WorldError, ClientError, BotoCoreError) as error:
            self._ports.signals.count("scheduler.windows_failed_total")
            self._ports.signals.log("window_failed", slice=slice_no, second=second, error=repr(error))
            return SECOND_MS
        return report.wait_ms if report.needs_retry else None

    def _delay(self, receipt: str, wait_ms: int) -> None:
        """A tick that comes back waits as long as makes sense, not for the whole visibility timeout."""
        seconds = min(AGAIN_S_MAX, max(1, -(-wait_ms // SECOND_MS)))
        try:
            if not self._url:
                self._url = self._sqs.get_queue_url(QueueName=self._queue)["QueueUrl"]
            self._sqs.change_message_visibility(QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=seconds)
        except (ClientError, BotoCoreError) as error:
            self._ports.signals.log("tick_not_delayed", error=repr(error))  # it comes back later: lag, no loss
