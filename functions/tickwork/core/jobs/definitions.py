"""What a team has registered: a job, its policies, and its one pending occurrence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NotRequired, Self, TypedDict

from tickwork.core.ids import job_id_of
from tickwork.core.jobs.overlap import (
    ALLOW,
    BUFFER,
    BUFFER_ALL,
    BUFFER_ONE,
    BUFFERED_USUAL,
    CANCEL_OTHER,
    HOLDERS,
    STRICT,
    Buffer,
    Holder,
)
from tickwork.core.jobs.pauses import Pause
from tickwork.core.jobs.skips import Skip
from tickwork.core.ledger import items
from tickwork.core.ledger.cells import Spread, read_place, written_place
from tickwork.core.ledger.epochs import Group
from tickwork.core.ledger.groups import GROUPED, job_marks
from tickwork.core.ledger.items import NOT_STORED, Record, Spelling, Unreadable, always, spelled
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Item
from tickwork.core.schedule.calendars.calendar import Calendar

ACTIVE, FINISHED, ERROR, DELETED = "active", "finished", "error", "deleted"
CANCELLED = "cancelled"
"""Of a job that was cancelled with its group."""
REPLACED = "replaced"
"""Of a job as it was at an earlier version. It is shown, and never stored."""

KEPT = "kept"
"""Marks what no change of a job's definition touches: it never changes, or others write it meanwhile."""


@dataclass(frozen=True, slots=True)
class CatchUp(Record):
    """What becomes of occurrences missed in an outage (spec F8). `last` counts with policy 'last' only."""

    policy: str = "latest"
    last: int = 0
    max_lateness_s: int = 0
    """0: no bound."""


_ORDINARY = CatchUp()


@dataclass(frozen=True, slots=True)
class Next:
    """A job's one pending occurrence: the nominal instant, when it fires, and the shard its item is in. `cell`: of
    which cell; empty for the home cell."""

    scheduled_at_ms: int
    fire_at_ms: int
    shard: int
    cell: str = ""


class LastRun(TypedDict):
    """How the last run of a job ended: for people and for the dead-man's switch."""

    run_id: str
    status: str
    scheduled_at_ms: int
    ended_at_ms: int
    took_ms: NotRequired[int]
    """Of its last attempt, when that succeeded."""


def next_attributes(upcoming: Next | None) -> Item:
    """A job's `next` as attributes: flat and always there, so that a compare-and-set is one equality."""
    at = upcoming or Next(0, 0, 0)
    return {
        "next_scheduled_at_ms": at.scheduled_at_ms,
        "next_fire_at_ms": at.fire_at_ms,
        "next_shard": written_place(at.cell, at.shard),
    }


_NEXT_NAMES = tuple(next_attributes(None))


def _next_of(item: Item) -> Next | None:
    scheduled_at_ms, fire_at_ms = (whole(item[name]) for name in _NEXT_NAMES[:2])
    cell, shard = read_place(item[_NEXT_NAMES[2]])
    return Next(scheduled_at_ms, fire_at_ms, shard, cell) if scheduled_at_ms else None


_NEXT = Spelling(_NEXT_NAMES, next_attributes, _next_of, is_required=True)


