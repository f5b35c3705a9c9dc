"""What is due: from the cursor up to now, minute by minute, so that a long outage moves the cursor as it is worked off.

Within a minute the window reads shard by shard and in key order, and notes its place on the lease as pages are done:
one that dies, or runs out of time in a herd, leaves at most a page to be repeated. Everything that it would pass
unserved is set aside in the write that passes it (cursor-honest).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import batched

from tickwork.core.dispatch import backlog
from tickwork.core.errors import WorldError
from tickwork.core.ledger.keys import BUCKET_S, bucket_of, partition_of, second_range
from tickwork.core.ledger.records import Due, Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch import leasing
from tickwork.flows.dispatch.fired import Fenced
from tickwork.flows.dispatch.firing import read_items
from tickwork.flows.dispatch.serving import PAGE_ITEMS_MAX, Serving
from tickwork.flows.dispatch.sharing import beyond_team, leave_to_team
from tickwork.flows.dispatch.stopwatch import QUERY
from tickwork.flows.ledger.commit import pause_ms
from tickwork.ports import Page

CHAINS_WAITING_MAX = 10_000
"""Occurrences of jobs that wait in memory for the timers of their range: a few hundred bytes each."""

READ_TRIES_MAX = 2
"""Of a page, beyond what the client library repeats itself. Then its shard is set aside, and read again a second
later."""


def serve_live(it: Serving, *, stays: bool) -> bool:
    """From the cursor up to now: after an outage, the last minute of that. False when time was up before. `stays`: the
    lease is kept afterwards, for there is more to do."""
    if backlog.is_outage(it.holding.lease, it.until):
        _open_backlog(it)
    first = it.holding.lease.done + 1
    while first <= it.until:
        lease = it.holding.lease
        last, start = min(it.until, (bucket_of(first) + 1) * BUCKET_S - 1), ""
        if lease.live_until > lease.done:  # a window has come some way into this minute
            last, start = min(last, lease.live_until), lease.live_at
        if not _serve_range(it, first, last, start):
            leasing.give_back(it.ports, it.holding)
            return False
        out_of_time, is_last = it.is_out_of_time(), last == it.until
        covering = is_last and bool(it.holding.lease.late_until)
        release = not (covering or stays or it.shares.waiting) if is_last else out_of_time
        if not it.advance(last, release=release, covering=covering):
            raise Fenced
        if out_of_time and not is_last:
            return False
        first = last + 1
    return True


def _open_backlog(it: Serving) -> None:
    lease = it.holding.lease
    opened = backlog.opened(lease, it.until)
    it.ports.signals.log("backlog_opened", slice=lease.slice, first=opened.late_from, last=opened.late_until)
    if not leasing.open_backlog(it.ports, it.holding, opened):
        raise Fenced


def _serve_range(it: Serving, first: int, last: int, start: str) -> bool:
    """One-shots and retries as they are read, occurrences of jobs behind them: those take a transaction each
    fifty, and a herd of them would keep the timers of the same second waiting. False when time was up before."""
    chains: list[Run] = []
    progress = _Progress(it, last)
    last_shard = max(it.ports.layout.shards_of(it.slice_no), default=0)
    end = backlog.place_of(bucket_of(first), last_shard, backlog.END)
    for items, place in _pages(it, first, last, start):
        progress.note()
        it.watch.lap(QUERY)
        at_once: list[Due] = []
        for item in read_items(it.ports, items, started=True):
            if leave_to_team(it, item.key):
                continue
            if isinstance(item, Run) and item.is_recurring:
                chains.append(item)
            else:
                at_once.append(item)
        it.fire_all(at_once, last)
        if len(chains) > CHAINS_WAITING_MAX:
            if not _fire_chains(it, chains, last, progress):
                return False
            chains = []
        if not chains:
            progress.place = place
        if place != end and it.is_out_of_time() and progress.is_kept:
            if _fire_chains(it, chains, last, progress):
                progress.place = place
            progress.note()
            return False
    it.watch.lap(QUERY)
    return _fire_chains(it, chains, last, progress)


def _fire_chains(it: Serving, chains: list[Run], last: int, progress: _Progress) -> bool:
    """Some at a time, the first of them in any case: a window that is always late must get on too."""
    fired = 0
    for some in batched(chains, PAGE_ITEMS_MAX):
        progress.note()
        it.fire_all(some, last)
        fired += len(some)
        progress.place = backlog.place(some[-1].key)
        if it.is_out_of_time() and fired < len(chains) and progress.is_kept:
            progress.note()
            return False
    return True


class _Progress:
    """The place up to which all of a range has been served. It is noted when there is more to do: a window of one page,
    which most are, pays nothing for it."""

    def __init__(self, it: Serving, last: int) -> None:
        self._it = it
        self._last = last
        self.place = ""
        self.is_kept = not it.ports.layout.shards_before
        """While chains move between shards, a next occurrence may lie before the place: then a minute is one piece."""

    def note(self) -> None:
        place, self.place = self.place, ""
        if not place or not self.is_kept:
            return
        if not self._it.note_place(self._last, place):
            raise Fenced


def _pages(it: Serving, first: int, last: int, start: str) -> Iterator[tuple[list[Item], str]]:
    """What is due from `first` to `last` (within one bucket) in each shard of the slice, beyond a place; each time with
    the place that it goes up to. Small pages of several shards go together: their jobs then share transactions, and
    their messages batches."""
    bucket = bucket_of(first)
    reached = backlog.parse_place(start) if start else (bucket, 0, "")
    gathered: list[Item] = []
    place = start
    for shard in it.ports.layout.shards_of(it.slice_no):
        if shard < reached[1]:
            continue
        after = reached[2] if shard == reached[1] else ""
        for page in _pages_of_shard(it, shard, first, last, after):
            gathered += page.items
            place = backlog.place_of(bucket, shard, backlog.END if page.more is None else page.more)
            if len(gathered) >= PAGE_ITEMS_MAX:
                yield gathered, place
                gathered = []
    if gathered:
        yield gathered, place


def _pages_of_shard(it: Serving, shard: int, first: int, last: int, after: str) -> Iterator[Page]:
    """A shard that cannot be read is set aside whole, and costs the others nothing."""
    if it.is_held_shard(shard):
        it.leave_shard(shard, first, last)
        return
    partition = partition_of(it.ports.layout.cell, shard, bucket_of(first))
    low, high = second_range(first, last)
    if after > high:  # it has come further than this window is to go
        return
    more = after if after > low else None
    tries = 0
    while True:
        try:
            page = it.ports.store.query(TIMERS, partition, low, high, limit=PAGE_ITEMS_MAX, after=more)
        except WorldError as error:
            tries += 1
            if tries >= READ_TRIES_MAX:
                it.leave_shard(shard, first, last, error)
                return
            it.ports.clock.sleep_ms(pause_ms(tries))
            continue
        yield page
        more = page.more
        if more is None:
            return
        more = beyond_team(it, shard, more)
