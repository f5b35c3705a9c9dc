"""How fast a scanner fires: the real window on real boto3 clients, beside a bare loop of the same boto3 calls.

`make bench-scan`. The answers are recorded (benchmarks/replay.py), so each side pays for boto3, and the difference is
our own code. The bare loop is run with boto3 as it comes, and with our own clients, which leave out what costs
most (the checking of parameters, the copying of answers). CPU time, median of several rounds, the sides taking turns.
"""

from __future__ import annotations

import argparse
import cProfile
import logging
import os
import pstats
import statistics
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
from tests.support.fakes import FakeClock

from benchmarks.replay import RecordingSender, RecordingStore, Tape
from benchmarks.world import BEGIN_MS, Counter20, Queues
from tickwork.aws.sqs import SqsSender
from tickwork.core.instants import iso, second_of
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.jobs import registering
from tickwork.flows.runs import timers
from tickwork.ports import Layout, Ports, Signals
from tickwork.store.dynamodb import DynamoStore
from tickwork.testing.memory import MemoryStore

LAYOUT = Layout(shards=64, slices=8)
WORK = Work("default", "send-reminder", payload='{"order_id":"5f0c2f2e-9a55-4d53-8f0a-2f9e6b1f2c11","kind":"reminder"}')
PREFIX = "tickwork-bench"
DUE_MS = BEGIN_MS + 3_600_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timers", type=int, default=16_000)
    parser.add_argument("--jobs", type=int, default=6_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--profile", choices=["one-shots", "recurring"])
    chosen = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench", "AWS_DEFAULT_REGION": "us-east-1"}
    sides = (("one-shots", fill_one_shots, chosen.timers), ("recurring", fill_jobs, chosen.jobs))
    if not chosen.profile:
        print(
            "| what | fired | calls | window: fired per CPU-second | bare loop, boto3 as it comes | window / that "
            "| bare loop, our clients | window / that |"
        )
        print("|---|---|---|---|---|---|---|---|")
    for name, fill, count in sides:
        if chosen.profile in (None, name):
            bench = Bench(fill, count)
            if chosen.profile:
                bench.profile()
            else:
                bench.compare(name, chosen.rounds)


class Bench:
    """One slice with everything due in one second; the tape of its window."""

    def __init__(self, fill: Callable[[Ports, int], None], count: int) -> None:
        from tickwork.aws import wiring

        self._dynamodb, self._sqs = wiring.dynamodb_client(), wiring.sqs_client()
        self._tape = Tape()
        self._tape.attach(self._dynamodb)
        self._tape.attach(self._sqs)
        memory = MemoryStore()
        plain = Ports(FakeClock(), memory, Queues(FakeClock()), quiet_signals(), Counter20(), LAYOUT)
        run_window(plain, 0, second_of(BEGIN_MS))
        fill(plain, count)
        self.due = sum(1 for item in memory.items(timers.TIMERS) if int(item["pk"].split("#")[1]) % LAYOUT.slices == 0)
        plain = replace(plain, clock=FakeClock(DUE_MS - 1_000))
        run_window(plain, 0, second_of(DUE_MS - 1_000))
        self._record(memory)

    def _ports(self) -> Ports:
        store = DynamoStore(self._dynamodb, PREFIX, Counter20().unique)
        sender = SqsSender(self._sqs, PREFIX, sends_at_once=1)  # answers are taped in order
        return Ports(FakeClock(DUE_MS), store, sender, quiet_signals(), Counter20(), LAYOUT)

    def _record(self, memory: MemoryStore) -> None:
        ports = self._ports()
        store = RecordingStore(memory, ports.store, self._tape)  # type: ignore[arg-type]
        sender = RecordingSender(ports.sender, self._tape, set())  # type: ignore[arg-type]
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            report = run_window(replace(ports, store=store, sender=sender), 0, second_of(DUE_MS))
        assert self._tape.calls
        assert (report.outcome, report.sent) == ("served", self.due), (report, self.due)

    def window(self) -> float:
        """CPU seconds of one real window."""
        self._tape.rewind()
        ports = self._ports()
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):  # metrics are lines on stdout
            began = time.process_time()
            report = run_window(ports, 0, second_of(DUE_MS), budget_ms=60_000)
            took = time.process_time() - began
        assert report.sent == self.due
        assert self._tape.is_at_end
        return took

    def bare(self, clients: dict[str, Any]) -> float:
        """CPU seconds of the same calls with the same parameters, and nothing around them."""
        self._tape.rewind()
        calls = [(getattr(clients[s], _snake(name)), params) for s, name, params in self._tape.calls]
        began = time.process_time()
        for method, params in calls:
            method(**params)
        return time.process_time() - began

    def compare(self, name: str, rounds: int) -> None:
        plain = {service: boto3.client(service) for service in ("dynamodb", "sqs")}
        for client in plain.values():
            self._tape.attach(client)
        ours = {"dynamodb": self._dynamodb, "sqs": self._sqs}
        times = [(self.window(), self.bare(plain), self.bare(ours)) for _ in range(rounds)]
        window, bare, tuned = (self.due / statistics.median(side) for side in zip(*times, strict=True))
        of_bare = statistics.median(b / w for w, b, _ in times)
        of_tuned = statistics.median(t / w for w, _, t in times)
        print(
            f"| {name} | {self.due} | {len(self._tape.calls)} | {window:,.0f} | {bare:,.0f} | {of_bare:.0%} "
            f"| {tuned:,.0f} | {of_tuned:.0%} |"
        )

    def profile(self) -> None:
        self._tape.rewind()
        profiler = cProfile.Profile()
        ports = self._ports()
        with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
            profiler.enable()
            run_window(ports, 0, second_of(DUE_MS), budget_ms=60_000)
            profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
        pstats.Stats(profiler).sort_stats("cumtime").print_stats("tickwork|powertools")


def quiet_signals() -> Signals:
    """The signals of the scanner Lambda, their lines thrown away."""
    from tickwork.aws.signals import PowertoolsSignals

    signals = PowertoolsSignals("scanner", "bench")
    signals.logger.setLevel(logging.CRITICAL)
    return signals


def fill_one_shots(ports: Ports, count: int) -> None:
    new = [timers.NewTimer("payments", DUE_MS, WORK) for _ in range(count)]
    for begin in range(0, count, 100):
        timers.create_timers(ports, new[begin : begin + 100])


def fill_jobs(ports: Ports, count: int) -> None:
    spec = parse_schedule({"rate": "1h", "anchor": iso(DUE_MS)}, now_ms=BEGIN_MS).spec
    for i in range(count):
        new = registering.NewJob("payments", f"nightly-settlement-{i:05d}", spec, WORK, 0, CatchUp(), "f" * 32)
        registering.create_job(ports, new)


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:]


if __name__ == "__main__":
    main()
