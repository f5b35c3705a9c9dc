"""Serving what was passed: the backlog of an outage, and what the rows of the slice have set aside.

Both are stretches of seconds, read again place by place (minute, shard, sort key), within a budget, behind what is due.
What fails on the way is set aside in the write that records how far it went. Protects cursor-honest: a step along a
chain may put a next occurrence behind the cursor, so before either is begun, one write covers it up to there; what was
covered is given up only by the write that ends the work. docs/lease-protocol.md goes through the crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby

from tickwork.core.dispatch import backlog, set_aside, slices
from tickwork.core.dispatch.set_aside import SetAside, Who
from tickwork.core.errors import WorldError
from tickwork.core.jobs.scopes import GROUP, TEAM
from tickwork.core.ledger.keys import BUCKET_S, bucket_of, partition_of, second_in, second_range
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch import bounding, leasing
from tickwork.flows.dispatch.fired import Fenced, Firing
from tickwork.flows.dispatch.firing import read_items
from tickwork.flows.dispatch.leasing import Aside
from tickwork.flows.dispatch.serving import PAGE_ITEMS_MAX, Serving, Stretch
from tickwork.flows.dispatch.sharing import is_covered, serve_teams
from tickwork.flows.dispatch.stopwatch import QUERY
from tickwork.ports import Page

FINISHED, STOPPED, FAILED = "finished", "stopped", "failed"
"""How far a stretch was served: to its end, until budget or time was used up, until whom it waits for failed again."""


def serve_backlog(it: Serving, seconds: int, *, stays: bool) -> None:
    """A share of what was missed in an outage. The live advance before has covered it up to the cursor."""
    lease, sent_before = it.holding.lease, it.total.sent
    it.stretch = Stretch(lease.late_from, lease.late_until, lease.late_at, is_backlog=True)
    sent_max = it.total.sent + backlog.budget(it.ports.layout.slice_capacity_per_s, seconds)
    outcome = work_off(it, it.stretch, lambda _: True, it.firing(), sent_max)
    after = replace(it.holding.lease, late_at=max(it.stretch.at, lease.late_at))
    if outcome == FINISHED:
        after = backlog.closed(after)
        it.ports.signals.log("backlog_closed", slice=after.slice, last=lease.late_until)
    it.stretch, it.late = None, it.total.sent - sent_before
    aside = it.aside()
    if not leasing.advance_backlog(it.ports, it.holding, after, release=not stays, aside=aside):
        raise Fenced
    it.was_set_aside(aside)


def has_due_rows(it: Serving) -> bool:
    return bool(_due_rows(it))


def _due_rows(it: Serving) -> list[Who]:
    return sorted(
        who
        for who, row in it.rows.items()
        if row.next_try_s <= it.now_s or who.kind == set_aside.TEAM or it.pauses.is_over(who)
    )


def serve_rows(it: Serving, seconds: int) -> None:
    """The rows whose next try has come: cover, serve, and in one write delete them, or put down how far it went."""
    due = _due_rows(it)
    covered = set_aside.covered(it.rows, due, it.until, moving=bool(it.ports.layout.shards_before))
    others = {who: row for who, row in it.rows.items() if who not in due}
    it.held.difference_update(who for who in due if who not in covered)  # it is tried as part of the row of all
    if covered != {who: it.rows.get(who) for who in covered}:
        _write(it, Aside(it.rows, others | covered), release=False)
    sent_max = it.total.sent + backlog.budget(it.ports.layout.slice_capacity_per_s, seconds)
    after = dict(it.rows)
    teams = {who: row for who, row in covered.items() if who.kind == set_aside.TEAM}
    deadline_ms = it.deadline_ms
    if teams:  # what fails is not to take up the time of those who only wait for their turn, nor they its
        it.deadline_ms = deadline_ms - max(0, deadline_ms - it.ports.clock.monotonic_ms()) // 2
    for who, row in sorted(covered.items(), key=lambda one: (one[1].next_try_s, one[0])):
        if who in teams:
            continue
        if it.total.sent >= sent_max or it.is_out_of_time():
            break
        left, it.total.left = it.total.left, {}
        served = _serve_row(it, row, sent_max)
        for other, extent in left.items():
            it.total.leave_all(other, extent)
        del after[who]
        if served is not None:
            after[who] = served
    it.deadline_ms = deadline_ms
    for who, served in serve_teams(it, teams, bounding.next_try(it)).items() if teams else ():
        del after[who]
        if served is not None:
            after[who] = served
    _write(it, Aside(it.rows, it.taking_in_left(after)), release=True)


def _write(it: Serving, aside: Aside, *, release: bool) -> None:
    lease = it.holding.lease
    after = replace(lease, aside_s=set_aside.earliest(aside.after))
    if not leasing.write_aside(it.ports, it.holding, slices.stays(lease, release=release), after, aside):
        raise Fenced
    it.was_set_aside(aside)


def _serve_row(it: Serving, row: SetAside, sent_max: int) -> SetAside | None:
    """The row as it is to be then; None when all that it covers was served."""
    it.stretch = Stretch(row.begin, row.until, row.place)
    it.stepped.clear()  # what was left in this window is not yet fired
    it.held.discard(row.who)
    firing = replace(it.firing(), pool=set_aside.pool_of(row.who), held=it.held, send_tries_max=1)
    outcome = work_off(it, it.stretch, _wanted(row.who), firing, sent_max, row.who)
    reached, it.stretch = it.stretch.at, None
    if outcome == FINISHED:
        return None
    if outcome == STOPPED:
        return set_aside.served_up_to(row, reached, it.now_s)
    it.held.add(row.who)
    failed = replace(row, place=max(row.place, reached))
    return set_aside.failed_again(set_aside.widened(failed, it.total.left.pop(row.who)), it.now_s)


def _wanted(who: Who) -> Callable[[Item], bool]:
    """Which items a row is about, as far as an item's own attributes say it."""
    if who.kind == set_aside.JOB:
        of_job = f"#{who.name.replace(':', '#', 1)}#"
        return lambda item: str(item["sk"])[10:].startswith(of_job)
    if (scope := set_aside.scope_of(who)) is not None and scope.kind in (TEAM, GROUP):
        of_team, groups = f"#{scope.owner}#", {scope.name} if scope.kind == GROUP else set()
        return lambda item: str(item["sk"])[10:].startswith(of_team) and _may_be_of(item, groups)
    if who.kind == set_aside.JOBS:
        return lambda item: "work" not in item
    return lambda _: True


