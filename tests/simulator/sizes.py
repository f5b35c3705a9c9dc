"""Smaller pages: the bounds of production, turned down so that a small world goes beyond them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from tickwork.core.runs import putting_off

WRITES_MIN = 56
"""A step may record as many skips as `chain.SKIPS_PER_STEP_MAX` and those of another minute, which are a dozen of the
most frequent job that is drawn, and needs a few writes more: fewer would not fit. Even, as in production: a plain step
is two writes, and beside them the fence must have room."""

SIZES: dict[str, int] = {
    "PAGE_ITEMS_MAX": 1,
    "CHAINS_WAITING_MAX": 2,
    "PROBE_ITEMS_MAX": 1,
    "FIRED_ITEMS_MAX": 1,
    "TRANSACTION_WRITES_MAX": 0,
    "JOBS_PAGE": 1,
    "PAGES_PER_PLACE": 1,
    "_LEDGER_PAGE": 1,
    "OPEN_PAGE": 1,
    "BUCKETS_PER_WRITE": 1,
    "LOOKAHEAD_ITEMS_MAX": 1,
    "SLICES_AT_ONCE": 1,
    "SLOTS_PAGE": 4,
    "HOLDERS_READ_MAX": 1,
}
"""Bounds of flows by name, and how each goes with the page of a world: so many times, or (0) the least that works."""


LOOK_AGAIN_MS = 50_000
"""Of a start that a freeze has put off: a history lasts some minutes, and a mistaken freeze may be of a century."""


def bounds(name: str) -> list[ModuleType]:
    """The modules of flows that have a bound of this name."""
    flows = [module for path, module in sorted(sys.modules.items()) if path.startswith("tickwork.flows.")]
    return [module for module in flows if hasattr(module, name)]


@contextmanager
def turned_down(page: int, *, herds: bool = False) -> Iterator[None]:
    """The bounds for a world with pages of `page` items, for the length of the block; 0 leaves them as they are.
    `herds`: of jobs, which are to go beyond a transaction."""
    standing = [(putting_off, "LOOK_AGAIN_MS", putting_off.LOOK_AGAIN_MS)]
    putting_off.LOOK_AGAIN_MS = LOOK_AGAIN_MS
    sizes = SIZES if page else {"TRANSACTION_WRITES_MAX": 0} if herds else {}
    for name, times in sizes.items():
        for module in bounds(name):
            standing.append((module, name, getattr(module, name)))
            setattr(module, name, page * times or WRITES_MIN)
    try:
        yield
    finally:
        for module, name, value in standing:
            setattr(module, name, value)
