"""Lists of runs and timers, read from the ledger itself: an item stays where it was when it fired, until its time to
live.

The runs of one job are found by an index, and so are a team's that did not end well (`bad_ends`); what is pending,
queued, running, waiting or has succeeded is in no index, and is read minute by minute (`minutes`). Each list stops at
its bound, and says how far it has come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tickwork.core.dispatch import backlog, set_aside
from tickwork.core.dispatch.set_aside import SetAside
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.errors import NotFound
from tickwork.core.ids import parse_one_shot_name, split_job_id
from tickwork.core.instants import LATEST_INSTANT_MS, second_of
from tickwork.core.jobs.scopes import is_pausable
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.ends import BAD, is_unmarked
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import bad_end_partitions, bucket_of
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import BY_JOB, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.flows.dispatch import leasing
from tickwork.flows.ledger import groups, teams
from tickwork.flows.ledger.bad_ends import EndPlace, Ends, list_ends
from tickwork.flows.ledger.merging import Bound, Shown, Step, page_of
from tickwork.flows.ledger.minutes import Span, Spot, edge, read_minutes
from tickwork.flows.ledger.reading import read_job, read_many
from tickwork.flows.runs import overlong, timers
from tickwork.flows.runs.overlong import Overlong
from tickwork.ports import Ports

PARTITIONS_AT_ONCE = 256
"""Partitions of the index that are merged in a list over all teams: as many queries. Of more teams, the list goes on
with the next ones when it is through with these."""

JOB_ROWS = 100
"""Runs of a job that are read at once where only some of them are wanted."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which runs to list; empty text: any. `by_due`: also those that did not end well by when they were due."""

    team: str = ""
    status: str = ""
    since_ms: int = 0
    until_ms: int = LATEST_INSTANT_MS
    by_due: bool = False

    @property
    def is_by_end(self) -> bool:
        return self.status in BAD and not self.by_due


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, and its status as a reader should see it: `queued` when it is pending and was dispatched."""

    run: Run
    status: str
    overlong: Overlong | None = None


@dataclass(frozen=True, slots=True)
class EndsOf:
    """Where a list of bad ends is: the teams it is at (both included; '' for one that names its team), and the last
    end of theirs that was passed."""

    first_team: str
    last_team: str
    end: EndPlace | None = None


type Place = EndsOf | Spot
"""Where a page of a list of runs ended."""

type JobPlace = tuple[int, str, str]
"""Where a page of a job's runs ended: nominal instant, and the item's keys, for an instant may have several items (its
job was deleted and made anew, or changed)."""


@dataclass(slots=True)
class _Reader:
    """Turns items into views. One item that cannot be read must not hide the others."""

    ports: Ports
    leases: dict[tuple[str, int], SliceLease] = field(default_factory=dict)
    """The cursors of each slice, remembered for the length of a call."""
    groups: groups.Known = field(default_factory=dict)
    """The groups of what bears a label, as well."""
    rows: dict[tuple[str, int], tuple[SetAside, ...]] = field(default_factory=dict)
    """What of it waits for its team's turn, or for the end of a pause."""

    def views(self, items: Sequence[Item | None]) -> list[RunView]:
        """Of runs; a retry shows in the attempts of its run."""
        found = [self._readable(item) for item in items if item is not None and "run_ref" not in item]
        return [view for view in found if view is not None]

    def _readable(self, item: Item) -> RunView | None:
        try:
            return self.view(Run.from_item(item))
        except Unreadable as error:
            self.ports.signals.log("unreadable_in_history", why=str(error))
            return None

    def view(self, run: Run) -> RunView:
        if run.group:
            (run,) = groups.as_they_end(self.ports, [run], self.groups)
        if run.status != lifecycle.PENDING:
            return RunView(run, run.status)
        ports = self.ports.in_cell(run.key.cell)
        place = (run.key.cell, ports.layout.slice_of(run.key.shard))
        if place not in self.leases:
            self.leases[place] = leasing.read_lease(ports, place[1]) or SliceLease("")
        is_queued = backlog.has_passed(self.leases[place], run.key) and not self._waits(ports, place, run)
        return RunView(run, lifecycle.QUEUED if is_queued else lifecycle.PENDING)

    def _waits(self, ports: Ports, place: tuple[str, int], run: Run) -> bool:
        """Whether windows have passed a run that they have not dispatched: it is not its turn, or it is paused."""
        lease = self.leases[place]
        if not lease.aside_s or not is_pausable(run.key.kind):
            return False
        if place not in self.rows:
            found = leasing.read_aside(ports, lease.slice).values()
            self.rows[place] = tuple(row for row in found if row.who.kind in (set_aside.TEAM, set_aside.PAUSE))
        pool = run.work.pool if run.work else ""
        return set_aside.any_covers(self.rows[place], run.key, pool, run.group)


