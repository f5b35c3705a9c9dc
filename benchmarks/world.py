"""A service in memory, on a clock that is moved: the real flows over counting ports, and queues that keep messages.

What a worker asks of SQS is billed as the worker process asks it: ten at a time, four calls for the ten.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.support.fakes import FakeClock

from benchmarks.meter import units
from benchmarks.meter.bill import Bill
from benchmarks.meter.ports import CountingSender, CountingStore
from tickwork.core.instants import SECOND_MS, second_of
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.messages import Tick
from tickwork.core.runs.attempts import StartRequest
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.runs import worker_calls
from tickwork.ports import Layout, OutMessage, Ports, SendReport
from tickwork.testing.memory import MemoryStore

BEGIN_MS = 1_793_318_400_000  # 2026-10-30T00:00:00Z
BATCH = 10


class Counter20:
    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def unique(self) -> str:
        return f"{next(self._numbers) * 0x9E3779B97F4A7C15 % 2**80:020x}"


class Queues:
    """Messages by queue, each with the instant it becomes visible."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.waiting: dict[str, list[tuple[int, str]]] = defaultdict(list)

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        now_ms = self._clock.now_ms()
        self.waiting[queue] += [(now_ms + m.delay_s * SECOND_MS, m.body) for m in messages]
        return SendReport()

    def take(self, queue: str) -> list[str]:
        """Everything that is visible."""
        now_ms = self._clock.now_ms()
        visible = [body for at_ms, body in self.waiting[queue] if at_ms <= now_ms]
        self.waiting[queue] = [(at_ms, body) for at_ms, body in self.waiting[queue] if at_ms > now_ms]
        return visible


class LoggedBytes:
    """Signals that only weigh the lines they would log."""

    def __init__(self) -> None:
        self.lines = 0
        self.bytes = 0

    def count(self, metric: str, n: int = 1, **labels: str) -> None:
        pass

    def observe(self, metric: str, value: float, **labels: str) -> None:
        pass

    def log(self, action: str, **facts: object) -> None:
        self.lines += 1
        self.bytes += len(json.dumps({"action": action, **facts}, default=str)) + LINE_OVERHEAD_BYTES


LINE_OVERHEAD_BYTES = 250
"""What Powertools adds to a line (level, location, timestamp, service, request ids), and CloudWatch's 26 a line."""


@dataclass
class World:
    bill: Bill
    clock: FakeClock
    queues: Queues
    signals: LoggedBytes
    ports: Ports

    def windows(self, step: str) -> int:
        """Serve the ticks that are visible now, one window a slice; how many ran. Ticks are billed as the event
        source asks for them: a receive and a delete a batch."""
        latest: dict[int, int] = {}
        for body in self.queues.take("ticks"):
            tick = Tick.from_json(body)
            latest[tick.slice_no] = max(latest.get(tick.slice_no, 0), tick.second)
        for slice_no, second in latest.items():
            self.bill.add("scanner", lambda_requests=1)
            self.bill.add("ReceiveMessage", sqs_requests=1)
            self.bill.add("DeleteMessageBatch", sqs_requests=1)
            with self.bill.step(step):
                report = run_window(self.ports, slice_no, second)
                assert report.outcome in ("served", "already"), report
        return len(latest)

    def scan_all(self, step: str) -> None:
        """One window of each slice, now."""
        with self.bill.step(step):
            for slice_no in range(self.ports.layout.slices):
                run_window(self.ports, slice_no, second_of(self.clock.now_ms()))

    def work(self, end: Callable[[Ports, object, int], object] | None = None, queue: str = "ready-default") -> int:
        """Start and end everything that is visible, as a worker does: batches of ten."""
        end = end or (lambda ports, key, token: worker_calls.complete(ports, key, token))  # type: ignore[arg-type]
        bodies = self.queues.take(queue)
        for begin in range(0, len(bodies), BATCH):
            batch = bodies[begin : begin + BATCH]
            with self.bill.step("start"):
                size = sum(len(body.encode()) for body in batch)
                self.bill.add("ReceiveMessage", sqs_requests=units.sqs_requests(size))
                granted = [started for body in batch if (started := self._start(json.loads(body)))]
                self.bill.add("ChangeMessageVisibilityBatch", sqs_requests=1)
            with self.bill.step("end"):
                for key, token in granted:
                    end(self.ports, key, token)
                self.bill.add("DeleteMessageBatch", sqs_requests=1)
        return len(bodies)

    def _start(self, body: dict[str, object]) -> tuple[object, int] | None:
        retry = parse_ref(str(body["retry_ref"])) if "retry_ref" in body else None
        request = StartRequest(
            parse_ref(str(body["ref"])),
            self.ports.ids.unique() + "000000000000",  # a worker's claim has 32 digits
            "ip-10-0-12-34.ec2.internal-12345-abcdef",
            int(str(body["lease_s"])),
            int(str(body["attempt"])),
            retry,
            int(str(body["dispatched_at_ms"])),
            str(body["dispatched_by"]),
        )
        started = worker_calls.start(self.ports, request)
        return (started.run.key, started.run.token) if isinstance(started, worker_calls.Started) else None


def make_world(layout: Layout) -> World:
    bill, clock = Bill(), FakeClock()
    queues, signals = Queues(clock), LoggedBytes()
    store, sender = CountingStore(MemoryStore(), bill), CountingSender(queues, bill)
    return World(bill, clock, queues, signals, Ports(clock, store, sender, signals, Counter20(), layout))
