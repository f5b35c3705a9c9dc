"""Ports for tests: a clock that is set, ids that count, a sender that remembers, signals that are kept."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tickwork.core.ledger.queues import Queue
from tickwork.ports import Layout, OutMessage, Paged, Ports, SendReport, Store
from tickwork.testing.memory import MemoryStore

NOW_MS = 1_793_318_400_000  # 2026-10-30T00:00:00Z


class FakeClock:
    """Stands still until it is moved; sleeping moves it."""

    def __init__(self, now_ms: int = NOW_MS) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic_ms(self) -> int:
        return self.at_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.at_ms += duration_ms


class CountingIds:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def unique(self) -> str:
        return f"{next(self._numbers):020x}"


class RememberingSender:
    """Takes every message, or fails the way a test asks for."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, OutMessage]] = []

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        self.sent += [(queue, message) for message in messages]
        return SendReport()

    def bodies(self, queue: str) -> list[dict[str, Any]]:
        return [json.loads(message.body) for name, message in self.sent if name == queue]


class KeptSignals:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.lines: list[tuple[str, dict[str, object]]] = []

    def count(self, metric: str, n: int = 1, **labels: str) -> None:
        self.counts[metric] += n

    def observe(self, metric: str, value: float, **labels: str) -> None:
        self.counts[metric] += 1

    def log(self, action: str, **facts: object) -> None:
        self.lines.append((action, facts))


class FakeQueues:
    """Queues that were made: by name, with how many messages wait in each."""

    def __init__(self) -> None:
        self.made: dict[str, Queue] = {}
        self.messages: Counter[str] = Counter()

    def make(self, queue: Queue) -> None:
        self.made[queue.name] = queue

    def waiting(self, queue: Queue) -> int:
        return self.messages[queue.name]

    def remove(self, queue: Queue) -> None:
        self.made.pop(queue.name, None)


class FakePager:
    """Pages that were sent; an address is confirmed when it is put among `confirmed`, a topic fails among `broken`."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.confirmed: set[str] = set()
        self.broken: set[str] = set()
        self.asked: list[str] = []
        """Addresses that were mailed, to confirm."""

    def topic_of(self, team: str) -> str:
        return f"env-pager-{team}"

    def page(self, team: str, way: str, address: str, subject: str, text: str, *, asks: bool = True) -> Paged:
        if way == "email" and address not in self.confirmed:
            self.asked += [address] if asks else []
            return Paged("unconfirmed", "it has been asked to confirm")
        if address in self.broken:
            return Paged("failed", "no such topic")
        self.sent.append((address, text))
        return Paged("proven")


def fake_ports(store: Store | None = None, layout: Layout | None = None) -> Ports:
    return Ports(
        clock=FakeClock(),
        store=store or MemoryStore(),
        sender=RememberingSender(),
        signals=KeptSignals(),
        ids=CountingIds(),
        layout=layout or Layout(pools=("default", "payments")),
        queues=FakeQueues(),
        pager=FakePager(),
    )
