"""`python -m benchmarks.slots`: how long runs wait for a slot, beside first come, first served.

The production flows in virtual time: a resource of ten slots, runs of 20 s, a burst of 300 and then arrivals at random
that load it to 95%. Workers are plenty; a message reaches one after `MESSAGE_MS`, and each call takes `CALL_MS`. First
come, first served is the bare queue of the same arrivals, without any calls. Also counted: what waiting costs.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.fakes import FakeClock, KeptSignals

from benchmarks.meter.bill import READS, SQS, WRITES, Bill
from benchmarks.meter.ports import CountingSender, CountingStore
from benchmarks.percentiles import percentile
from benchmarks.world import BEGIN_MS, Counter20
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.work import Resource, Work
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.flows.dispatch.sending import send_ready
from tickwork.flows.runs import timers, worker_calls
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import Layout, OutMessage, Ports, SendReport
from tickwork.testing.memory import MemoryStore

SLOTS, RUN_S, BURST = 10, 20, 300
MESSAGE_MS, CALL_MS = 100, 20
LEASE_S = 60
ARRIVE, MESSAGE, END = "arrive", "message", "end"


@dataclass
class Events:
    """What is to happen when, in order of time and then of coming. Also the sender: a message sent is an event."""

    clock: FakeClock
    heap: list[tuple[int, int, str, str]] = field(default_factory=list)
    count: int = 0

    def add(self, at_ms: int, kind: str, what: str) -> None:
        self.count += 1
        heapq.heappush(self.heap, (at_ms, self.count, kind, what))

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        for message in messages:
            if queue != "ticks":
                self.add(self.clock.at_ms + message.delay_s * SECOND_MS + MESSAGE_MS, MESSAGE, message.body)
        return SendReport()


class Service:
    """The flows, and workers that start whatever message reaches them."""

    def __init__(self) -> None:
        self.clock, self.bill, self.signals = FakeClock(BEGIN_MS), Bill(), KeptSignals()
        self.events = Events(self.clock)
        store, sender = CountingStore(MemoryStore(), self.bill), CountingSender(self.events, self.bill)
        layout = Layout(shards=1, slices=1)
        self.ports = Ports(self.clock, store, sender, self.signals, Counter20(), layout)
        self.due_ms: dict[str, int] = {}
        self.waits_ms: dict[str, int] = {}
        self.visits: Counter[str] = Counter()

    def run(self, arrivals_ms: Sequence[int]) -> list[int]:
        """The wait of each run, in the order of their starts."""
        for at_ms in arrivals_ms:
            self.events.add(BEGIN_MS + at_ms, ARRIVE, "")
        act = {ARRIVE: self._arrive, MESSAGE: self._start, END: self._end}
        while self.events.heap:
            at_ms, _, kind, what = heapq.heappop(self.events.heap)
            self.clock.at_ms = max(self.clock.at_ms, at_ms)
            act[kind](what)
            if len(self.waits_ms) == len(arrivals_ms):
                break
        return list(self.waits_ms.values())

    def _arrive(self, _: str) -> None:
        work = Work("default", "job", lease_s=LEASE_S, resources=(Resource("db", SLOTS),))
        with self.bill.step("dispatch"):
            (created,) = timers.create_timers(self.ports, [NewTimer("shop", self.clock.at_ms, work)])
            key = created.run.key
            self.due_ms[key.ref] = self.clock.at_ms
            send_ready(self.ports, [ReadyMessage(key, work, 1, self.clock.at_ms, "bench")])

    def _start(self, text: str) -> None:
        body = json.loads(text)
        ref = body["ref"]
        request = StartRequest(parse_ref(ref), self.ports.ids.unique(), "w", LEASE_S, body["attempt"])
        is_first = ref not in self.waits_ms and not self.visits[ref]
        with self.bill.step("first start" if is_first else "later starts"):
            started = worker_calls.start(self.ports, request)
        now_ms = self.clock.at_ms + CALL_MS
        self.visits[ref] += 1
        if not isinstance(started, Declined):
            self.waits_ms[ref] = now_ms - self.due_ms[ref]
            self.events.add(now_ms + RUN_S * SECOND_MS, END, f"{ref}={started.run.token}")
        elif not started.discard:
            later_ms = max(SECOND_MS, -(-started.retry_after_ms // SECOND_MS) * SECOND_MS)
            self.events.add(now_ms + later_ms, MESSAGE, text)

    def _end(self, what: str) -> None:
        ref, _, token = what.rpartition("=")
        with self.bill.step("end"):
            worker_calls.complete(self.ports, parse_ref(ref), int(token))


def arrivals(seed: int, runs: int, load: float) -> list[int]:
    """A burst at once, then at random (exponential gaps), so many in all."""
    draw = random.Random(seed)
    at_s, found = 0.0, [0] * BURST
    while len(found) < runs:
        at_s += draw.expovariate(load * SLOTS / RUN_S)
        found.append(int(at_s * SECOND_MS))
    return found


def first_come_first_served(arrivals_ms: Sequence[int]) -> list[int]:
    free_ms = [0] * SLOTS
    waits = []
    for at_ms in arrivals_ms:
        begin_ms = max(at_ms, heapq.heappop(free_ms))
        heapq.heappush(free_ms, begin_ms + RUN_S * SECOND_MS)
        waits.append(begin_ms - at_ms)
    return waits


def _row(name: str, waits_ms: Sequence[int]) -> str:
    figures = [percentile(waits_ms, percent) / SECOND_MS for percent in (50, 99, 100)]
    return f"| {name} | " + " | ".join(f"{figure:,.0f}" for figure in figures) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=6_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--load", type=float, default=0.95)
    options = parser.parse_args()
    at_ms = arrivals(options.seed, options.runs, options.load)
    service = Service()
    ours, fair = service.run(at_ms), first_come_first_served(at_ms)
    print(f"{len(ours)} of {options.runs} runs started, load {options.load}")
    print("| waiting for a slot, s | p50 | p99 | longest |\n|---|---|---|---|")
    print(_row("first come, first served", fair))
    print(_row("tickwork", ours))
    print(f"longest: {max(ours) / max(fair):.2f} times that of first come, first served")
    _print_costs(service, len(ours))


def _print_costs(service: Service, runs: int) -> None:
    waited = sum(1 for visits in service.visits.values() if visits > 1)
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    for step, amounts in service.bill.by_step.items():
        totals[step].update(amounts)
    print(f"{waited} runs waited; {sum(service.visits.values()) / runs:.1f} starts asked for a run")
    print("| a run pays on average | write units | read units | SQS requests |\n|---|---|---|---|")
    for step in ("dispatch", "first start", "later starts", "end"):
        per_run = [totals[step][name] / runs for name in (WRITES, READS, SQS)]
        print(f"| {step} | " + " | ".join(f"{amount:.2f}" for amount in per_run) + " |")


if __name__ == "__main__":
    main()