@dataclass(frozen=True, slots=True)
class Definition(Record):
    """What a team says of a job, when it registers or changes it. `schedule` is the normal form; `fingerprint`
    identifies the request. A field that is added here is stored, read, changed and compared with the others."""

    team: str = field(metadata={KEPT: True})
    name: str = field(metadata={KEPT: True})
    schedule: Mapping[str, Any]
    work: Work
    tolerance_s: int = always(0)
    catch_up: CatchUp = _ORDINARY
    fingerprint: str = field(default="", metadata={"always": True})
    exact_reason: str = ""
    """Why a cron job has to be exact (T5)."""
    overlap: str = ALLOW
    """What becomes of one that is due while another run has not ended. A job that does not say it allows both."""
    buffer_max: int = 0
    """Under `buffer_all`: how many wait; 0: as many as usual."""
    buffer_age_s: int = 0
    """Under `buffer_all`: how long one waits; 0: no bound."""
    own_policies: tuple[str, ...] = ()
    """Policies that it says, although they are as the platform's defaults were (`defaults`): they stay so."""
    defaults_pin: int | None = None
    """The version of the platform's defaults that it goes by, whatever is rolled out; None: by what is."""
    group: str = ""
    """The label that it bears among its team's jobs and timers (`ledger.groups`)."""
    owner: str = ""
    """Who answers for it; empty, here and in what follows: as its team says (`contracts`)."""
    pager_route: str = ""
    """By which of its team's routes they are paged, by its address."""
    runbook: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    dead_man_switch: str = ""
    """`on` or `off`: whether its silence is told."""
    max_silence_s: int = 0
    """For how long it may go without a success; 0: as its schedule allows."""
    min_duration_s: int = 0
    """A success that took less has done nothing, it seems; 0: none is too quick."""

    @property
    def job_id(self) -> str:
        return job_id_of(self.team, self.name)

    @property
    def may_overlap(self) -> bool:
        """Whether its occurrences fire whatever has become of those before."""
        return self.overlap not in STRICT

    @property
    def buffered_max(self) -> int:
        """How many of its occurrences may wait until it is free."""
        several = self.buffer_max or BUFFERED_USUAL
        return {BUFFER_ONE: 1, CANCEL_OTHER: 1, BUFFER_ALL: several}.get(self.overlap, 0)

    def has_content_of(self, other: Definition) -> bool:
        """Whether both say the same, whoever asked for it, and in whatever spelling. (A payload kept apart is not
        compared.)"""
        mine, theirs = (
            items.values_of(one, Definition) | {"fingerprint": "", "work": one.work.in_one_spelling()}
            for one in (self, other)
        )
        return mine == theirs


