"""Run history, read from the ledger itself: an item stays where it was when it fired, until its time to live.

The runs of one job are found by an index, those of a team or of everybody by reading buckets backwards in time.
"""

from __future__ import annotations

from dataclasses import dataclass

from tickwork.core.dispatch import backlog
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.ids import parse_one_shot_name, split_job_id
from tickwork.core.instants import second_of
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import BUCKET_S, bucket_of, partition_of, second_range
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch import leasing
from tickwork.flows.ledger.reading import pages, read_many
from tickwork.flows.runs import timers
from tickwork.ports import Ports

BUCKET_READS_MAX = 240
"""Partitions read for one page of a list: about a second's work. A page may be short, or empty, and still have
a cursor."""

BUCKET_ITEMS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs to list; empty text: any."""

    team: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, and its status as a reader should see it: `queued` when it is pending and was dispatched."""

    run: Run
    status: str


type Position = tuple[int, str, str]
"""Where a page of a job's runs ended: nominal instant, and the item's keys, for an instant may have several items (its
job was deleted and made anew, or changed)."""


def job_runs(ports: Ports, job_id: str, *, limit: int, after: Position | None) -> tuple[list[RunView], Position | None]:
    """A page of a job's runs, newest nominal time first, and the position to go on after. Of a one-shot's id, its one
    run."""
    _, name = split_job_id(job_id)
    if parse_one_shot_name(name):
        return [_view(ports, timers.get_timer(ports, job_id), {})], None
    position: Item | None = None
    if after is not None:
        position = {"job_id": job_id, "scheduled_at_ms": after[0], "pk": after[1], "sk": after[2]}
    keys, more = ports.store.query_index(TIMERS, BY_JOB, job_id, limit=limit, after=position, descending=True)
    leases: dict[int, SliceLease] = {}
    items = read_many(ports, TIMERS, [{"pk": key["pk"], "sk": key["sk"]} for key in keys])
    views = [view for item in items if item is not None and (view := _readable(ports, item, leases)) is not None]
    return views, None if more is None else (int(more["scheduled_at_ms"]), str(more["pk"]), str(more["sk"]))


def list_runs(
    ports: Ports, wanted: Filter, *, limit: int, before: tuple[int, int] | None, since_ms: int
) -> tuple[list[RunView], tuple[int, int] | None]:
    """Runs by fire time, newest first, from now (or the cursor) back to `since_ms`.

    The cursor is (bucket, how many of its runs have been shown). Reads at most BUCKET_READS_MAX partitions.
    """
    now_second = second_of(ports.clock.now_ms())
    newest = bucket_of(now_second)
    bucket, skip = before if before is not None and before[0] <= newest else (newest, 0)
    oldest = bucket_of(second_of(since_ms))
    shards = range(max(ports.layout.shards, ports.layout.shards_before))
    views: list[RunView] = []
    leases: dict[int, SliceLease] = {}
    reads = 0
    while bucket >= oldest:
        found = _bucket_runs(ports, shards, bucket, wanted, now_second, leases)
        reads += len(shards)
        views += found[skip : skip + limit - len(views)]
        if len(views) == limit:
            shown = skip + sum(1 for v in views if bucket_of(v.run.key.fire_second) == bucket)
            return views, (bucket, shown) if shown < len(found) else _older(bucket, oldest)
        bucket, skip = bucket - 1, 0
        if reads >= BUCKET_READS_MAX:
            break
    return views, (bucket, 0) if bucket >= oldest else None


def _older(bucket: int, oldest: int) -> tuple[int, int] | None:
    return (bucket - 1, 0) if bucket > oldest else None


def _bucket_runs(
    ports: Ports, shards: range, bucket: int, wanted: Filter, now_second: int, leases: dict[int, SliceLease]
) -> list[RunView]:
    low, high = second_range(bucket * BUCKET_S, min(now_second, bucket * BUCKET_S + BUCKET_S - 1))
    items: list[Item] = []
    for shard in shards:
        partition = partition_of(ports.layout.cell, shard, bucket)
        for page in pages(ports, TIMERS, partition, low, high, limit=BUCKET_ITEMS_MAX):
            items += page.items
    views = []
    for item in items:
        if "run_ref" in item:
            continue  # a retry: it shows in the attempts of its run
        view = _readable(ports, item, leases)
        if view is not None and wanted.team in ("", view.run.key.team) and wanted.status in ("", view.status):
            views.append(view)
    return sorted(views, key=lambda v: (v.run.key.fire_at_ms, v.run.key.sk), reverse=True)


def _readable(ports: Ports, item: Item, leases: dict[int, SliceLease]) -> RunView | None:
    """One item that cannot be read must not hide the others."""
    try:
        return _view(ports, Run.from_item(item), leases)
    except Unreadable as error:
        ports.signals.log("unreadable_in_history", why=str(error))
        return None


def _view(ports: Ports, run: Run, leases: dict[int, SliceLease]) -> RunView:
    """The derived status; `leases` remembers each slice's cursors for the length of a call."""
    if run.status != lifecycle.PENDING:
        return RunView(run, run.status)
    slice_no = ports.layout.slice_of(run.key.shard)
    if slice_no not in leases:
        leases[slice_no] = leasing.read_lease(ports, slice_no) or SliceLease("")
    is_queued = backlog.has_passed(leases[slice_no], run.key)
    return RunView(run, lifecycle.QUEUED if is_queued else lifecycle.PENDING)
