"""The deployed local stack under load: creating timers, waiting for their end, and collecting the records.

Nothing is asked of the emulator while a load drains: the workers' own notes say when all have been called.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from localstack.deployment import Deployment

from benchmarks.lag import cpu
from benchmarks.lag.stages import Facts
from tickwork.client import ApiClient, ApiUnreachable
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.flows.runs.timers import timer_place
from tickwork.local.endpoint import Endpoint
from tickwork.store.attributes import from_attributes

BATCH = 100
CREATING_AT_ONCE = 8
NOTES_LOOK_S = 0.5
LEDGER_LOOKS_MAX = 10
LEDGER_LOOK_S = 2.0
WORKER_SLOTS = 64
TIMER = {"team": "bench", "target": {"pool": "default", "handler": "noop"}}


@dataclass
class Created:
    """What the API has accepted, what it did not answer for, and how long before its time the latest was answered."""

    keys: list[LedgerKey] = field(default_factory=list)
    refused: int = 0
    margin_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class Order:
    """`count` timers, all due in `second`, to be created at `at_s`."""

    at_s: float
    second: int
    count: int


def steady_orders(rate: int, seconds: int, first: int, lead_s: int, drawn: random.Random) -> list[Order]:
    """`rate` timers for each second from `first`, each second's in calls of up to a hundred, made `lead_s` to
    `lead_s - 1` ahead. Where in a second a call falls is drawn: the ticks that it brings come as late as that."""
    calls = -(-rate // BATCH)
    shares = [rate // calls + (1 if i < rate % calls else 0) for i in range(calls)]
    orders = [
        Order(second - lead_s + drawn.random(), second, share)
        for second in range(first, first + seconds)
        for share in shares
    ]
    return sorted(orders, key=lambda order: order.at_s)


def orders_at_once(counts: Mapping[int, int]) -> list[Order]:
    """So many timers for each second, created as fast as it goes."""
    return [
        Order(0.0, second, min(BATCH, count - begin))
        for second, count in counts.items()
        for begin in range(0, count, BATCH)
    ]


class Stack:
    """The deployed stack and its workers. `log_group` is the scanner's."""

    def __init__(self, deployment: Deployment, endpoint_pid: int, worker_pids: Sequence[int], notes: Path) -> None:
        self._deployment, self._notes = deployment, notes
        self._endpoint_pid, self._worker_pids = endpoint_pid, worker_pids
        self._api = ApiClient(deployment.api_url, auth="iam")

    # --- load -----------------------------------------------------------------------------------------------------

    def create(self, orders: Sequence[Order]) -> Created:
        """Carry out the orders, each at its time; returns when all have been answered."""
        created = Created()
        with ThreadPoolExecutor(CREATING_AT_ONCE) as pool:
            pending: list[tuple[Order, Future[list[LedgerKey]]]] = []
            for order in orders:
                time.sleep(max(0.0, order.at_s - time.time()))
                pending.append((order, pool.submit(self._order, order, created)))
            for order, future in pending:
                try:
                    created.keys += future.result()
                except ApiUnreachable:
                    created.refused += order.count
        return created

    def _order(self, order: Order, created: Created) -> list[LedgerKey]:
        timer = TIMER | {"at": iso(order.second * SECOND_MS)}
        made = self._api.post("/timers:batch", {"timers": [timer] * order.count}, repeat=False)["timers"]
        created.margin_ms = min(created.margin_ms, round((order.second - time.time()) * SECOND_MS))
        return [timer_place(one["timer_id"]) for one in made]

    def wake_ticker(self) -> None:
        """As EventBridge Scheduler does each minute: a fresh stack need not wait for its first."""
        name = f"{self._deployment.settings.prefix}-ticker"
        answer = self._deployment.client("lambda").invoke(FunctionName=name, Payload=b"{}")
        if "FunctionError" in answer:
            raise SystemExit(f"the ticker failed: {answer['Payload'].read()!r}")

    # --- records --------------------------------------------------------------------------------------------------

    def cpu(self) -> cpu.Seconds:
        return cpu.spent(cpu.all_processes(), self._endpoint_pid, self._worker_pids, os.getpid())

    def await_called(self, keys: Sequence[LedgerKey], within_s: float) -> None:
        """Until the workers have called the job of each timer, or time is up."""
        wanted = {Run(key).run_id for key in keys}
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s and wanted - self.notes("called").keys():
            time.sleep(NOTES_LOOK_S)

    def notes(self, what: str) -> dict[str, int]:
        """Run id to when it was first `received` or `called`."""
        found: dict[str, int] = {}
        lines = self._notes.read_text(encoding="utf-8").splitlines() if self._notes.exists() else []
        for note in map(json.loads, lines):
            for run_id in note.get(what, ()):
                found.setdefault(run_id, note["at_ms"])
        return found

    def ended_runs(self, keys: Sequence[LedgerKey]) -> list[Run]:
        """The ledger's records of these timers; looks again while any has not ended (a completion is under way)."""
        wanted, runs = {key.job_id for key in keys}, list[Run]()
        partitions = {str(key.as_item()["pk"]) for key in keys}
        for _ in range(LEDGER_LOOKS_MAX):
            runs = [run for partition in partitions for run in self._runs(partition) if run.key.job_id in wanted]
            if sum(run.ended for run in runs) == len(wanted):
                break
            time.sleep(LEDGER_LOOK_S)
        return runs

    def _runs(self, partition: str) -> Iterator[Run]:
        """The runs of a minute of a shard."""
        pages = (
            self._deployment.client("dynamodb")
            .get_paginator("query")
            .paginate(
                TableName=f"{self._deployment.settings.prefix}-{TIMERS.name}",
                KeyConditionExpression="pk = :pk",
                ExpressionAttributeValues={":pk": {"S": partition}},
            )
        )
        for page in pages:
            for item in map(from_attributes, page["Items"]):
                if not parse_ledger_key(item["pk"], item["sk"]).kind:
                    yield Run.from_item(item)

    def windows(self, since_ms: int) -> dict[str, Facts]:
        """The scanner's log lines `window`, by slice and token."""
        group = f"/aws/lambda/{self._deployment.settings.prefix}-scanner"
        pages = self._deployment.client("logs").get_paginator("filter_log_events")
        lines = [
            json.loads(event["message"])
            for page in pages.paginate(logGroupName=group, startTime=since_ms)
            for event in page["events"]
            if event["message"].startswith("{")
        ]
        return {f"{line['slice']}#{line['token']}": line for line in lines if line.get("action") == "window"}


@contextmanager
def deployed(work: Path, port: int | None, workers: int) -> Iterator[Stack]:
    """MiniStack, the dev environment deployed onto it, its roles enforced, and so many worker processes."""
    with ExitStack() as stack:
        running = stack.enter_context(Endpoint(roles_enforced=True, log=work / "endpoint.log", port=port))
        deployment = Deployment(running.url, work)
        deployment.deploy()
        deployment.repair()
        os.environ.update(deployment.environ(deployment.role_with("client")))
        role, notes = deployment.role_with("worker-default"), work / "notes.jsonl"
        processes = [
            stack.enter_context(
                deployment.worker(
                    role,
                    "benchmarks/lag/worker.py:app",
                    concurrency=WORKER_SLOTS,
                    log=work / f"worker-{number}.log",
                    environ={"LAG_NOTES": str(notes)},
                )
            )
            for number in range(workers)
        ]
        yield Stack(deployment, running.pid, [process.pid for process in processes], notes)
