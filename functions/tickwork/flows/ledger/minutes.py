"""The ledger minute by minute, forwards or backwards in time, all shards of a minute merged.

A spot is where an item lies: minute, sort key, shard, which is a total order. Nothing moves in it, so a list that goes
on after a spot shows each item once, whatever is added, started or cancelled meanwhile (A11). A team's items are looked
for second by second where a minute is crowded by others: it is not slowed by whoever has thousands in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tickwork.core.ledger.keys import BUCKET_S, bucket_of, partition_of, second_in, second_range
from tickwork.core.ledger.tables import TIMERS
from tickwork.flows.ledger.merging import STREAM_ROWS, Bound, Step, merged, rows_of_each
from tickwork.ports import Page, Ports

PAGE_GROWTH = 4
"""How much more is asked of a shard with each further page: it has more than one could hope for."""

CROWDED_PER_S = 4
"""Items of others in a second of a shard from which on a query for a team's own is cheaper than reading past them."""


@dataclass(frozen=True, slots=True)
class Spot:
    """Where an item of the ledger lies; with a bare sort key, the beginning or end of a minute. `shard`: counted
    through the cells, the home cell's first."""

    bucket: int
    shard: int
    sk: str

    @property
    def second(self) -> int:
        """The second it lies in, or at whose edge."""
        return second_in(self.sk)


@dataclass(frozen=True, slots=True)
class Span:
    """The seconds to read, both included, after a spot, of every team or of one."""

    first: int
    last: int
    descending: bool
    after: Spot | None = None
    team: str = ""
    limit: int = 100
    """How many a page of the list shows: what is read at once goes by it."""


def read_minutes(ports: Ports, span: Span, bound: Bound) -> Iterator[Step[Spot]]:
    """The items of a span in order. Ends with a step without item where the bound was reached."""
    first, last = bucket_of(span.first), bucket_of(span.last)
    if span.after is not None:
        passed = span.after.bucket
        first, last = (first, min(last, passed)) if span.descending else (max(first, passed), last)
    buckets = range(last, first - 1, -1) if span.descending else range(first, last + 1)
    for bucket in buckets:
        if bound.is_reached:
            yield Step((bucket,), edge(bucket, span.descending), None)
            return
        for step in _minute(ports, span, bucket, bound):
            yield step
            if step.item is None:
                return


def edge(bucket: int, descending: bool) -> Spot:
    """Before everything in a minute, in the direction of the list."""
    begin = bucket * BUCKET_S
    low, high = second_range(begin, begin + BUCKET_S - 1)
    return Spot(bucket, 0, high if descending else low)


def _minute(ports: Ports, span: Span, bucket: int, bound: Bound) -> Iterator[Step[Spot]]:
    shards = range(sum(max(shape.shards, shape.shards_before) for shape in ports.layout.shapes))
    rows = rows_of_each(span.limit, len(shards))
    streams = [_shard(ports, span, Spot(bucket, shard, ""), rows, bound) for shard in shards]
    return merged(streams, descending=span.descending)


def _shard(ports: Ports, span: Span, at: Spot, rows: int, bound: Bound) -> Iterator[Step[Spot]]:
    """What a shard has in a minute."""
    partition = _partition(ports, at)
    begin = at.bucket * BUCKET_S
    low, high = second_range(max(span.first, begin), min(span.last, begin + BUCKET_S - 1))
    passed = span.after if span.after is not None and span.after.bucket == at.bucket else None
    if passed is not None:
        low, high = (low, min(high, passed.sk)) if span.descending else (max(low, passed.sk), high)
    after: str | None = None
    while low <= high:
        page = ports.store.query(TIMERS, partition, low, high, limit=rows, after=after, descending=span.descending)
        bound.spend(_rows_read(page, rows))
        for item in page.items:
            spot = Spot(at.bucket, at.shard, str(item["sk"]))
            if not _is_passed(spot, span, passed):
                yield Step((spot.sk, spot.shard), spot, item)
        if page.more is None:
            return
        if bound.is_reached:
            spot = Spot(at.bucket, at.shard, _said_of(page.more, span.team))
            yield Step((spot.sk, spot.shard), spot, None)
            return
        if span.team and _is_crowded(page, span.team, after or (high if span.descending else low), rows):
            low, high = (low, page.more) if span.descending else (page.more, high)
            yield from _own_seconds(ports, span, at, (low, high), bound)
            return
        after = page.more
        rows = min(rows * PAGE_GROWTH, STREAM_ROWS[1])


def _partition(ports: Ports, at: Spot) -> str:
    shard = at.shard
    for shape in ports.layout.shapes:
        count = max(shape.shards, shape.shards_before)
        if shard < count:
            return partition_of(shape.name, shard, at.bucket)
        shard -= count
    return partition_of(ports.layout.home, at.shard, at.bucket)  # no such shard (any more): nothing is found there


def _said_of(sk: str, team: str) -> str:
    """Where a team's list goes on after an item that may be another's, of which a cursor is not to tell: at that end of
    the team's own part of the second which lies towards it, so that nothing of its own comes twice or never."""
    own = f"{second_in(sk):010d}#{team}#"
    if not team or sk.startswith(own):
        return sk
    return own if sk < own else f"{own}~"


def _is_passed(spot: Spot, span: Span, passed: Spot | None) -> bool:
    if passed is None:
        return False
    order, reached = (spot.sk, spot.shard), (passed.sk, passed.shard)
    return order >= reached if span.descending else order <= reached


def _rows_read(page: Page, asked: int) -> int:
    """What a page costs: behind a team's wall the items of others were read too, and are not in it."""
    return len(page.items) if page.more is None else max(asked, len(page.items))


def _is_crowded(page: Page, team: str, start: str, asked: int) -> bool:
    """Whether a page that is not the last has nothing of a team, and so many of each second that its own are better
    asked for alone. `start`: the sort key from which it was read, by which one knows how far it came if it is empty."""
    keys = [str(item["sk"]) for item in page.items]
    if page.more is None or any(f"#{team}#" in key for key in keys):
        return False
    first, last = (keys[0], keys[-1]) if keys else (start, page.more)
    return _rows_read(page, asked) >= CROWDED_PER_S * (abs(second_in(first) - second_in(last)) + 1)


def _own_seconds(ports: Ports, span: Span, at: Spot, left: tuple[str, str], bound: Bound) -> Iterator[Step[Spot]]:
    """A team's own items in what is left of a minute: each second's part of it, and nothing of the others'."""
    partition = _partition(ports, at)
    seconds = range(second_in(left[0]), second_in(left[1]) + 1)
    for second in reversed(seconds) if span.descending else seconds:
        low, high = max(left[0], f"{second:010d}#{span.team}#"), min(left[1], f"{second:010d}#{span.team}#~")
        after: str | None = None
        while low <= high:
            page = ports.store.query(
                TIMERS, partition, low, high, limit=STREAM_ROWS[1], after=after, descending=span.descending
            )
            bound.spend(len(page.items))
            for item in page.items:
                spot = Spot(at.bucket, at.shard, str(item["sk"]))
                yield Step((spot.sk, spot.shard), spot, item)
            after = page.more
            if bound.is_reached:
                edge_sk = after or (low if span.descending else high)
                yield Step((edge_sk, at.shard), Spot(at.bucket, at.shard, edge_sk), None)
                return
            if after is None:
                break