def _may_be_of(item: Item, groups: set[str]) -> bool:
    """Whether an item bears one of these labels, where any are named. A retry bears none: its run does."""
    return not groups or "run_ref" in item or item.get("group") in groups


def work_off(
    it: Serving,
    stretch: Stretch,
    wanted: Callable[[Item], bool],
    firing: Firing,
    sent_max: int,
    waits_for: Who | None = None,
) -> str:
    """Fire what was passed, place by place, until so many were sent, time is up, or whom it waits for fails again."""
    for bucket, shard in _places(it, stretch, waits_for):
        end = backlog.place_of(bucket, shard, backlog.END)
        first, last = max(stretch.begin, bucket * BUCKET_S), min(stretch.until, (bucket + 1) * BUCKET_S - 1)
        if it.is_held_shard(shard):
            it.leave_shard(shard, first, last)
            stretch.at = end
            continue
        while stretch.at < end:
            if it.total.sent >= sent_max or it.is_out_of_time():
                return STOPPED
            try:
                page = _page(it, stretch, bucket, shard, min(PAGE_ITEMS_MAX, sent_max - it.total.sent))
            except WorldError as error:
                it.leave_shard(shard, first, last, error)
                if waits_for == set_aside.shard(shard):
                    return FAILED
                stretch.at = end
                break
            it.watch.lap(QUERY)
            for items, at in _by_second(page, bucket, shard):
                if it.is_out_of_time():
                    return STOPPED
                before, stretch.at, stretch.next = stretch.at, at, end
                mine = [item for item in items if wanted(item) and not is_covered(it, item)]
                it.fire_all(read_items(it.ports, mine, started=True), it.until, firing)
                if waits_for is not None and waits_for in it.total.left:
                    stretch.at = before
                    return FAILED
                if stretch.next < end:  # put into this minute, which is to be read again from here
                    break
            else:
                stretch.at = end if page.more is None else backlog.place_of(bucket, shard, page.more)
    return FINISHED


def _places(it: Serving, stretch: Stretch, waits_for: Who | None) -> Iterator[tuple[int, int]]:
    """The minutes and shards of a stretch from where it stands, in its order."""
    begin = backlog.parse_place(stretch.at)[:2]
    for bucket in range(begin[0], bucket_of(stretch.until) + 1):
        for shard in it.ports.layout.shards_of(it.slice_no):
            is_other = waits_for is not None and waits_for.kind == set_aside.SHARD and int(waits_for.name) != shard
            if (bucket, shard) >= begin and not is_other:
                yield bucket, shard


def _page(it: Serving, stretch: Stretch, bucket: int, shard: int, limit: int) -> Page:
    """The next items of a minute of a shard."""
    first, last = max(stretch.begin, bucket * BUCKET_S), min(stretch.until, (bucket + 1) * BUCKET_S - 1)
    if first > last:
        return Page(())
    *reached, sk = backlog.parse_place(stretch.at)
    after = str(sk) if reached == [bucket, shard] else ""
    low, high = second_range(first, last)
    if after > high:
        return Page(())
    partition = partition_of(it.ports.layout.cell, shard, bucket)
    return it.ports.store.query(TIMERS, partition, low, high, limit=limit, after=after if after > low else None)


def _by_second(page: Page, bucket: int, shard: int) -> Iterator[tuple[list[Item], str]]:
    """The items of a page second by second, each with the place up to which that goes: the next occurrence of a
    short chain may lie in a later second of the same page."""
    for _, group in groupby(page.items, lambda item: second_in(item["sk"])):
        items = list(group)
        yield items, backlog.place_of(bucket, shard, items[-1]["sk"])
