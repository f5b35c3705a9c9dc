"""What the end of a pause starts: what waits for it in the rows of the slices, decided as the windows will decide.

All that a pause has kept waiting lies in its rows, so nothing else is looked through. Of a job that is the one
occurrence which waits, and those that come behind it; the step that a window will make is the one that is asked here
(`core/dispatch/chain`). Refuses to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tickwork.core.dispatch import buffering, chain, set_aside
from tickwork.core.dispatch.set_aside import SetAside
from tickwork.core.errors import BadSchedule
from tickwork.core.jobs import overlap
from tickwork.core.jobs.definitions import ACTIVE, Job, Next
from tickwork.core.jobs.overlap import Holder, Holding
from tickwork.core.jobs.scopes import Paused, Scope
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import (
    BUCKET_S,
    LedgerKey,
    bucket_of,
    parse_ref,
    partition_of,
    second_range,
    slice_key,
)
from tickwork.core.ledger.records import Look, Retry, Run
from tickwork.core.ledger.tables import LEASES, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch import leasing
from tickwork.flows.dispatch.firing import read_items
from tickwork.flows.dispatch.overlapping import holding_of
from tickwork.flows.ledger import groups, reading, versions
from tickwork.flows.ledger.platform_defaults import as_due
from tickwork.flows.ledger.reading import pages, read_job_to_plan, read_many, read_run
from tickwork.ports import Layout, Ports

LISTED_MAX = 100
"""Occurrences that an answer names; of more it says how many."""

READS_MAX = 500
"""Pages and items read for one answer: some seconds. What lies beyond them is not counted, and the answer says so."""

OF_JOB_MAX = 1_000
"""Occurrences of one job that are counted: those of a quarter of an hour, of a job of every second."""

_PAGE = 500


@dataclass(slots=True)
class Starting:
    """What will start. `at_least`: there may be more, that were not come to."""

    count: int = 0
    at_least: bool = False
    first: list[LedgerKey] = field(default_factory=list)

    def add(self, key: LedgerKey) -> None:
        self.count += 1
        if len(self.first) < LISTED_MAX:
            self.first.append(key)


@dataclass(slots=True)
class _Looking:
    """One answer in the making: what is paused once it is given, and what may still be read for it."""

    ports: Ports
    scope: Scope
    after: Paused
    now_ms: int
    found: Starting = field(default_factory=Starting)
    reads_left: int = READS_MAX
    groups: groups.Known = field(default_factory=dict)

    def may_read(self) -> bool:
        """Whether there is a read left; taken, where there is."""
        self.reads_left -= 1
        self.found.at_least = self.found.at_least or self.reads_left < 0
        return self.reads_left >= 0


def starting(ports: Ports, scope: Scope, after: Paused, now_ms: int) -> Starting:
    """What starts when what is paused is as `after` says, from now on."""
    looking = _Looking(ports, scope, after, now_ms)
    for seen in ports.in_each_cell():
        looking.ports, looking.after = seen, after.in_cell(seen.layout.cell)
        _look_in_cell(looking)
    return looking.found


def starting_of(ports: Ports, job: Job, now_ms: int, found: Starting) -> None:
    """What a job starts whose own pause ends now, as its pauses are then; told anew."""
    found.count, found.at_least, found.first = 0, False, []
    if job.status != ACTIVE or job.next is None or groups.group_that_cancelled(ports, job) is not None:
        return
    job = reading.to_plan(ports, job)
    try:
        holding = holding_of(ports, job)
    except Unreadable:  # who holds it nobody can say now
        found.at_least = True
        return
    for count, at in enumerate(_firing(job, holding, now_ms, ports.layout)):
        if count >= OF_JOB_MAX:
            found.at_least = True
            return
        found.add(job.occurrence_key(ports.layout.home, at))


def _look_in_cell(looking: _Looking) -> None:
    ports, scope = looking.ports, looking.scope
    keys: list[Item] = [{"slice": slice_key(ports.layout.cell, number)} for number in range(ports.layout.slices)]
    for number, item in enumerate(read_many(ports, LEASES, keys)):
        if item is None or not item.get("aside_s"):
            continue
        rows = leasing.read_aside(ports, str(item["slice"]))
        looking.found.at_least |= len(rows) >= set_aside.ROWS_MAX and set_aside.EVERYBODY in rows
        for row in (rows[who] for one in scope.rows if (who := set_aside.pause(one)) in rows):
            for items in _pages_of(looking, row, number):
                for due in read_items(ports, items):
                    if not isinstance(due, Look):  # whoever is buffered waits for his job
                        _look_at(looking, row, due)


def _pages_of(looking: _Looking, row: SetAside, slice_no: int) -> Iterator[Sequence[Item]]:
    """What the row covers, page by page, as far as reads go."""
    layout = looking.ports.layout
    for bucket in range(bucket_of(row.begin), bucket_of(row.until) + 1):
        first, last = max(row.begin, bucket * BUCKET_S), min(row.until, (bucket + 1) * BUCKET_S - 1)
        for shard in layout.shards_of(slice_no):
            if not looking.may_read():
                return
            partition = partition_of(layout.cell, shard, bucket)
            for page in pages(looking.ports, TIMERS, partition, *second_range(first, last), limit=_PAGE):
                yield page.items
                if page.more is not None and not looking.may_read():
                    return


def _look_at(looking: _Looking, row: SetAside, due: Run | Retry) -> None:
    work = due.work if isinstance(due, Run) else None
    if not row.covers(due.key, work.pool if work else ""):
        return
    if isinstance(due, Run) and _is_cancelled(looking, due):
        return
    if isinstance(due, Run) and work is not None:
        _add_unless_paused(looking, due.key, work.pool, due.group)
    elif not looking.may_read():
        return
    elif isinstance(due, Retry):
        _look_at_retry(looking, due)
    else:
        _look_at_chain(looking, due)


def _is_cancelled(looking: _Looking, run: Run) -> bool:
    """Whether it was cancelled with its group: it starts no more."""
    return groups.as_they_end(looking.ports, [run], looking.groups)[0].status == lifecycle.CANCELLED


def _add_unless_paused(looking: _Looking, key: LedgerKey, pool: str, group: str) -> None:
    """Another pause may keep it."""
    lies_in = (key.team, pool, group)
    if looking.scope.covers(*lies_in) and looking.after.in_force(*lies_in, looking.now_ms) is None:
        looking.found.add(key)


def _look_at_retry(looking: _Looking, retry: Retry) -> None:
    """A first start that was put off. What has been started waits for no pause."""
    run = read_run(looking.ports, parse_ref(retry.run_ref))
    if run is None or run.status != lifecycle.WAITING or run.attempt or retry.attempt != 1:
        return
    work = versions.work_of(looking.ports, run)
    if work is not None and not _is_cancelled(looking, run):
        _add_unless_paused(looking, run.key, work.pool, run.group)


def _look_at_chain(looking: _Looking, run: Run) -> None:
    job = read_job_to_plan(looking.ports, run.key.job_id)
    if job is None:
        return
    if job.fired_through_ms >= run.key.scheduled_at_ms:  # fired, and not sent yet
        _add_unless_paused(looking, run.key, job.work.pool, job.group)
        return
    if job.status != ACTIVE or job.next_key(looking.ports.layout.home) != run.key:
        return
    try:
        job = looking.after.applied_to(as_due(looking.ports, job, run))
        holding = holding_of(looking.ports, job) if looking.may_read() else None
    except Unreadable:  # who holds it nobody can say now: what of it starts is not counted
        looking.found.at_least = True
        return
    for count, at in enumerate(_firing(job, holding, looking.now_ms, looking.ports.layout)):
        if count >= OF_JOB_MAX:
            looking.found.at_least = True
            return
        _add_unless_paused(looking, job.occurrence_key(looking.ports.layout.home, at), job.work.pool, job.group)


def _firing(job: Job, holding: Holding | None, now_ms: int, layout: Layout) -> Iterator[Next]:
    """The occurrences of a job that fire, of those that are due by their nominal time; and of those that would have to
    wait until it is free, as many as may. What fires holds up what is behind it, as in the windows."""
    at = job.next
    try:
        while at is not None and at.scheduled_at_ms < now_ms:
            step = chain.plan_step(job, at, now_ms, layout.shards, holding)
            key = job.occurrence_key(layout.home, at)
            if step.fires or step.buffers:
                yield at
            if step.fires and holding is not None:
                holding = Holding((Holder(key),), overlap.held_by(Holder(key), Run(key).to_item()))
            if step.buffers:
                job = replace(job, buffer=buffering.put_behind(job, key, None, now_ms, layout.retention_s)[0])
            at = step.next
    except BadSchedule:
        return  # its job is parked instead
