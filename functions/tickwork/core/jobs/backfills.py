"""A backfill of a job: a fixed list of nominal instants that are run again, so many at a time (F13).

What it does is decided when it is made: the instants (kept apart, in pages), and what each run is to do. From then on
it is a place in that list, and the runs that were launched and have not ended. Protects one-run, and that nothing is
launched twice: the place moves in the transaction that puts the runs, by compare-and-set on `rev`. Refuses to know the
job's chain, its pause and its holders: its runs neither hold nor are held.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from tickwork.core.ids import split_job_id
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import deadlines, items, kinds
from tickwork.core.ledger.cells import Spread
from tickwork.core.ledger.items import Record, always
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Absent, Is, Item, Put

BACKFILLS = "@backfills"
"""The partition of the table `teams` that has them: the reconciler goes through it."""
RANGES = "@ranges"
"""That of those whose list is made piece by piece. They lie apart from the others, for a version that does not know
them would take a piece for the whole."""
PLACES = (BACKFILLS, RANGES)

RUNNING, PAUSED, CANCELLED, FINISHED = "running", "paused", "cancelled", "finished"
OLDEST_FIRST, NEWEST_FIRST = "oldest_first", "newest_first"
NONE, FAILED, SUCCEEDED, LIVE = "none", "failed", "succeeded", "live"
"""What became of an instant: it never ran; it died or expired; it succeeded; it is still to end."""
ALL = "all"
REDONE: Mapping[str, frozenset[str]] = {
    NONE: frozenset({NONE}),
    FAILED: frozenset({NONE, FAILED}),
    ALL: frozenset({NONE, FAILED, SUCCEEDED}),
}
"""By what is asked for: which instants are run. One that is still to end never is."""

OCCURRENCES_MAX = 10_000
"""Of a backfill that is counted, and written down, in one call. One of more is listed piece by piece."""
EXPECTED_MAX = 10_000_000
"""Of one that is listed piece by piece, as samples say: a run a second each takes months."""
CONCURRENCY_MAX = 50
"""Each end reads the runs that are live, and they stand in the item."""
LAUNCHED_AT_ONCE = 25
"""Runs that one transaction puts."""
PAGE = 500
"""Instants of a page of the list."""


@dataclass(frozen=True, slots=True)
class Backfill(Record):
    """`position`: how many of its `count` instants were launched; `live`: the refs of those that may not have ended;
    `ended`: how many of the others ended in which status."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell", "team")

    job_id: str
    unique: str
    list_id: str
    """A hash of its list: two who make it at once write their lists apart."""
    work: Work
    count: int = always(0)
    concurrency: int = always(1)
    outcomes: str = always(NONE)
    order: str = always(OLDEST_FIRST)
    from_ms: int = always(0)
    until_ms: int = always(0)
    by: str = ""
    because: str = ""
    fingerprint: str = ""
    created_at_ms: int = always(0)
    hard: bool = False
    status: str = always(RUNNING)
    rev: int = always(0)
    position: int = always(0)
    live: tuple[str, ...] = ()
    ended: Mapping[str, int] = field(default_factory=dict)
    ended_at_ms: int = 0
    stopped_by: str = ""
    """Who has paused, resumed or cancelled it last, and why."""
    stopped_because: str = ""
    schedule: Mapping[str, Any] = field(default_factory=dict)
    """Of a range that is listed piece by piece: the job's schedule when it was made."""
    listed_ms: int = 0
    """How far it is listed: all before that instant; of one with the newest first, all from there on."""
    piece_begin: int = 0
    """The place in the list at which the last piece begins."""
    expected: int = 0
    """How many runs there would be, as samples said."""
    stops_runs: bool = False
    """Of one that is cancelled: its runs that have started are cancelled too."""
    group: str = ""
    epoch: int = 0
    """Its job's, when it was made: its runs bear them."""

    @property
    def backfill_id(self) -> str:
        return f"{self.job_id}~{self.unique}"

    @property
    def kind(self) -> str:
        return kinds.kind_of(kinds.BACKFILL, self.unique)

    @property
    def is_over(self) -> bool:
        return self.status in (CANCELLED, FINISHED) and not self.live

    @property
    def is_going_on(self) -> bool:
        """Whether it is to launch something yet."""
        return self.status in (RUNNING, PAUSED)

    @property
    def is_range(self) -> bool:
        return bool(self.schedule)

    @property
    def is_listed(self) -> bool:
        """Whether all that it is to run is known."""
        return not self.is_range or self.listed_ms == (self.from_ms if self.order == NEWEST_FIRST else self.until_ms)

    @property
    def matched(self) -> int:
        """All its runs; as long as they are not all known, how many there would be."""
        return self.count if self.is_listed else max(self.count, self.expected)

    @property
    def wants_piece(self) -> bool:
        """Whether the next step needs another piece of its list."""
        is_out = self.position >= self.count and not self.is_listed
        return self.status == RUNNING and is_out and len(self.live) < self.concurrency

    def key(self) -> Item:
        return place(self.job_id, self.unique, RANGES if self.is_range else BACKFILLS)

    def page_id(self, position: int) -> str:
        """Where the page of the list is that a position stands in."""
        page = self.piece_begin if self.is_range else position // PAGE
        return f"{self.job_id}#{self.kind}#{self.list_id}#{page:04d}"

    def begin_in_page(self) -> int:
        """Where in its page the next instant stands."""
        return self.position - self.piece_begin if self.is_range else self.position % PAGE

    def to_item(self) -> Item:
        return items.written(self) | self.key()

    def moved_from(self, before: Backfill) -> Put:
        """The write that makes this of what was read; refused when somebody has moved it since."""
        return Put(TEAMS, replace(self, rev=before.rev + 1).to_item(), Is("rev", before.rev))


