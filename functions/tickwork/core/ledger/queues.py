"""The queues, as values: what infra creates and what the local endpoint gets.

One place, so that the scanner's timeout, the visibility of a tick and the event source cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass

TICKS_QUEUE = "ticks"

SCANNER_TIMEOUT_S = 11
"""The tick of a scanner that died comes back after this, just when its lease (10 s) has lapsed: its slice is served
again within 12 s (spec F7). An SQS event source demands at least the function's timeout, so that is as short: a
window that needs longer stops in time with its cursor where it honestly is, and its tick comes again at once."""

READY_VISIBILITY_S = 30
AFTER_FUNCTION_S = 30
"""From the end of a function that was cut off until its messages show again: its leases have then lapsed."""
LAMBDA_TIMEOUT_S_MAX = 900
"""Lambda's own bound, and that of a lease."""
PUSHER_TIMEOUT_S = 28
"""Over the 10 s of an exchange, with room for slow names and stores; under the message's visibility, as an event source
demands; and under the pusher's lease, so that no push goes on that another could repeat."""

TICKS_PER_BATCH = 10
"""The most that needs no batching window: a tick is never held back to fill a batch."""

SCANNER_RESERVE_MS = 3_000
"""Of the scanner's time, kept for the writes after the last batch."""

DLQ_RETENTION_S = 14 * 86_400
KEY_REUSED_S = 3_600
"""Where an environment has a key of its own: how long SQS uses a data key before it has another made. Each is a call
that is paid, for every sender and queue; and so long a key that was taken away is still in use."""
LONG_POLL_S = 20


TEAMS_QUEUES = "ready-*_*"
"""The names of the queues of pools that teams make, with their dead-letter queues: a role that makes and deletes them
reaches no other. A pool of the deployment has no `_` in its name (`core/access/pools.py`)."""


@dataclass(frozen=True, slots=True)
class Queue:
    """A standard queue. A message that was received `receives_max` times goes to `<name>-dlq`."""

    name: str
    visibility_s: int
    retention_s: int
    receives_max: int

    @property
    def dlq_name(self) -> str:
        return f"{self.name}-dlq"


TICKS = Queue(TICKS_QUEUE, visibility_s=SCANNER_TIMEOUT_S, retention_s=3_600, receives_max=100)
"""A tick that comes back sets its own delay, so the visibility is only waited for when a scanner died; a tick an hour
old has long been served by others."""


def ready_queue(pool: str) -> str:
    return f"ready-{pool}"


def ready(pool: str, lambda_timeout_s: int | None = None) -> Queue:
    """The ready queue of a pool; `lambda_timeout_s`: of the function that works for it, where it is one.

    A received message stays hidden for half a minute before its run has started; then the lease and heartbeats set it.
    A function is handed a batch and starts its last run when the others have ended, and an event source refuses a
    function that may run longer than its messages are hidden: they are hidden until the function has surely ended.
    Every lost attempt is one receive, every wait for a slot and every worker that met a live claim another, so
    `receives_max` is as many as SQS allows: the ledger decides, not the queue.
    """
    visibility_s = READY_VISIBILITY_S if lambda_timeout_s is None else lambda_timeout_s + AFTER_FUNCTION_S
    return Queue(ready_queue(pool), visibility_s=visibility_s, retention_s=14 * 86_400, receives_max=1_000)


UNHANDLED_S_MIN, UNHANDLED_S_MAX = 5, 300
"""How long a worker hides a message whose handler it lacks: a rollout's new workers get it soon, and the old ones do
not pass it round; at the longest as long as a team would wait for what it has just deployed."""
_DOUBLINGS_MAX = 6
"""Of 5 s: beyond 300 s."""


def unhandled_wait_s(receives: int) -> int:
    """By how often the message was received, whoever received it: twice as long each time."""
    return min(UNHANDLED_S_MAX, UNHANDLED_S_MIN << min(max(receives - 1, 0), _DOUBLINGS_MAX))
