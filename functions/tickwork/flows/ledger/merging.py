"""Lists that lie in several partitions: read page by page, as far as they are asked for, and no further than a bound.

Owns the bound of a list's cost, and the merge. A partition is a stream of steps in the list's order. One that is read
no further because the bound is reached ends with a step that has no item, and the list stops there: all that comes
before it was looked at, in whatever partition (A11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import Any

from tickwork.core.ledger.writes import Item

READS_MAX = 240
"""Queries for one page of a list: about a second's work. A page may be short, or empty, and still have a cursor. What
is merged is begun whole, so that each page gets on: a minute costs as many queries as there are shards."""

ROWS_MAX = 2_000
"""Rows read for one page of a list, whether they are shown or not: about a megabyte."""

STREAM_ROWS = (8, 100)
"""Rows asked of a partition at once, at least and at most. Where many are merged, few of each are needed."""


@dataclass(slots=True)
class Bound:
    """What a page of a list may still read."""

    reads: int = READS_MAX
    rows: int = ROWS_MAX

    def spend(self, rows: int) -> None:
        self.reads -= 1
        self.rows -= rows

    @property
    def is_reached(self) -> bool:
        return self.reads <= 0 or self.rows <= 0


@dataclass(frozen=True, slots=True)
class Step[P]:
    """One step along a list: where it is, and the item there. None: the list was read no further than this."""

    order: tuple[Any, ...]
    place: P
    item: Item | None


@dataclass(frozen=True, slots=True)
class Shown[P, S]:
    """A page: what is shown, and the place to go on after (None: the list is at its end). `bounded`: it was stopped
    by its bound, and not because it was full."""

    found: list[S]
    after: P | None = None
    bounded: bool = False


def merged[P](streams: Sequence[Iterator[Step[P]]], *, descending: bool) -> Iterator[Step[P]]:
    """One stream of several, each in the order of its steps."""
    for step in merge(*streams, key=lambda step: step.order, reverse=descending):
        yield step
        if step.item is None:
            return


def page_of[P, S](
    stream: Iterator[Step[P]], show: Callable[[Sequence[Item]], list[S]], *, limit: int, bound: Bound
) -> Shown[P, S]:
    """As much of a stream as makes a page, or as the bound allows. `show` turns items into what is shown of them, and
    leaves out what is not wanted."""
    found: list[S] = []
    after: P | None = None
    while len(found) < limit and not bound.is_reached:
        steps = list(islice(stream, limit - len(found)))
        if not steps:
            return Shown(found)
        after = steps[-1].place
        found += show([step.item for step in steps if step.item is not None])
        if steps[-1].item is None:
            return Shown(found, after, bounded=True)
    if len(found) < limit:
        return Shown(found, after, bounded=True)
    is_last = next(stream, None) is None
    return Shown(found, None if is_last else after)


def rows_of_each(limit: int, streams: int) -> int:
    """How many rows to ask of each of so many streams for a page: enough with luck, and never much too many."""
    least, most = STREAM_ROWS
    return min(most, max(least, 2 * limit // max(1, streams) + 1))
