"""Smaller pages: the bounds of production, turned down so that a small world goes beyond them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from tickwork.flows.audit import auditing, checking_jobs
from tickwork.flows.dispatch import firing, ticking, windows
from tickwork.flows.runs import taking_slots

_WRITES_MIN = 46
"""A step may record as many skips as `chain.SKIPS_PER_STEP_MAX`, and needs a few writes more: fewer would not fit."""

SIZES: tuple[tuple[ModuleType, str, int], ...] = (
    (windows, "PAGE_ITEMS_MAX", 1),
    (windows, "CHAINS_WAITING_MAX", 2),
    (firing, "TRANSACTION_WRITES_MAX", 0),
    (checking_jobs, "JOBS_PAGE", 1),
    (checking_jobs, "PAGES_PER_PLACE", 1),
    (auditing, "_LEDGER_PAGE", 1),
    (auditing, "OPEN_PAGE", 1),
    (auditing, "BUCKETS_PER_WRITE", 1),
    (ticking, "LOOKAHEAD_ITEMS_MAX", 1),
    (ticking, "SLICES_AT_ONCE", 1),
    (taking_slots, "SLOTS_PAGE", 1),
    (taking_slots, "HOLDERS_READ_MAX", 1),
)
"""Module, bound, and how it goes with the page of a world: this many times, or (0) to the least that works."""


@contextmanager
def turned_down(page: int) -> Iterator[None]:
    """The bounds for a world with pages of `page` items, for the length of the block; 0 leaves them as they are."""
    standing = [(module, name, getattr(module, name)) for module, name, _ in SIZES] if page else []
    for module, name, times in SIZES if page else ():
        setattr(module, name, page * times or _WRITES_MIN)
    try:
        yield
    finally:
        for module, name, value in standing:
            setattr(module, name, value)
