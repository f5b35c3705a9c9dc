"""The scenario: what is created, what the deployed service makes of it, and the records that are left.

EventBridge Scheduler -> ticker -> ticks -> event source -> scanner -> ready queue -> worker process -> API. The test
only creates, cancels, waits and reads.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from localstack.deployment import Credentials, Deployment

from tests.e2e.caller import Caller
from tickwork.core.instants import SECOND_MS, iso
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key, slice_key
from tickwork.core.ledger.lifecycle import ENDED
from tickwork.core.ledger.tables import LEASES, TIMERS

TEAM = "e2e"
TIMERS_COUNT = 200
CANCELLED_COUNT = 20
SPAN_S = 120
LEAD_S = 8
"""From creation to the first due second: both batches and the cancellations fit in, with room to spare."""
CANCEL_LEAD_S = 20
"""Those to be cancelled are due later than the rest may be, so that the cancellation surely comes first."""
BATCH = 100
TICKER_WITHIN_S = 150
SETTLES_WITHIN_S = 60

TARGET = {"pool": "default", "handler": "receipt"}
JOBS: tuple[dict[str, Any], ...] = (
    {"name": "every-ten", "schedule": {"rate": "10 seconds"}},
    {"name": "every-fifteen", "schedule": {"rate": "15 seconds"}},
    {"name": "each-minute", "schedule": {"cron": "* * * * *"}, "tolerance_s": 0, "exact_reason": "the test counts"},
)
PERIODS_S = {"every-ten": 10, "every-fifteen": 15, "each-minute": 60}


@dataclass
class Outcome:
    """Everything there is to know afterwards."""

    seed: int
    begun_ms: int
    timers: dict[str, int] = field(default_factory=dict)
    """timer id -> when it was due, in ms; those that were left alone"""
    cancelled: dict[str, int] = field(default_factory=dict)
    runs: list[dict[str, Any]] = field(default_factory=list)
    """what `GET /runs` says"""
    receipts: list[dict[str, Any]] = field(default_factory=list)
    """what the worker's job function saw"""
    ledger: list[LedgerKey] = field(default_factory=list)
    """the keys of the team's items, read past the service"""
    messages_left: dict[str, int] = field(default_factory=dict)
    worker_exit: int | None = None
    took_s: dict[str, float] = field(default_factory=dict)

    def run_of(self, job_id: str) -> list[dict[str, Any]]:
        return [run for run in self.runs if run["job_id"] == job_id]

    def runs_of_jobs(self) -> list[dict[str, Any]]:
        return [run for run in self.runs if "~" not in run["job_id"]]


