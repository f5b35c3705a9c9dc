"""The windows on one machine: the ticker each minute, the reconciler every five, scanners fed by the ticks queue."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

from tickwork.core.ledger.queues import SCANNER_RESERVE_MS, SCANNER_TIMEOUT_S, TICKS, TICKS_PER_BATCH
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.tick_batches import TickBatch
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.local.loops import keep_doing, run_together
from tickwork.ports import TICKS_QUEUE, Ports

TICKER_EVERY_S = 60.0
RECONCILER_EVERY_S = 300.0
WINDOW_BUDGET_MS = SCANNER_TIMEOUT_S * 1_000 - SCANNER_RESERVE_MS
LONG_POLL_S = 5
"""How long a scanner may take to notice that it must end."""


class Windows:
    """Threads that do what EventBridge Scheduler, the SQS event source and Lambda do when deployed."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        """Blocks until stopped, then waits for the windows under way."""
        run_together(
            [
                partial(self._keep_doing, "ticker", lambda: issue_ticks(self._ports), TICKER_EVERY_S),
                partial(self._keep_doing, "reconciler", lambda: reconcile(self._ports), RECONCILER_EVERY_S),
                *(
                    partial(self._keep_doing, f"scanner-{number}", self.serve_ticks)
                    for number in range(sum(shape.slices for shape in self._ports.layout.shapes))
                ),
            ]
        )

    def _keep_doing(self, name: str, step: Callable[[], object], every_s: float = 0.0) -> None:
        keep_doing(step, name=name, stopping=self._stopping, signals=self._ports.signals, every_s=every_s)

    def serve_ticks(self) -> None:
        """Receive some ticks, serve them, and delete those that are done. A crash on the way: they come again."""
        receiver = self._ports.receiver
        received = receiver.receive(TICKS_QUEUE, limit=TICKS_PER_BATCH, wait_s=LONG_POLL_S, hide_s=TICKS.visibility_s)
        messages = {message.receipt: message for message in received}
        again = set(TickBatch(self._ports).serve(messages, budget_ms=WINDOW_BUDGET_MS))
        for receipt in messages.keys() - again:
            receiver.delete(TICKS_QUEUE, receipt)
