"""When a failed attempt is repeated: the wait before it, how a herd of waits is spread, which errors are worth it.

Pure arithmetic on whole numbers, so that no number of attempts overflows. Knows nothing of items and stores.
"""

from __future__ import annotations

import math

from tickwork.core.ids import stable_hash
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.work import RetryPolicy

RETRY_AFTER_S_MAX = 86_400
"""A `Retry-After` is somebody else's word: it is honoured up to a day, the longest cap a policy may have."""

_DOUBLINGS_MAX = 40
"""Beyond this every allowed cap has been reached, however small the base."""


def backoff_ms(run_id: str, attempt: int, policy: RetryPolicy, since: int = 0) -> int:
    """`min(base * 2^attempt, cap) * uniform(1 - jitter, 1 + jitter)` (spec W5: jitter 0.2).

    The exponent counts from `since`, the attempts before the last replay. The draw is a hash of the run and the
    attempt: the same retry is always as late, and a herd of failures is spread.
    """
    doublings = min(max(attempt - since, 0), _DOUBLINGS_MAX)
    whole_ms = min(policy.base_s << doublings, policy.cap_s) * SECOND_MS
    spread = 10 * policy.jitter_percent
    permille = 1_000 - spread + stable_hash(f"{run_id}|{attempt}") % (2 * spread + 1)
    return whole_ms * permille // 1_000


def asked_wait_ms(run_id: str, attempt: int, policy: RetryPolicy, retry_after_s: int) -> int:
    """A `Retry-After` as a wait: never shorter than asked, spread forward only, at most a day before the spread."""
    whole_ms = min(max(retry_after_s, 0), RETRY_AFTER_S_MAX) * SECOND_MS
    permille = 1_000 + stable_hash(f"{run_id}|{attempt}|after") % (10 * policy.jitter_percent + 1)
    return whole_ms * permille // 1_000


def whole_wait_s(asked: object) -> int:
    """A wait that somebody asked for, in whole seconds: rounded up, at most a day; 0 for what is no number."""
    if isinstance(asked, bool) or not isinstance(asked, int | float) or asked != asked:  # NaN is not itself
        return 0
    return math.ceil(max(0, min(asked, RETRY_AFTER_S_MAX)))


def is_worth_repeating(policy: RetryPolicy, error_class: str) -> bool:
    """Whether an error of this class is tried again. One without a class (an older worker) always is."""
    if not error_class:
        return True
    if _names(policy.no_retry_on, error_class):
        return False
    return not policy.retry_on or _names(policy.retry_on, error_class)


def _names(listed: tuple[str, ...], error_class: str) -> bool:
    """Classes are named as `module.Class` or as `Class` alone; a list that says `Class` means any module's."""
    return error_class in listed or error_class.rpartition(".")[2] in listed