@dataclass(frozen=True, slots=True)
class Applied:
    """That a job does not stand as it is stored, but as it is by a version of the platform's defaults. `stored`: the
    fields that differ, as they are stored."""

    version: int
    stored: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job(Definition):
    """A registered job. `next` is its pending timer; `fired_through_ms` the last nominal instant it has passed:
    no occurrence at or before that is ever materialised again. Nor is one that was cancelled before its time, whatever
    the schedule becomes: `cancelled` has those that lie ahead."""

    DERIVED: ClassVar[tuple[str, ...]] = ("job_id", GROUPED)

    version: int = always(1)
    status: str = always(ACTIVE)
    created_at_ms: int = always(0, kept=True)
    scheduled_since_ms: int = 0
    """When its schedule was last changed (0: never): a recurring schedule has no occurrence up to then."""
    fired_through_ms: int = always(0, kept=True)
    earlier_through_ms: int = 0
    """The last nominal instant that was fired by an earlier definition (`versions`): up to there this one says
    nothing. 0: it was registered by a version that kept none."""
    defined_since: int = 0
    """The first version with this definition; 0: not known."""
    next: Next | None = field(default=None, metadata=spelled(_NEXT))
    reason: str | None = None
    last: LastRun | None = field(default=None, metadata={KEPT: True})
    usual_s: int = field(default=0, metadata={KEPT: True})
    """How long its last success took that was no quick one (`durations`); 0: none is known."""
    last_success_at_ms: int = field(default=0, metadata={KEPT: True})
    """When a run of its schedule last succeeded; 0: none has since a version notes it."""
    watched_since_ms: int = 0
    """Since when its switch is on; 0: it is not."""
    deadline_mark: int = 0
    """Which of its deadlines counts (`watch.wheel`): those of before its last change are let go."""
    pauses: tuple[Pause, ...] = field(default=(), metadata={KEPT: True})
    skips: tuple[Skip, ...] = field(default=(), metadata={KEPT: True})
    """Of single occurrences ahead. One that is passed is dropped at the next step."""
    cancelled: tuple[int, ...] = field(default=(), metadata={KEPT: True})
    """Nominal instants. One that is passed is dropped at the next step."""
    deleted_at_ms: int = field(default=0, metadata={KEPT: True})
    audit_head: str = ""
    """The last entry of its audit (`access.entries.Head`). Empty: no version that writes entries has changed it yet."""
    holders: tuple[Holder, ...] = field(default=(), metadata={**spelled(HOLDERS), KEPT: True})
    held_through_ms: int = field(default=0, metadata={KEPT: True})
    """The last nominal instant that `holders` knows of (`overlap`); 0: it knows of none."""
    buffer: Buffer | None = field(default=None, metadata={**spelled(BUFFER), KEPT: True})
    """What waits until the job is free."""
    epoch: int = 0
    """That of its group when it was registered or changed: its occurrences carry it (`ledger.epochs`)."""
    defaults_base: int = field(default=0, metadata={KEPT: True})
    """The version of the platform's defaults by which it is stored: what it does where nothing else is rolled out."""
    planned_with: str = field(default="", metadata={"always": True})
    """The zone data and the calendars that `next` was computed from: when they change, it is computed anew (T6)."""
    calendars: Mapping[str, Calendar] = field(default_factory=dict, compare=False, repr=False, metadata=NOT_STORED)
    """The calendars the schedule names, read beside the job; not stored with it."""
    spread: Spread | None = field(default=None, compare=False, repr=False, metadata=NOT_STORED)
    """Where its occurrences lie from now on, read beside the job. None: in the home cell, for there is no other."""
    cancelled_with: Group | None = field(default=None, compare=False, repr=False, metadata=NOT_STORED)
    """The group that has cancelled it, read beside it where its chain is stepped."""
    applied: Applied | None = field(default=None, compare=False, repr=False, metadata=NOT_STORED)

    @property
    def is_hard(self) -> bool:
        """Whether one of its calendars, which have been read, is hard: then nothing of it starts in a freeze."""
        return any(calendar.hard for calendar in self.calendars.values())

    @property
    def is_guarded(self) -> bool:
        """Whether the starts of its runs have to read the definition."""
        return self.work.is_guarded or self.is_hard

    @property
    def goes_by(self) -> int:
        """The version of the platform's defaults by which it stands here."""
        return self.defaults_base if self.applied is None else self.applied.version

    def applying(self, version: int, **values: Any) -> Job:
        """The job with fields as they are by a version of the platform's defaults. `retry` is its work's."""
        mine = {name: self.work.retry if name == "retry" else getattr(self, name) for name in values}
        stored = mine | dict(self.applied.stored if self.applied else {})
        return replace(self._with(values), applied=Applied(version, stored))

    def as_stored(self) -> Job:
        """The job as it is by the version that it was registered by: so it is written, and no other way."""
        return self if self.applied is None else replace(self._with(self.applied.stored), applied=None)

    def _with(self, values: Mapping[str, Any]) -> Job:
        own = {name: value for name, value in values.items() if name != "retry"}
        return replace(self, **own, work=replace(self.work, retry=values.get("retry", self.work.retry)))

    def key(self) -> Item:
        return {"job_id": self.job_id}

    def next_key(self, home: str) -> LedgerKey | None:
        """The ledger key of the pending occurrence."""
        return None if self.next is None else self.occurrence_key(home, self.next)

    def occurrence_key(self, home: str, at: Next) -> LedgerKey:
        """`home`: the home cell, where nothing was read beside the job that says which that is."""
        cell = at.cell or (self.spread.home if self.spread else home)
        return LedgerKey(cell, at.shard, at.fire_at_ms, self.team, self.name, at.scheduled_at_ms)

    def defined_as(self, definition: Definition) -> Job:
        """The job with another definition. What a newer version has stored inside its parts stays."""
        whole = items.carrying(definition, self)
        return replace(self, **items.values_of(whole, Definition))

    def to_item(self) -> Item:
        return items.written(self.as_stored()) | self.key() | job_marks(self.team, self.group)

    @classmethod
    def from_item(cls, item: Item) -> Self:
        job = items.read(cls, item)
        if item.get("job_id") != job.job_id:
            raise Unreadable(f"job {item.get('job_id')!r}: it calls itself {job.job_id[:200]!r}")
        return job


def registered(definition: Definition, **standing: Any) -> Job:
    """The job that a definition makes."""
    return Job(**items.values_of(definition, Definition), **standing)
