"""What the tables hold, as frozen values; `items` turns them into items and back by their fields.

Reading is tolerant (attributes of a newer version are carried, out of the way), writing is strict. An item that cannot
be read raises `Unreadable`: it is parked by the caller, never deleted and never guessed at.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, NotRequired, TypedDict

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import items, lifecycle
from tickwork.core.ledger.groups import GROUPED, timer_marks
from tickwork.core.ledger.items import Record, Spelling, spelled
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key, parse_ref
from tickwork.core.ledger.kinds import LOOK
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Item

_PLACE = Spelling(
    ("pk", "sk"), LedgerKey.as_item, lambda item: parse_ledger_key(item["pk"], item["sk"]), is_required=True
)


def _status(value: str) -> str:
    if value in lifecycle.MEANING:
        return value
    raise ValueError(f"unknown status {value!r}")


def _ref(value: str) -> str:
    parse_ref(value)
    return value


_STATUS = {"always": True, "required": True, "read": _status}


class AttemptRecord(TypedDict):
    """An attempt that has ended, as it stands in the history of its run."""

    attempt: int
    token: int
    worker: str
    started_at_ms: int
    ended_at_ms: int
    outcome: str
    error: str
    error_class: NotRequired[str]


class ReplayRecord(TypedDict):
    """Who had a run tried again after it was dead, when, why, and after how many attempts."""

    by: str
    reason: str
    at_ms: int
    after_attempt: int
    died_of: str
    definition: NotRequired[int]


class PutOffRecord(TypedDict):
    """That a start was put off: before which attempt, by which hard calendar, since when and until when."""

    attempt: int
    calendar: str
    since_ms: int
    until_ms: int


class HeldBy(TypedDict):
    """The run that held a job when an occurrence was skipped or buffered, and its status then."""

    run_id: str
    occurrence: str
    status: str


@dataclass(frozen=True, slots=True)
class Stands:
    """What a pending one-shot is counted for in what its team holds: itself, and some that were created before it;
    the bytes of their payloads; and the part of the counter. One text, so that a write can have it for a condition."""

    timers: int
    bytes: int
    week: str

    def as_text(self) -> str:
        return f"{self.timers}#{self.bytes}#{self.week}"


def stands_of(item: Item) -> Stands | None:
    """What an item is counted for; ValueError when that cannot be read."""
    if "stands_for" not in item:
        return None
    timers, size, week = str(item["stands_for"]).split("#")
    return Stands(int(timers), int(size), week)


_STANDS = Spelling(("stands_for",), lambda one: {} if one is None else {"stands_for": one.as_text()}, stands_of)


@dataclass(frozen=True, slots=True)
class Run(Record):
    """A ledger item of an occurrence: the timer while it is pending, the record of its run ever after.

    `work` is None for a recurring job's occurrence (the definition is in `jobs`). `attempts` lists the attempts that
    have ended; the current one, and a first one that succeeded, is in the fields of the run itself.
    """

    DERIVED: ClassVar[tuple[str, ...]] = ("job_id", "scheduled_at_ms", GROUPED)

    key: LedgerKey = field(metadata=spelled(_PLACE))
    status: str = field(default_factory=lifecycle.born, metadata=_STATUS)
    work: Work | None = None
    attempt: int = 0
    token: int = 0
    claim: str = ""
    worker: str = ""
    lease_until_ms: int = 0
    started_at_ms: int = 0
    ended_at_ms: int = 0
    retry_at_ms: int = 0
    """When the pending retry of a waiting run is due."""
    dispatched_at_ms: int = 0
    dispatched_by: str = ""
    first_dispatched_at_ms: int = 0
    """When its first attempt was dispatched, once there has been another: how late the schedule was says this alone."""
    created_at_ms: int = 0
    reason: str = ""
    attempts: tuple[AttemptRecord, ...] = ()
    guarded: bool = False
    """Its definition limits how it may start, so no start may pass without reading it."""
    start_by_ms: int = 0
    """Until when its first attempt may start; 0: late beats lost. Set at its birth, and asked in the start's write."""
    hard: bool = False
    """A calendar of its job is `hard`: no start may pass without reading the calendars either. (Then it is guarded.)"""
    stop_at_ms: int = 0
    """When the current attempt has taken as long as it may; 0: no bound."""
    slots: tuple[str, ...] = ()
    """The slots that the current attempt holds, by name."""
    replays: tuple[ReplayRecord, ...] = ()
    definition: int = 0
    """The version of its job whose definition it runs by since a replay that asked for one; 0: its own."""
    put_off: tuple[PutOffRecord, ...] = ()
    """How its starts had to wait for the end of a freeze."""
    cancel_requested: str = ""
    """Why the running attempt should stop; its worker learns of it with the next heartbeat."""
    handed_back: int = 0
    """The token of the attempt whose worker had to stop and gave the run back. Of another token it says nothing."""
    created_by: str = ""
    """Of a one-shot, and of a run that somebody asked for: the actor whose request has created it."""
    because: str = ""
    """Why somebody has asked for it."""
    beside: bool = False
    """It was asked for beside whatever else runs of its job: it holds none of them, and is held by none."""
    cancelled_by: str = ""
    """Of a one-shot that was cancelled before it started: the actor whose request that was."""
    held_by: HeldBy | None = None
    """Of an occurrence that was skipped for overlap, or buffered."""
    released_at_ms: int = 0
    """Of one that was buffered: when what had held it had ended, and it was dispatched."""
    behind: str = field(default="", metadata={"read": _ref})
    """Of one that is buffered, or was: the ref of the one that was buffered after it."""
    replaced_by: str = ""
    """Of one that was skipped because a newer one was due: that one, as a person names it."""
    defaults: int | None = None
    """The version of the platform's defaults that it was planned by, and goes by; None: its job's own first one."""
    stands_for: Stands | None = field(default=None, metadata=spelled(_STANDS))
    """Of a one-shot: what it is counted for, until that is taken back."""
    interrupted: int = 0
    """Attempts that were handed back and that no policy counts, since the run was created or last replayed."""
    group: str = ""
    """The label that it bears: a one-shot its own, a run of a job the job's when it was materialised."""
    epoch: int = 0
    """That of its group when it was made (`epochs`)."""

    @property
    def run_id(self) -> str:
        return self.key.run_id

    @property
    def is_recurring(self) -> bool:
        """Whether it is an occurrence of its job's chain."""
        return self.work is None

    @property
    def is_of_job(self) -> bool:
        """Whether it is a run of a registered job: an occurrence, or one that somebody asked for."""
        return self.work is None or bool(self.key.kind)

    @property
    def start_within_s(self) -> int:
        """What its deadline is after its time; 0: it has none."""
        return (self.start_by_ms - self.key.fire_at_ms) // SECOND_MS if self.start_by_ms else 0

    @property
    def ended(self) -> bool:
        return self.status in lifecycle.ENDED

    @property
    def dispatched_first_at_ms(self) -> int:
        """When it was dispatched for the first time; 0: not yet, or nobody has said."""
        return self.first_dispatched_at_ms or self.dispatched_at_ms

    @property
    def started_first_at_ms(self) -> int:
        """When its first attempt started; 0: not yet."""
        first = self.attempts[0] if self.attempts else None
        return first["started_at_ms"] if first is not None and first["attempt"] == 1 else self.started_at_ms

    @property
    def replayed_after(self) -> int:
        """Attempts before the last replay."""
        return self.replays[-1]["after_attempt"] if self.replays else 0

    @property
    def uncounted(self) -> int:
        """Attempts that a policy does not count: its number of attempts and its waits begin after them."""
        return self.replayed_after + self.interrupted

    @property
    def is_handed_back(self) -> bool:
        """Whether the worker of the current attempt has given the run back."""
        return bool(self.token) and self.handed_back == self.token

    def to_item(self) -> Item:
        """A job's run is found by its job's index; a one-shot is no job's, and found by its group's if it has one."""
        item = items.written(self)
        if self.is_of_job:
            return item | {"job_id": self.key.job_id, "scheduled_at_ms": self.key.scheduled_at_ms}
        return item | timer_marks(self.key, self.group)


@dataclass(frozen=True, slots=True)
class Retry(Record):
    """A retry of a run: a small ledger item of its own, which points at the run's."""

    key: LedgerKey = field(metadata=spelled(_PLACE))
    run_ref: str = field(metadata={"read": _ref})
    attempt: int
    status: str = field(default_factory=lifecycle.born, metadata=_STATUS)


@dataclass(frozen=True, slots=True)
class Look(Record):
    """When to look again whether a buffered run may go: a small ledger item of its own, which points at the run's."""

    key: LedgerKey = field(metadata=spelled(_PLACE))
    run_ref: str = field(metadata={"read": _ref})
    status: str = field(default_factory=lifecycle.born, metadata=_STATUS)


type Due = Run | Retry | Look
"""What a ledger holds that comes due."""


def due_from(item: Item) -> Due:
    """The record of a ledger item, of whatever kind."""
    if "run_ref" not in item:
        return Run.from_item(item)
    return Look.from_item(item) if str(item["sk"]).endswith(f"#{LOOK}") else Retry.from_item(item)