def place(job_id: str, unique: str, partition: str = BACKFILLS) -> Item:
    team, name = split_job_id(job_id)
    return {"cell": partition, "team": f"{team}#{name}#{unique}"}


def with_piece(backfill: Backfill, list_id: str, count: int, listed_ms: int) -> Backfill:
    """One of a range with another piece, of so many, behind what it has launched."""
    begin = backfill.position
    return replace(backfill, list_id=list_id, piece_begin=begin, count=begin + count, listed_ms=listed_ms)


def of_job(job_id: str) -> tuple[str, str]:
    """Sort-key bounds (inclusive) of a job's backfills."""
    team, name = split_job_id(job_id)
    return f"{team}#{name}#", f"{team}#{name}#~"


def settled(backfill: Backfill, statuses: Mapping[str, str], now_ms: int) -> Backfill:
    """With those of its runs that have ended counted. `statuses`: of the live ones, by ref, the status of each that has
    ended (`gone`: its record is)."""
    ended = dict(backfill.ended)
    for status in statuses.values():
        ended[status] = ended.get(status, 0) + 1
    live = tuple(ref for ref in backfill.live if ref not in statuses)
    settled = replace(backfill, live=live, ended=ended)
    is_through = backfill.status == RUNNING and backfill.position >= backfill.count and backfill.is_listed and not live
    return replace(settled, status=FINISHED, ended_at_ms=now_ms) if is_through else settled


def room(backfill: Backfill) -> int:
    """How many runs may be launched now."""
    if backfill.status != RUNNING:
        return 0
    left = backfill.count - backfill.position
    return max(0, min(backfill.concurrency - len(backfill.live), left, LAUNCHED_AT_ONCE))


def launched(backfill: Backfill, instants: Sequence[int], spread: Spread, now_ms: int) -> tuple[Backfill, list[Run]]:
    """The backfill with its next runs launched, and those. `spread`: where what is new of its team lies."""
    runs = [_run(backfill, at_ms, spread, now_ms) for at_ms in instants]
    live = (*backfill.live, *(run.key.ref for run in runs))
    return replace(backfill, position=backfill.position + len(runs), live=live), runs


def _run(backfill: Backfill, at_ms: int, spread: Spread, now_ms: int) -> Run:
    team, name = split_job_id(backfill.job_id)
    shard = spread.shard_of(f"{backfill.job_id}|{backfill.kind}|{at_ms}")
    key = LedgerKey(spread.name, shard, now_ms // SECOND_MS * SECOND_MS, team, name, at_ms, backfill.kind)
    return Run(
        key,
        work=backfill.work,
        created_at_ms=now_ms,
        guarded=backfill.work.is_guarded or backfill.hard,
        hard=backfill.hard,
        start_by_ms=deadlines.start_by_ms(key, backfill.work),
        created_by=backfill.by,
        because=backfill.because,
        beside=True,
        group=backfill.group,
        epoch=backfill.epoch,
    )


def puts(runs: Sequence[Run]) -> list[Put]:
    return [Put(TIMERS, run.to_item(), Absent()) for run in runs]


def counted(outcomes: Sequence[str]) -> dict[str, int]:
    """How many instants there are of each outcome."""
    return {name: sum(1 for one in outcomes if one == name) for name in (NONE, FAILED, SUCCEEDED, LIVE)}


def parse_backfill_id(text: str) -> tuple[str, str] | None:
    """(job_id, unique) of a backfill's id; None when it is none."""
    job_id, tilde, unique = text.rpartition("~")
    return (job_id, unique) if tilde and kinds.is_own(f"{kinds.BACKFILL}.{unique}") else None


def told(backfill: Backfill) -> dict[str, Any]:
    """What the audit says of it."""
    return {"backfill": backfill.backfill_id, "runs": backfill.matched, "outcomes": backfill.outcomes}