def viewer(ports: Ports) -> Callable[[Sequence[Item | None]], list[RunView]]:
    """Turns items into views; what it has to read beside them it remembers."""
    return _Reader(ports).views


def view_of(ports: Ports, run: Run) -> RunView:
    """One run with its derived status."""
    (view,) = with_overlong(ports, [_Reader(ports).view(run)])
    return view


def with_overlong(ports: Ports, views: Sequence[RunView]) -> list[RunView]:
    """The views, with what is to be said of runs that go on much longer than usual."""
    found = overlong.find(ports, [view.run for view in views])
    return [replace(view, overlong=found.get(view.run.key.ref)) for view in views]


def list_runs(ports: Ports, wanted: Filter, *, limit: int, after: Place | None) -> Shown[Place, RunView]:
    """A page of runs. Those that did not end well by their end, newest first; all others by fire time, newest first,
    from now on back."""
    page = _list_runs(ports, wanted, limit, after)
    return replace(page, found=with_overlong(ports, page.found))


def _list_runs(ports: Ports, wanted: Filter, limit: int, after: Place | None) -> Shown[Place, RunView]:
    bound = Bound()
    if not wanted.is_by_end:
        return _by_due(ports, wanted, limit, after if isinstance(after, Spot) else None, bound)
    ended: Shown[Place, RunView] = Shown([])
    if not isinstance(after, Spot):
        ended = _by_end(ports, wanted, limit, after, bound)
        if ended.after is not None or wanted.status != lifecycle.CANCELLED:
            return ended
    # What was withdrawn before it was due is in no index: it comes last.
    spot = after if isinstance(after, Spot) else None
    withdrawn = _by_due(ports, wanted, limit - len(ended.found), spot, bound, unmarked=True)
    return replace(withdrawn, found=[*ended.found, *withdrawn.found])


def _by_due(
    ports: Ports, wanted: Filter, limit: int, after: Spot | None, bound: Bound, *, unmarked: bool = False
) -> Shown[Place, RunView]:
    newest = min(second_of(wanted.until_ms), second_of(ports.clock.now_ms()))
    span = Span(second_of(wanted.since_ms), newest, True, after, wanted.team, limit)
    return _of_minutes(ports, span, wanted, limit, bound, unmarked=unmarked)


def _of_minutes(
    ports: Ports,
    span: Span,
    wanted: Filter,
    limit: int,
    bound: Bound,
    *,
    unmarked: bool = False,
    one_shot: bool = False,
) -> Shown[Place, RunView]:
    reader = _Reader(ports)

    def show(items: Sequence[Item]) -> list[RunView]:
        views = reader.views([item for item in items if not unmarked or is_unmarked(item) or _may_end_unmarked(item)])
        return [
            view
            for view in views
            if wanted.team in ("", view.run.key.team)
            and wanted.status in ("", view.status)
            and (not one_shot or not view.run.is_of_job)
        ]

    if limit == 0 or bound.is_reached:  # the page is full of what comes before, or has cost what a page may
        return Shown([], edge(bucket_of(span.last), span.descending), bounded=limit > 0)
    page = page_of(read_minutes(ports, span, bound), show, limit=limit, bound=bound)
    return Shown(page.found, page.after, page.bounded)


