"""Fire lag on this machine: tickwork's real processes (windows, API, worker) on the embedded endpoint.

`make bench-lag`. A steady rate, then a burst due in one second. Read from the ledger afterwards: when each run was due,
dispatched, started and ended, so the stages are those of the records. Nothing is averaged away: p50, p99 and the worst.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tickwork.aws.provision import create_all
from tickwork.aws.wiring import dynamodb_client, sqs_client
from tickwork.client import ApiClient
from tickwork.core.instants import iso
from tickwork.core.keys import LedgerKey, parse_ledger_key
from tickwork.core.records import Run
from tickwork.core.tables import TIMERS
from tickwork.dev import endpoint
from tickwork.dev.endpoint import Endpoint
from tickwork.dev.processes import Child
from tickwork.settings import Settings
from tickwork.store.dynamodb import from_attributes

SETTINGS = Settings(prefix="tickwork-lag", shards=4, slices=2)
BATCH = 100
DRAIN_WITHIN_S = 180


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--lead", type=int, default=250, help="seconds ahead; under 240 creators bring the ticks")
    parser.add_argument("--burst", type=int, default=2_000)
    parser.add_argument("--port", type=int, default=4810)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(Path(folder), chosen.port)
        try:
            machine.start()
            print("| load | runs | ended | stage | p50 s | p99 s | worst s |\n|---|---|---|---|---|---|---|")
            steady = machine.create([i // chosen.rate for i in range(chosen.rate * chosen.seconds)], lead_s=chosen.lead)
            machine.report(f"{chosen.rate}/s for {chosen.seconds} s", steady)
            if chosen.burst:
                burst = machine.create([0] * chosen.burst, lead_s=45)
                machine.report(f"{chosen.burst} in one second", burst)
        finally:
            machine.stop()


class Machine:
    """The endpoint, and tickwork's three processes on it."""

    def __init__(self, folder: Path, port: int, worker: str = "benchmarks/noop_worker.py:app") -> None:
        self._endpoint = Endpoint(
            python=endpoint.default_python(), port=port, state=folder / "aws", log=folder / "endpoint.log"
        )
        self.api = ApiClient(f"http://127.0.0.1:{port + 1}", auth="none")
        environ = endpoint.client_environ(port) | SETTINGS.to_environ() | {"TICKWORK_API_URL": self.api.url}
        os.environ.update(environ)
        self.environ = environ
        commands = {
            "api": ("serve", "api", "--port", str(port + 1)),
            "windows": ("serve", "windows"),
            "worker": ("worker", worker, "--pool", "default", "--concurrency", "64"),
        }
        self._children = {n: Child(n, command, environ, folder / f"{n}.log") for n, command in commands.items()}

    def start(self, only: Sequence[str] = ("api", "windows", "worker")) -> None:
        self._endpoint.start()
        create_all(dynamodb_client(), sqs_client(), SETTINGS)
        self.start_children(*only)
        for _ in range(60):
            try:
                self.api.call("GET", "/health", repeat=False)
                return
            except Exception:  # noqa: BLE001 - it is starting
                time.sleep(0.5)
        raise SystemExit("the API did not start")

    def start_children(self, *names: str) -> None:
        for name in names:
            self._children[name].start()

    def kill_children(self, *names: str) -> None:
        """kill -9, by pid."""
        for name in names:
            process = self._children[name].process
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(10)

    def stop(self) -> None:
        self.kill_children(*self._children)
        self._endpoint.stop()

    def create(
        self, offsets_s: Sequence[int], lead_s: int, handler: str = "noop", *, quiet: bool = False
    ) -> list[LedgerKey]:
        first, began = int(time.time()) + lead_s, time.monotonic()
        target = {"pool": "default", "handler": handler}
        made: list[dict[str, Any]] = []
        for begin in range(0, len(offsets_s), BATCH):
            timers = [
                {"team": "bench", "target": target, "at": iso((first + offset) * 1_000)}
                for offset in offsets_s[begin : begin + BATCH]
            ]
            made += self.api.call("POST", "/timers:batch", {"timers": timers})["timers"]
        took_s = time.monotonic() - began
        if not quiet:
            print(f"| created {len(made)} at {len(made) / took_s:.0f}/s, {lead_s} s ahead | | | | | | |")
        from tickwork.flows.timers import timer_place

        return [timer_place(one["timer_id"]) for one in made]

    def report(self, load: str, keys: list[LedgerKey]) -> None:
        time.sleep(max(0, max(key.fire_second for key in keys) - time.time()))
        runs = self._ended_runs(keys)
        ended = [run for run in runs if run.ended]
        drained_s = max(run.ended_at_ms - run.key.fire_at_ms for run in ended) / 1_000 if ended else 0
        for stage, lags in (
            ("due to dispatched", [run.dispatched_at_ms - run.key.fire_at_ms for run in ended]),
            ("dispatched to started", [run.started_at_ms - run.dispatched_at_ms for run in ended]),
            ("due to started", [run.started_at_ms - run.key.fire_at_ms for run in ended]),
            ("started to ended", [run.ended_at_ms - run.started_at_ms for run in ended]),
        ):
            lags.sort()
            p50, p99 = statistics.median(lags) / 1_000, lags[int(len(lags) * 0.99)] / 1_000
            print(f"| {load} | {len(keys)} | {len(ended)} | {stage} | {p50:.2f} | {p99:.2f} | {lags[-1] / 1_000:.2f} |")
        again = sum(1 for run in ended if run.attempt > 1)
        print(
            f"| {load}: last one ended {drained_s:.1f} s after it was due; {len(keys) - len(ended)} lost, "
            f"{again} attempted again | | | | | | |",
            flush=True,
        )

    def _ended_runs(self, keys: list[LedgerKey]) -> list[Run]:
        wanted, found = {key.job_id for key in keys}, list[Run]()
        deadline_s = time.monotonic() + DRAIN_WITHIN_S
        while time.monotonic() < deadline_s:
            found = [run for run in _ledger() if run.key.job_id in wanted]
            if all(run.ended for run in found):
                break
            time.sleep(3)
        return found


def _ledger() -> list[Run]:
    pages = dynamodb_client().get_paginator("scan").paginate(TableName=f"{SETTINGS.prefix}-{TIMERS.name}")
    items = [from_attributes(item) for page in pages for item in page["Items"]]
    return [Run.from_item(item) for item in items if not parse_ledger_key(item["pk"], item["sk"]).kind]


if __name__ == "__main__":
    main()
