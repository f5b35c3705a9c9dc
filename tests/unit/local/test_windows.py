"""The embedded scanner does what the event source of the deployed one does: receive, serve, delete what is done."""

from __future__ import annotations

import dataclasses

from tests.support.fakes import NOW_MS, fake_ports
from tickwork.core.instants import second_of
from tickwork.core.ledger.messages import Tick
from tickwork.core.ledger.queues import TICKS, TICKS_PER_BATCH
from tickwork.local.windows import Windows
from tickwork.ports import TICKS_QUEUE, InMessage


class _Queue:
    """Hands out what it holds, once."""

    def __init__(self, bodies: list[str]) -> None:
        self.held = {f"receipt-{n}": body for n, body in enumerate(bodies)}
        self.hidden: list[str] = []

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        assert (queue, limit, hide_s) == (TICKS_QUEUE, TICKS_PER_BATCH, TICKS.visibility_s)
        return [InMessage(receipt, body) for receipt, body in self.held.items()][:limit]

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        self.hidden.append(receipt)

    def delete(self, queue: str, receipt: str) -> None:
        del self.held[receipt]


def test_ticks_that_are_done_are_deleted_and_the_others_are_kept() -> None:
    now = second_of(NOW_MS)
    queue = _Queue(["[" * 100_000, Tick("main", 0, now).to_json(), Tick("main", 1, now + 60).to_json()])
    Windows(dataclasses.replace(fake_ports(), receiver=queue)).serve_ticks()
    assert queue.held == {"receipt-2": Tick("main", 1, now + 60).to_json()}
    assert queue.hidden == ["receipt-2"]


def test_no_ticks_are_no_work() -> None:
    ports = dataclasses.replace(fake_ports(), receiver=_Queue([]))
    Windows(ports).serve_ticks()
    assert not ports.signals.counts  # type: ignore[attr-defined]
