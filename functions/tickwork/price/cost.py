"""What a month of a load costs, all in: requests, functions, queues, ledger, history, logs, alarms.

Owns how much of what a run, a window, a call and an idle minute use. The amounts of ledger and queues are those that
the meter counts on the real flows (tests hold them to it); durations and bytes of log lines are assumed, and named so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp
from typing import Final

from tickwork.price.loads import DAYS, MONTH_S, Load, Settings
from tickwork.price.prices import usd

WRITES, READS, SQS = "dynamodb_write_units", "dynamodb_read_units", "sqs_requests"

ONE_SHOT: Final = {WRITES: 3.0}
"""Create, start, complete."""
OCCURRENCE: Final = {WRITES: 8.06, READS: 1.0}
"""The next item (2) and its index, the job (2), start, complete, the job's last outcome; a share of the fence."""
SQS_EACH: Final = 4
"""Send, receive, hide for the lease, delete; shared by those that travel together."""
WINDOW: Final = {WRITES: 2.0, READS: 2.0}
"""The lease twice; and a read for each shard of the slice."""
TICK_SQS: Final = 3
TOGETHER_MAX: Final = 10
"""Ticks that one invocation of the scanner serves, and messages of one request."""

# Assumed, not measured on AWS: durations at the memory of infra/functions.py.
CALL_MS, ENTRY_MS, API_GB = 10, 2, 1.0
SCAN_MS, RUN_MS, SCANNER_GB = 60, 0.15, 1.0
ACCESS_BYTES, WINDOW_BYTES, METRICS_BYTES = 295, 390, 270
"""Lines of the log: of a request, of a window that is told of, of what a scanner or ticker measures; each with the 26
bytes that CloudWatch adds. Lambda's own lines of an invocation that went well are not written."""
WATCHDOG_READS, WATCHDOG_GB_S = 3.5, 0.04
"""Of a pass with nothing due: its place, four partitions of the wheel and the incidents, half a unit each; 80 ms."""
METRICS_IDLE, METRICS_AT_WORK = 1, 2
"""`slowest_slice_lag`, and `fire_lag` where something fires. What goes wrong makes at most four more."""
RUN_BYTES = 800
"""A run's record with its keys and index."""
POLL_S = 20


@dataclass(frozen=True, slots=True)
class Part:
    """One line of a bill: what it is for, and how much of what."""

    name: str
    amounts: Mapping[str, float]

    @property
    def usd(self) -> float:
        return usd(self.amounts)


def bill_of(load: Load, settings: Settings) -> list[Part]:
    """A month's bill, in the order in which a run meets its parts."""
    return [
        Part("API: create", _calls(load.timers, load.create_batch)),
        Part("ledger: writes and reads of runs", _ledger(load)),
        Part("queues: messages of runs", {SQS: SQS_EACH * load.runs / min(load.work_batch, TOGETHER_MAX)}),
        Part("windows: leases, reads, ticks, scanner", _windows(load, settings)),
        Part("API: start and complete", _calls(2 * load.runs, load.work_batch)),
        Part("workers' long polls", {SQS: load.workers * MONTH_S / POLL_S}),
        Part(f"history, {load.history_days} days", _history(load)),
        Part("idle: ticker, keep-alive, reconciler, polling", idle(settings)),
        Part("the watchdog's passes", watchdog()),
        Part("alarms, metrics, secret", standing(settings, METRICS_AT_WORK if load.runs else METRICS_IDLE)),
    ]


def total(bill: list[Part]) -> float:
    return sum(part.usd for part in bill)


def _ledger(load: Load) -> dict[str, float]:
    units: Counter[str] = Counter()
    for each, count in ((ONE_SHOT, load.timers), (OCCURRENCE, load.occurrences)):
        units.update({name: amount * count for name, amount in each.items()})
    return dict(units)


