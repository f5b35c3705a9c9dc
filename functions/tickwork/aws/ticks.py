"""Serving batches of tick messages: the windows they ask for, and which ticks must come again, and when.

Shared by the scanner Lambda and the embedded scanner.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.messages import Tick
from tickwork.core.ledger.queues import TICKS_PER_BATCH
from tickwork.flows.dispatch.windows import BACKLOG_MS_MAX, WindowReport, run_window
from tickwork.ports import TICKS_QUEUE, Ports

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

AGAIN_S_MAX = 30

type TickMessage = tuple[str, str, str]
"""(message id, receipt handle, body)"""

type Window = Callable[[], int | None]
"""Serves a slice. None when its ticks have done their work, else how long to wait before they come again."""

type Serving = Callable[[Sequence[Window]], list[int | None]]
"""Runs some windows and answers in their order."""


def one_by_one(windows: Sequence[Window]) -> list[int | None]:
    return [window() for window in windows]


def side_by_side() -> Serving:
    """Windows in threads: they wait for answers most of their time, and a slice does not wait for nine others. All
    have ended before this returns, also when one raises: a frozen environment must not hold a half-served slice."""
    threads = ThreadPoolExecutor(TICKS_PER_BATCH, thread_name_prefix="window")

    def serve(windows: Sequence[Window]) -> list[int | None]:
        if len(windows) == 1:
            return one_by_one(windows)
        running = [threads.submit(window) for window in windows]
        wait(running)
        return [window.result() for window in running]

    return serve


class TickBatch:
    """Runs the windows of a batch of ticks, one for each slice: the latest second serves the earlier ones."""

    def __init__(self, ports: Ports, sqs: SQSClient, prefix: str, serving: Serving = one_by_one) -> None:
        self._ports = ports
        self._serving = serving
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
        backlog_ms = BACKLOG_MS_MAX // max(1, len(by_slice))
        windows = [
            partial(self._window, slice_no, max(second for _, second in group), until_ms, backlog_ms)
            for (_, slice_no), group in by_slice.items()
        ]
        for group, wait_ms in zip(by_slice.values(), self._serving(windows), strict=True):
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
            self._ports.signals.count("scheduler.bad_ticks_total")
            self._ports.signals.log("foreign_tick", body=json.dumps(body[:200]))
            return None
        return tick

    def _window(self, slice_no: int, second: int, until_ms: int, backlog_ms: int) -> int | None:
        """None when the tick has done its work, else how long to wait before it comes again."""
        budget_ms = max(0, until_ms - self._ports.clock.monotonic_ms())
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