def _may_end_unmarked(item: Item) -> bool:
    """Whether it may have been cancelled with its group, which nobody writes to it."""
    return "group" in item and item.get("status") in groups.UNSTARTED


def _by_end(ports: Ports, wanted: Filter, limit: int, after: EndsOf | None, bound: Bound) -> Shown[Place, RunView]:
    """A page of bad ends: of one team, or of some teams after the other."""
    at = after or EndsOf("", "")
    if wanted.team:
        some, rest = [wanted.team], []
    else:
        known = teams.read_teams(ports)
        some = [team for team in known if at.first_team <= team and (not at.last_team or team <= at.last_team)]
        at_once = max(1, PARTITIONS_AT_ONCE // len(bad_end_partitions("", wanted.status)))
        some = some if at.last_team else some[:at_once]
        rest = [team for team in known if some and team > some[-1]]
    partitions = [one for team in some for one in bad_end_partitions(team, wanted.status)]
    ends = Ends(partitions, wanted.since_ms, wanted.until_ms, at.end)
    reader = _Reader(ports)
    page = list_ends(ports, ends, lambda run: run.status == wanted.status, limit=limit, bound=bound)
    found = [reader.view(run) for run in page.found]
    if page.after is not None:
        return Shown(found, EndsOf(some[0], some[-1], page.after), page.bounded)
    return Shown(found, EndsOf(rest[0], "") if rest else None, bool(rest))


def list_timers(ports: Ports, wanted: Filter, *, limit: int, after: Spot | None) -> Shown[Place, RunView]:
    """A page of one-shots by fire time, the soonest first."""
    span = Span(second_of(wanted.since_ms), second_of(wanted.until_ms), False, after, wanted.team, limit)
    return _of_minutes(ports, span, wanted, limit, Bound(), one_shot=True)


def job_runs(
    ports: Ports, job_id: str, *, limit: int, after: JobPlace | None, status: str = "", since_ms: int = 0
) -> Shown[JobPlace, RunView]:
    """A page of a job's runs, newest nominal time first. Of a one-shot's id, its one run. NotFound when there is no
    such job, and no run of one."""
    _, name = split_job_id(job_id)
    reader = _Reader(ports)
    if parse_one_shot_name(name):
        view = reader.view(timers.get_timer(ports, job_id))
        return Shown([view] if status in ("", view.status) and view.run.key.scheduled_at_ms >= since_ms else [])
    bound = Bound()

    def show(rows: Sequence[Item]) -> list[RunView]:
        views = reader.views(read_many(ports, TIMERS, [{"pk": row["pk"], "sk": row["sk"]} for row in rows]))
        return [view for view in views if status in ("", view.status)]

    rows = max(limit, JOB_ROWS) if status else limit
    stream = _rows_of_job(ports, job_id, rows, after, since_ms, bound)
    page = page_of(stream, show, limit=limit, bound=bound)
    if after is None and page.after is None and not page.found and read_job(ports, job_id) is None:
        raise NotFound(f"there is no job {job_id!r}", field="job_id", remedy="list the team's jobs: GET /jobs?team=")
    return replace(page, found=with_overlong(ports, page.found))


def _rows_of_job(
    ports: Ports, job_id: str, rows: int, after: JobPlace | None, since_ms: int, bound: Bound
) -> Iterator[Step[JobPlace]]:
    position: Item | None = None
    between = (since_ms, LATEST_INSTANT_MS)
    if after is not None:
        position = {"job_id": job_id, "scheduled_at_ms": after[0], "pk": after[1], "sk": after[2]}
        between = (since_ms, after[0])
    while between[0] <= between[1]:
        found, position = ports.store.query_index(
            TIMERS, BY_JOB, job_id, limit=rows, after=position, descending=True, between=between
        )
        bound.spend(len(found))
        for row in found:
            yield Step((), _job_place(row), row)
        if position is None:
            return
        if bound.is_reached:
            yield Step((), _job_place(position), None)
            return


def _job_place(row: Item) -> JobPlace:
    return int(row["scheduled_at_ms"]), str(row["pk"]), str(row["sk"])