def _calls(entries: float, batch: int) -> dict[str, float]:
    """Calls of the API with so many entries each."""
    calls = entries / batch
    return {
        "http_api_requests": calls,
        "lambda_requests": calls,
        "lambda_gb_s": calls * (CALL_MS + ENTRY_MS * batch) / 1_000 * API_GB,
        "logs_gb": calls * ACCESS_BYTES / 1e9,
    }


def _windows(load: Load, settings: Settings) -> dict[str, float]:
    """Windows in which something is due, when it is spread evenly: few runs have one each, many share them."""
    per_second = load.runs / MONTH_S
    busy = settings.slices * MONTH_S * (1 - exp(-per_second / settings.slices))
    together = min(max(busy / MONTH_S, 1), TOGETHER_MAX)
    invocations = busy / together
    return {
        WRITES: busy * WINDOW[WRITES],
        READS: busy * (WINDOW[READS] + settings.shards / settings.slices),
        SQS: TICK_SQS * busy / together,
        "lambda_requests": invocations,
        "lambda_gb_s": (invocations * SCAN_MS + load.runs * RUN_MS) / 1_000 * SCANNER_GB,
        "logs_gb": (invocations * METRICS_BYTES + busy * WINDOW_BYTES / settings.log_one_in) / 1e9,
    }


def _history(load: Load) -> dict[str, float]:
    gb = load.runs * RUN_BYTES / 1e9 * load.history_days / DAYS
    return {"dynamodb_storage_gb_month": gb, "dynamodb_pitr_gb_month": gb}


def idle(settings: Settings) -> dict[str, float]:
    """What a month uses with nothing due (`make bench-idle`)."""
    minutes, passes = DAYS * 1_440, DAYS * 288
    slices, shards = settings.slices + settings.cell_slices, settings.shards + settings.cell_shards
    clocked, windows = minutes + passes, minutes * slices
    return {
        WRITES: 190_000 * slices,
        READS: 194_000 * shards + 110_000 * slices,
        SQS: 692_000 + 91_000 * slices,
        "scheduler_invocations": clocked,
        "lambda_requests": clocked + windows,
        "lambda_gb_s": minutes * 0.075 + passes * 0.15 + windows * 0.08,
        "logs_gb": clocked * METRICS_BYTES / 1e9,
    }


def watchdog() -> dict[str, float]:
    """What a month of a watchdog uses that watches nothing."""
    minutes = DAYS * 1_440
    return {
        WRITES: minutes,
        READS: minutes * WATCHDOG_READS,
        "scheduler_invocations": minutes,
        "lambda_requests": minutes,
        "lambda_gb_s": minutes * WATCHDOG_GB_S,
        "logs_gb": minutes * METRICS_BYTES / 1e9,
    }


def standing(settings: Settings, metrics: int = METRICS_IDLE) -> dict[str, float]:
    """What is paid for being there, at list prices: an account's first ten alarms and metrics are free."""
    return {
        "cloudwatch_alarm_month": settings.alarms,
        "cloudwatch_metric_month": metrics,
        "secret_month": 1,
    }


def same_around_eventbridge(load: Load) -> list[Part]:
    """EventBridge Scheduler to SQS for as many timers, with the same functions around it: an API that creates the
    schedule, a run record that workers put and complete through it."""
    each = min(load.work_batch, TOGETHER_MAX)
    return [
        Part("API: create", _calls(load.timers, load.create_batch)),
        Part("invocations", {"scheduler_invocations": load.runs}),
        Part("run records", {WRITES: 2 * load.runs}),
        Part("queues: messages of runs", {SQS: (1 + 3 / each) * load.runs}),
        Part("API: start and complete", _calls(2 * load.runs, load.work_batch)),
        Part("workers' long polls", {SQS: load.workers * MONTH_S / POLL_S}),
        Part(f"history, {load.history_days} days", _history(load)),
    ]


def lines(bill: list[Part]) -> Iterator[tuple[str, float]]:
    """(what, dollars) of each part that costs anything."""
    return ((part.name, part.usd) for part in bill if part.usd)