def play(deployment: Deployment, client: Caller, worker_role: Credentials) -> Outcome:
    outcome = Outcome(seed=random.SystemRandom().randrange(10**6), begun_ms=time.time_ns() // 1_000_000)
    begun = time.monotonic()
    await_ticker(deployment)
    outcome.took_s["until the ticker ran"] = round(time.monotonic() - begun, 1)
    receipts = deployment.work / "receipts.jsonl"
    with deployment.worker(
        worker_role,
        "tests/e2e/worker_app.py:app",
        concurrency=8,
        log=deployment.work / "worker.log",
        environ={"E2E_RECEIPTS": str(receipts)},
    ) as process:
        for job in JOBS:
            client.ok("POST", "/jobs", {"team": TEAM, "target": TARGET, "overlap": "allow", **job})
        create_timers(client, outcome)
        await_end(client, outcome)
        for job in JOBS:
            client.ok("DELETE", f"/jobs/{TEAM}:{job['name']}")
        settle(client, outcome)
    outcome.worker_exit = process.returncode
    outcome.took_s["in all"] = round(time.monotonic() - begun, 1)
    outcome.runs = runs_so_far(client, outcome)
    outcome.receipts = [json.loads(line) for line in receipts.read_text(encoding="utf-8").splitlines()]
    outcome.ledger = list(ledger(deployment))
    outcome.messages_left = {
        queue: depth(deployment, queue) for queue in ("ready-default", "ready-default-dlq", "ticks-dlq")
    }
    return outcome


def await_ticker(deployment: Deployment) -> None:
    """Until EventBridge Scheduler has woken the ticker once: from then on timers have ticks."""
    table, client = f"{deployment.settings.prefix}-{LEASES.name}", deployment.client("dynamodb")
    layout = deployment.settings.layout()
    until = time.monotonic() + TICKER_WITHIN_S
    while time.monotonic() < until:
        keys = [{"slice": {"S": slice_key(layout.cell, number)}} for number in range(layout.slices)]
        found = [client.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item") for key in keys]
        if all(item and int(item["ticked"]["N"]) > time.time() + SPAN_S for item in found):
            return
        time.sleep(1)
    raise AssertionError(f"the schedule did not wake the ticker within {TICKER_WITHIN_S} s")


def create_timers(client: Caller, outcome: Outcome) -> None:
    """Two hundred to fire and twenty to cancel, at random seconds of two minutes."""
    drawn = random.Random(outcome.seed)
    first = int(time.time()) + LEAD_S
    kept = [(first + drawn.randrange(SPAN_S), False) for _ in range(TIMERS_COUNT)]
    doomed = [(first + CANCEL_LEAD_S + drawn.randrange(SPAN_S - CANCEL_LEAD_S), True) for _ in range(CANCELLED_COUNT)]
    wanted = kept + doomed
    drawn.shuffle(wanted)
    for begin in range(0, len(wanted), BATCH):
        group = wanted[begin : begin + BATCH]
        body = {"timers": [{"team": TEAM, "target": TARGET, "at": iso(s * SECOND_MS)} for s, _ in group]}
        made = client.ok("POST", "/timers:batch", body)["timers"]
        for (second, is_doomed), timer in zip(group, made, strict=True):
            (outcome.cancelled if is_doomed else outcome.timers)[timer["timer_id"]] = second * SECOND_MS
    answers = client.ok("POST", "/timers:cancel", {"timer_ids": list(outcome.cancelled)})["timers"]
    assert all(answer["cancelled"] for answer in answers), answers


def await_end(client: Caller, outcome: Outcome) -> None:
    """Until every timer has ended, or time is up: then the checks say what is missing."""
    last_due_s = max(outcome.timers.values()) / SECOND_MS
    time.sleep(max(0.0, last_due_s - time.time()))
    settle(client, outcome)


def settle(client: Caller, outcome: Outcome) -> None:
    """Until nothing of the team is queued, running or overdue."""
    until = time.monotonic() + SETTLES_WITHIN_S
    while time.monotonic() < until:
        if all(run["status"] in ENDED for run in runs_so_far(client, outcome)):
            return
        time.sleep(1)


def runs_so_far(client: Caller, outcome: Outcome) -> list[dict[str, Any]]:
    since = quote(iso(outcome.begun_ms), safe="")  # a signature covers the query as AWS would write it
    return list(client.pages(f"/runs?team={TEAM}&limit=200&since={since}", "runs"))


def ledger(deployment: Deployment) -> Iterator[LedgerKey]:
    pages = (
        deployment.client("dynamodb")
        .get_paginator("scan")
        .paginate(TableName=f"{deployment.settings.prefix}-{TIMERS.name}")
    )
    for page in pages:
        for item in page["Items"]:
            key = parse_ledger_key(item["pk"]["S"], item["sk"]["S"])
            if key.team == TEAM:
                yield key


def depth(deployment: Deployment, queue: str) -> int:
    """Messages of a queue in every state."""
    sqs = deployment.client("sqs")
    url = sqs.get_queue_url(QueueName=f"{deployment.settings.prefix}-{queue}")["QueueUrl"]
    names = ["", "NotVisible", "Delayed"]
    wanted = [f"ApproximateNumberOfMessages{name}" for name in names]
    found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted)["Attributes"]
    return sum(int(found[name]) for name in wanted)
