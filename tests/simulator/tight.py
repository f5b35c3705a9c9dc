"""Worlds in which the bounds of the protocol are tight: what in production takes a pause of ten seconds, a herd of
hundreds or two weeks without workers is met here within minutes.

Only bounds whose value is nobody's promise are turned down, and those that belong together go together. Each set is on
in some seeds, drawn apart from all else.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import ModuleType

from tests.simulator.sizes import bounds
from tickwork.core.audit import passes
from tickwork.core.dispatch import backlog, chain, set_aside, shares, slices
from tickwork.core.instants import SECOND_MS

SHORT_LEASES, SMALL_STEPS, FEW_TRIES = "short_leases", "small_steps", "few_tries"
SOON_LATE, SHORT_DAYS, GATHERED, SHARED = "soon_late", "short_days", "gathered", "shared"
SHARES: dict[str, float] = {
    SHORT_LEASES: 0.3,
    SMALL_STEPS: 0.25,
    FEW_TRIES: 0.25,
    SOON_LATE: 0.4,
    SHORT_DAYS: 0.15,
    GATHERED: 0.25,
    SHARED: 0.3,
}

STEP_WRITES = 20
"""A step records up to two skips and those of another minute, a dozen of the most frequent job, and needs a few writes
more. Even, as in production: a plain step is two writes, and beside them the fence must have room."""
DAY_S = 12
"""A day of the audits, in worlds with short days. The first looks come sooner, in their order."""
AUDIT_EVERY_MS = 25 * SECOND_MS

GATHERS_MS = 1_500
"""How long an event source lets ticks wait for others, so that it hands out several at once."""

type Bound = tuple[ModuleType, str, int]

_OF_CORE: dict[str, tuple[Bound, ...]] = {
    SHORT_LEASES: (
        (slices, "LEASE_TTL_MS", 3_500),
        (slices, "RENEW_AFTER_MS", 300),
    ),
    SMALL_STEPS: (
        (chain, "SKIPS_PER_STEP_MAX", 2),
        (chain, "SKIPS_OF_LAST_STEP_MAX", 15),
        (set_aside, "ROWS_MAX", 2),
    ),
    SHARED: (
        (shares, "ALONE_MS", 0),
        (shares, "LIVE_QUANTUM", 1),
        (shares, "QUANTUM", 1),
    ),
    SOON_LATE: ((backlog, "OPENED_AFTER_S", backlog.LIVE_S + 5),),
    SHORT_DAYS: (
        (passes, "DAY_S", DAY_S),
        (passes, "_SOON_S", 5),
        (passes, "EXPIRES_AFTER_MS", 13 * DAY_S * SECOND_MS),
        (passes, "RETRY_MISSING_AFTER_MS", 20 * SECOND_MS),
    ),
}
_OF_FLOWS: dict[str, dict[str, int]] = {
    SMALL_STEPS: {
        "TRANSACTION_WRITES_MAX": STEP_WRITES,
        "BUCKETS_PER_WRITE": STEP_WRITES // 2,
        "OCCURRENCES_MAX": 1,
        "PIECE": 1,
    },
    FEW_TRIES: {"STEP_TRIES_MAX": 1, "DECIDE_TRIES_MAX": 3, "FAILURES_MAX": 1, "HOLDERS_READ_MAX": 1},
}
_AUDITS = {"audited": DAY_S // 2, "audited_hour": DAY_S * 3 // 4, "audited_day": DAY_S}


def draw_tight(seed: int) -> frozenset[str]:
    """The sets of bounds that are tight in a seed."""
    rng = Random(f"tight {seed}")
    return frozenset(name for name, share in SHARES.items() if rng.random() < share)


def bounds_of(name: str) -> list[Bound]:
    """What is turned down in a set, and to what."""
    of_flows = _OF_FLOWS.get(name, {}).items()
    return [*_OF_CORE.get(name, ()), *((module, bound, value) for bound, value in of_flows for module in bounds(bound))]


@contextmanager
def tightened(sets: frozenset[str]) -> Iterator[None]:
    """The bounds of these sets, for the length of the block."""
    wanted = [bound for name in sorted(sets) for bound in bounds_of(name)]
    standing = [(module, name, getattr(module, name)) for module, name, _ in wanted]
    audits = dict(passes.AUDITS)
    for module, name, value in wanted:
        setattr(module, name, value)
    if SHORT_DAYS in sets:
        passes.AUDITS.update(_AUDITS)
    try:
        yield
    finally:
        passes.AUDITS.update(audits)
        for module, name, value in reversed(standing):
            setattr(module, name, value)
