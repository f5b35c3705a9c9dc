"""Committing with patience: contention, throttles and lost replies are tried again, a refusal is an answer.

A repeated write may be refused by our own first success; every caller looks at the refusing item before it
concludes that somebody else was there (design 3, "our own retries").
"""

from __future__ import annotations

from tickwork.core.errors import Conflict, InvariantViolated, OutcomeUnknown, Throttled
from tickwork.core.ledger.writes import Committed, Refused, Write
from tickwork.ports import Ports

COMMIT_TRIES_MAX = 5
"""Beyond what the client library retries itself. With the pauses below, about three seconds."""

_FIRST_PAUSE_MS = 100


def pause_ms(tries: int) -> int:
    """The pause after the n-th try (1, 2, ...): doubling from 100 ms."""
    return _FIRST_PAUSE_MS << (tries - 1)


def commit(ports: Ports, *writes: Write) -> Committed | Refused:
    """One conditional write, or several as a transaction. Raises the last WorldError when patience is over."""
    for tries in range(1, COMMIT_TRIES_MAX + 1):
        try:
            return ports.store.commit(writes)
        except (Conflict, OutcomeUnknown, Throttled) as error:
            ports.signals.count("store.commit_retried_total", error=type(error).__name__)
            if isinstance(error, Throttled):
                ports.signals.count("store.throttled_total")
            if tries == COMMIT_TRIES_MAX:
                raise
            ports.clock.sleep_ms(pause_ms(tries))
    raise InvariantViolated("unreachable: the last try either returns or raises")
