"""What AWS publishes of its latencies and limits, each with its source, and what had to be assumed.

Read on 2026-11-30 (from stored copies of the pages). Where AWS gives a range, the slow end is taken; where it gives
nothing, the figure says "assumed".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

_P99 = 2.326
"""Standard deviations to the 99th percentile."""


@dataclass(frozen=True, slots=True)
class Latency:
    """A log-normal time in milliseconds, by its median and its 99th percentile; `each_ms` for each item of a batch."""

    median_ms: float
    p99_ms: float
    source: str
    each_ms: float = 0.0

    def draw(self, rng: Random, items: int = 0) -> float:
        median_ms = self.median_ms + self.each_ms * items
        return median_ms * math.exp(math.log(self.p99_ms / self.median_ms) / _P99 * rng.gauss(0.0, 1.0))


_DYNAMODB = "DynamoDB developer guide, on-demand capacity mode: single-digit milliseconds. Its tail is assumed"
_SQS = "5 to 50 calls a second of one thread (SQS FAQ, as quoted by others): 20 to 200 ms a call"

GET = Latency(5, 20, _DYNAMODB)
QUERY = Latency(8, 30, _DYNAMODB)
WRITE = Latency(8, 30, _DYNAMODB)
BATCH_GET = Latency(12, 50, "assumed: nothing is published of batches")
TRANSACTION = Latency(12, 48, "assumed: nothing is published; two rounds, and more for each item", each_ms=0.3)
SQS_CALL = Latency(20, 200, _SQS)
TICK_DELIVERY = Latency(50, 400, "assumed: from visible in the queue to the first line of a warm function")
COLD_START = Latency(
    700, 1_500, "Lambda operator guide, execution environments: under 100 ms to over a second; the slow end"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Service limits as AWS sets them for a new account. Those that slices share shrink with the share of them that is
    simulated. The account's concurrency is a `Deployment`'s; a table's throughput is told, not enforced."""

    write_units: int = 1_000
    """A second, of a partition key. DynamoDB developer guide, best practices for partition keys. Burst and adaptive
    capacity, which lend more for a while, are left out."""
    read_units: int = 3_000
    """The same."""
    in_flight: int = 120_000
    """Messages of a standard queue. SQS developer guide, queue quotas."""
    pollers_first: int = 5
    """Batches at a time when an event source wakes. Lambda developer guide, scaling of SQS event sources."""
    pollers_per_s: float = 5.0
    """300 more a minute, while messages are waiting. The same."""
    pollers_max: int = 1_250
    """The same."""

    def shared(self, share: float) -> Limits:
        """What is left of the limits that all slices share, for a share of the slices."""
        return Limits(
            self.write_units,
            self.read_units,
            round(self.in_flight * share),
            max(1, round(self.pollers_first * share)),
            self.pollers_per_s * share,
            round(self.pollers_max * share),
        )


NOISY_SHARE, NOISY_MIN = 0.1, 30
"""A group of messages with more than this share of what is in flight, and so many, is served behind the others. SQS
developer guide, how fair queues work; the share of the time of processing is left out. A message without a group is a
group of its own. The same."""

ENVIRONMENTS_DEFAULT = 1_000
"""Of all functions of an account at once, unless raised. Lambda developer guide, function scaling. A function adds no
more than as many in ten seconds, which is not enforced."""
TABLE_UNITS_DEFAULT = 40_000
"""Read and write request units a second of an on-demand table, unless raised. DynamoDB developer guide, quotas."""

CLIENT_TRIES, CLIENT_BACKOFF_MS = 2, 1_000
"""botocore's standard mode as our clients have it (aws/wiring): a throttled call is tried again after up to 1 s, and
then is our flows' to handle."""

VCPU_MB = 1_769
"""Memory that comes with a whole vCPU. Lambda developer guide, memory."""
CALL_CPU_MS = 0.65
"""Of one call by our clients: half of boto3 as it comes (`make bench-scan`)."""
ONE_SHOT_CPU_MS, STEP_CPU_MS = 1_000 / 14_778, 1_000 / 3_768
"""Of a one-shot and of an occurrence in a window, all calls included: `make bench-scan`, the slower of the runs that
benchmarks/RESULTS.md names."""
