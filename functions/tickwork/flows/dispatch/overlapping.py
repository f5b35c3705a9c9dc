"""Reading who holds a job whose runs may not overlap, when its next one is due.

The runs that it names, and those that it has passed and nobody has put down: strongly, after the job was read, and all
jobs of a window in one read. What is decided of them is written on condition that the job is as it was read
(core/jobs/overlap). What cannot be read is left, and costs its own job only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tickwork.core.errors import WorldError
from tickwork.core.instants import LATEST_INSTANT_MS
from tickwork.core.jobs import overlap
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.overlap import HOLDERS_MAX, Holder, Holding
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

LOOKED_THROUGH_MAX = 2_000
"""Occurrences that are looked through after `allow`, the newest ones. A run that is older than so many is not waited
for: a job of every minute would have to have left it for a day and a half."""
_PAGE = 500

INDEX_BEHIND_MS = 60_000
"""The index is behind by less than a second as a rule. While it does not show what was fired within a minute, it is."""


@dataclass(frozen=True, slots=True)
class Unheard:
    """Who holds a job could not be read."""

    error: WorldError | Unreadable


def holdings(ports: Ports, jobs: Iterable[Job]) -> dict[str, Holding | Unheard]:
    """Who holds each of the jobs whose runs may not overlap, by id. Most have one holder, and cost a read unit."""
    named: dict[str, tuple[Holder, ...]] = {}
    found: dict[str, Holding | Unheard] = {}
    strict = {job.job_id: job for job in jobs if not job.may_overlap}
    for job in strict.values():
        try:
            found_too = {one.key: one for one in (*_passed_unseen(ports, job), *job.holders)}  # some are both
            named[job.job_id] = tuple(found_too.values())
        except (WorldError, Unreadable) as error:
            found[job.job_id] = Unheard(error)
    try:
        items = _items(ports, [holder for some in named.values() for holder in some])
    except WorldError as error:
        return found | {job_id: Unheard(error) for job_id in named}
    for job_id, holders in named.items():
        try:
            found[job_id] = _holding(ports, holders, items)
        except Unreadable as error:
            found[job_id] = Unheard(error)
    return found


def holding_of(ports: Ports, job: Job) -> Holding | None:
    """Who holds one job; None where its runs may overlap. Raises what keeps it from being read."""
    found = holdings(ports, [job]).get(job.job_id)
    if isinstance(found, Unheard):
        raise found.error
    return found


@dataclass(frozen=True, slots=True)
class Unended:
    """The runs of a job that hold it. `is_bounded`: only the newest of those it has passed were looked through."""

    holding: Holding
    is_bounded: bool


def unended_of(ports: Ports, job: Job) -> Unended:
    """Who holds a job whose runs may not overlap, and whether that is all who might. Raises what keeps it from being
    read."""
    passed = _passed_unseen(ports, job)
    holders = (*job.holders, *passed)
    return Unended(_holding(ports, holders, _items(ports, holders)), len(passed) >= LOOKED_THROUGH_MAX)


def named_live(ports: Ports, job: Job) -> tuple[Holder, ...]:
    """Of the runs that a job names, those that have not ended."""
    return _holding(ports, job.holders, _items(ports, job.holders)).holders


def is_overtaking(job: Job, run: Run, holding: Holding | None) -> bool:
    """Whether one waits that nothing holds up any more: it goes first, and the one that is due is looked at then."""
    is_free = job.buffer is not None and (holding is None or holding.by is None)
    return is_free and run.key.scheduled_at_ms > job.fired_through_ms


def _items(ports: Ports, holders: Sequence[Holder]) -> dict[Holder, Item | None]:
    """By holder its item. One run may be named twice, as a job knows it and as the index shows it: with and without
    its replays."""
    keys = list(dict.fromkeys(one.key for one in holders))
    items = dict(zip(keys, read_many(ports, TIMERS, [key.as_item() for key in keys]), strict=True))
    return {holder: items[holder.key] for holder in holders}


def _holding(ports: Ports, holders: Sequence[Holder], items: Mapping[Holder, Item | None]) -> Holding:
    """Those that have not ended, the oldest first."""
    live: dict[str, tuple[Holder, Item]] = {}
    now_ms = ports.clock.now_ms()
    for holder in sorted(holders, key=lambda one: one.key.scheduled_at_ms):
        item = items[holder]
        if item is not None and item["status"] not in lifecycle.MEANING:
            raise Unreadable(f"{holder.key.ref}: unknown status {item['status']!r}")
        if item is not None and overlap.holds(item, now_ms):
            live[holder.key.ref] = Holder(holder.key, len(item.get("replays", ()))), item
    if not live:
        return Holding()
    some = [holder for holder, _ in live.values()]
    by = overlap.held_by(*list(live.values())[-1])
    return Holding(tuple(some[:HOLDERS_MAX]), by, is_whole=len(some) <= HOLDERS_MAX)


def _passed_unseen(ports: Ports, job: Job) -> list[Holder]:
    """The occurrences that the job has passed since somebody put down its holders: fired as under `allow`. And all runs
    that were asked for since, which may be of any time, also of one that the chain has not come to."""
    # Of a job that has fired nothing yet and was changed, runs that were asked for may be named no more.
    may_be_unnamed = not job.held_through_ms and job.version > 1
    if job.held_through_ms >= job.fired_through_ms and not may_be_unnamed:
        return []
    ports.signals.count("scheduler.holders_looked_for_total")
    between = (job.held_through_ms + 1, LATEST_INSTANT_MS)
    found: list[LedgerKey] = []
    position: Item | None = None
    while len(found) < LOOKED_THROUGH_MAX:  # by occurrences, and not by pages: a page may come short
        keys, position = ports.store.query_index(
            TIMERS, BY_JOB, job.job_id, limit=_PAGE, after=position, descending=True, between=between
        )
        found += [_passed_key(job, str(key["pk"]), str(key["sk"])) for key in keys]
        if position is None:
            break
    passed = [key for key in found if key.kind or key.scheduled_at_ms <= job.fired_through_ms]
    is_recent = ports.clock.now_ms() - job.fired_through_ms < INDEX_BEHIND_MS
    if is_recent and all(key.kind or key.scheduled_at_ms != job.fired_through_ms for key in passed):
        raise Unreadable(f"job {job.job_id}: the index of its runs is behind")
    return [Holder(key) for key in passed]


def _passed_key(job: Job, pk: str, sk: str) -> LedgerKey:
    try:
        return parse_ledger_key(pk, sk)
    except ValueError:  # of a kind that a newer version knows
        raise Unreadable(f"job {job.job_id}: one of its runs is of an unknown kind") from None
