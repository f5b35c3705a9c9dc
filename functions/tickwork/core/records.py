"""What the tables hold, as frozen values, and the only code that turns them into items and back.

Reading is tolerant (attributes of a newer version are kept out of the way), writing is strict. An item that can
not be read raises `Unreadable`: it is parked by the caller, never deleted and never guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Self

from tickwork.core import lifecycle
from tickwork.core.errors import TickworkError
from tickwork.core.ids import job_id_of, run_id_of
from tickwork.core.keys import LedgerKey, parse_ledger_key, parse_ref
from tickwork.core.pauses import Pause
from tickwork.core.schedule.calendar import Calendar
from tickwork.core.writes import Item

KEYED, NATURAL, UNSAFE = "keyed", "natural", "unsafe"
"""Idempotency classes: by `run_id`, by nature, or not at all."""

ACTIVE, FINISHED, ERROR, DELETED = "active", "finished", "error", "deleted"


class Unreadable(TickworkError):
    """A stored item that this version can not read."""


@cache
def _defaults_of(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((f.name, f.default) for f in fields(kind))


def without_defaults(record: Any) -> Item:
    """The attributes of a flat record that differ from their defaults: small items are cheap items."""
    defaults = _defaults_of(record.__class__)
    return {name: value for name, default in defaults if (value := getattr(record, name)) != default}


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`min(base_s * 2^attempt, cap_s) * uniform(0.8, 1.2)`, at most `max_attempts` attempts (spec W5).

    `jitter_percent` is the half-width of the draw. Error classes named in `no_retry_on` end the run at once; when
    `retry_on` names any, all others do.
    """

    max_attempts: int = 5
    base_s: int = 30
    cap_s: int = 3600
    jitter_percent: int = 20
    no_retry_on: tuple[str, ...] = ()
    retry_on: tuple[str, ...] = ()

    @classmethod
    def from_item(cls, item: Item) -> Self:
        lists: Item = {name: tuple(item[name]) for name in ("no_retry_on", "retry_on") if name in item}
        return cls(**(item | lists))


_DEFAULT_RETRY = RetryPolicy()


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What becomes of occurrences missed in an outage (spec F8). `last` counts with policy 'last' only."""

    policy: str = "latest"
    last: int = 0
    max_lateness_s: int = 0
    """0: no bound."""


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that only so many runs of a team may use at a time, across all jobs that declare it (F11)."""

    name: str
    max_concurrency: int


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done, by whom: the pool's queue, the handler there, the payload (JSON text) or where it is."""

    pool: str
    handler: str
    payload: str | None = None
    payload_id: str | None = None
    lease_s: int = 60
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    max_duration_s: int = 0
    """How long one attempt may take; 0: as long as its worker keeps the lease."""
    idempotency_class: str = KEYED
    sign_off: Mapping[str, str] | None = None
    """Who took it upon them, and why, that an `unsafe` job may be lost."""
    side_effects: tuple[str, ...] = ()
    certificate: Mapping[str, str] | None = None
    """Which code was shown to make a double delivery harmless, and when."""
    resources: tuple[Resource, ...] = ()
    url: str = ""
    """Where the run is pushed to, instead of waiting for a worker."""
    traceparent: str = ""
    """The W3C trace context of whoever created a one-shot: its run carries on that trace."""

    @property
    def is_unsafe(self) -> bool:
        """At most once: started once, and never again by itself (W7)."""
        return self.idempotency_class == UNSAFE

    @property
    def is_guarded(self) -> bool:
        """Whether the definition limits how a run may start: its starts then read the definition."""
        return bool(self.max_duration_s or self.resources) or self.is_unsafe

    def to_item(self) -> Item:
        item = without_defaults(self)
        retry = without_defaults(item.pop("retry"))
        if self.resources:
            item["resources"] = {one.name: one.max_concurrency for one in self.resources}
        return {**item, **({"retry": retry} if retry else {})}

    @classmethod
    def from_item(cls, item: Item) -> Self:
        return cls(
            pool=item["pool"],
            handler=item["handler"],
            payload=item.get("payload"),
            payload_id=item.get("payload_id"),
            lease_s=item.get("lease_s", 60),
            max_duration_s=item.get("max_duration_s", 0),
            idempotency_class=item.get("idempotency_class", KEYED),
            sign_off=item.get("sign_off"),
            url=item.get("url", ""),
            side_effects=tuple(item.get("side_effects", ())),
            certificate=item.get("certificate"),
            traceparent=item.get("traceparent", ""),
            resources=tuple(Resource(name, count) for name, count in item.get("resources", {}).items()),
            retry=RetryPolicy.from_item(item["retry"]) if "retry" in item else _DEFAULT_RETRY,
        )


@dataclass(frozen=True, slots=True)
class Next:
    """A job's one pending occurrence: the nominal instant, when it fires, and the shard its item is in."""

    scheduled_at_ms: int
    fire_at_ms: int
    shard: int


@dataclass(frozen=True, slots=True)
class Job:
    """A registered job. `next` is its pending timer; `fired_through_ms` the last nominal instant it has passed:
    no occurrence at or before that is ever materialised again."""

    team: str
    name: str
    schedule: Mapping[str, Any]
    work: Work
    version: int = 1
    status: str = ACTIVE
    tolerance_s: int = 0
    catch_up: CatchUp = field(default_factory=CatchUp)
    created_at_ms: int = 0
    scheduled_since_ms: int = 0
    """When its schedule was last changed (0: never): a recurring schedule has no occurrence up to then."""
    fired_through_ms: int = 0
    next: Next | None = None
    reason: str | None = None
    last: Mapping[str, Any] | None = None
    fingerprint: str = ""
    exact_reason: str = ""
    """Why a cron job has to be exact (T5)."""
    pauses: tuple[Pause, ...] = ()
    planned_with: str = ""
    """The zone data and the calendars that `next` was computed from: when they change, it is computed anew (T6)."""
    calendars: Mapping[str, Calendar] = field(default_factory=dict, compare=False, repr=False)
    """The calendars the schedule names, read beside the job; not stored with it."""

    @property
    def job_id(self) -> str:
        return job_id_of(self.team, self.name)

    def key(self) -> Item:
        return {"job_id": self.job_id}

    def next_key(self, cell: str) -> LedgerKey | None:
        """The ledger key of the pending occurrence."""
        return None if self.next is None else self.occurrence_key(cell, self.next)

    def occurrence_key(self, cell: str, at: Next) -> LedgerKey:
        return LedgerKey(cell, at.shard, at.fire_at_ms, self.team, self.name, at.scheduled_at_ms)

    def to_item(self) -> Item:
        item: Item = {
            "job_id": self.job_id,
            "team": self.team,
            "name": self.name,
            "schedule": dict(self.schedule),
            "work": self.work.to_item(),
            "version": self.version,
            "status": self.status,
            "tolerance_s": self.tolerance_s,
            "created_at_ms": self.created_at_ms,
            "fired_through_ms": self.fired_through_ms,
            "fingerprint": self.fingerprint,
            "planned_with": self.planned_with,
            **next_attributes(self.next),
        }
        optional = {
            "catch_up": without_defaults(self.catch_up),
            "exact_reason": self.exact_reason,
            "scheduled_since_ms": self.scheduled_since_ms,
            "pauses": [pause.to_item() for pause in self.pauses],
            "reason": self.reason,
            "last": self.last,
        }
        return item | {name: value for name, value in optional.items() if value}

    @classmethod
    def from_item(cls, item: Item) -> Self:
        try:
            upcoming = None
            if item["next_scheduled_at_ms"]:
                upcoming = Next(item["next_scheduled_at_ms"], item["next_fire_at_ms"], item["next_shard"])
            return cls(
                team=item["team"],
                name=item["name"],
                schedule=item["schedule"],
                work=Work.from_item(item["work"]),
                version=item["version"],
                status=item["status"],
                tolerance_s=item["tolerance_s"],
                catch_up=CatchUp(**item.get("catch_up", {})),
                created_at_ms=item["created_at_ms"],
                scheduled_since_ms=item.get("scheduled_since_ms", 0),
                fired_through_ms=item["fired_through_ms"],
                next=upcoming,
                reason=item.get("reason"),
                last=item.get("last"),
                fingerprint=item.get("fingerprint", ""),
                exact_reason=item.get("exact_reason", ""),
                pauses=tuple(Pause.from_item(one) for one in item.get("pauses", ())),
                planned_with=item.get("planned_with", ""),
            )
        except (KeyError, TypeError) as error:
            raise Unreadable(f"job {item.get('job_id')!r}: {error!r}") from error


def next_attributes(upcoming: Next | None) -> Item:
    """A job's `next` as attributes: flat and always there, so that a compare-and-set is one equality."""
    at = upcoming or Next(0, 0, 0)
    return {
        "next_scheduled_at_ms": at.scheduled_at_ms,
        "next_fire_at_ms": at.fire_at_ms,
        "next_shard": at.shard,
    }


@dataclass(frozen=True, slots=True)
class Run:
    """A ledger item of an occurrence: the timer while it is pending, the record of its run ever after.

    `work` is None for a recurring job's run (the definition is in `jobs`). `attempts` lists the attempts that
    have ended; the current one, and a first one that succeeded, is in the fields of the run itself.
    """

    key: LedgerKey
    status: str = lifecycle.PENDING
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
    created_at_ms: int = 0
    reason: str = ""
    attempts: tuple[Mapping[str, Any], ...] = ()
    guarded: bool = False
    """Its definition limits how it may start, so no start may pass without reading it."""
    stop_at_ms: int = 0
    """When the current attempt has taken as long as it may; 0: no bound."""
    slots: tuple[str, ...] = ()
    """The slots that the current attempt holds, by name."""
    replays: tuple[Mapping[str, Any], ...] = ()
    """Who had it run again after it was dead, when, why, and after how many attempts."""
    cancel_requested: str = ""
    """Why the running attempt should stop; its worker learns of it with the next heartbeat."""

    @property
    def run_id(self) -> str:
        return run_id_of(self.key.job_id, self.key.scheduled_at_ms)

    @property
    def is_recurring(self) -> bool:
        return self.work is None

    @property
    def ended(self) -> bool:
        return self.status in lifecycle.ENDED

    @property
    def replayed_after(self) -> int:
        """Attempts before the last replay: a policy's attempts and waits count from there."""
        return int(self.replays[-1]["after_attempt"]) if self.replays else 0

    def to_item(self) -> Item:
        item: Item = self.key.as_item() | without_defaults(self) | {"status": self.status}
        for name in _RUN_STRUCTURED:
            item.pop(name, None)
        if self.work is None:
            item |= {"job_id": self.key.job_id, "scheduled_at_ms": self.key.scheduled_at_ms}
        else:
            item["work"] = self.work.to_item()
        listed = (("attempts", self.attempts), ("replays", self.replays))
        item |= {name: [dict(one) for one in records] for name, records in listed if records}
        return item | ({"slots": list(self.slots)} if self.slots else {})

    @classmethod
    def from_item(cls, item: Item) -> Self:
        try:
            if item["status"] not in lifecycle.MEANING:
                raise Unreadable(f"{item['pk']}|{item['sk']}: unknown status {item['status']!r}")
            plain = {name: item[name] for name in _RUN_PLAIN if name in item}
            return cls(
                key=parse_ledger_key(item["pk"], item["sk"]),
                work=Work.from_item(item["work"]) if "work" in item else None,
                attempts=tuple(item.get("attempts", ())),
                replays=tuple(item.get("replays", ())),
                slots=tuple(item.get("slots", ())),
                **plain,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable(f"{item.get('pk')}|{item.get('sk')}: {error!r}") from error


_RUN_STRUCTURED = ("key", "work", "attempts", "replays", "slots")
_RUN_PLAIN = tuple(f.name for f in fields(Run) if f.name not in _RUN_STRUCTURED)


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry of a run: a small ledger item of its own, which points at the run's."""

    key: LedgerKey
    run_ref: str
    attempt: int
    status: str = lifecycle.PENDING

    def to_item(self) -> Item:
        return self.key.as_item() | {"status": self.status, "run_ref": self.run_ref, "attempt": self.attempt}

    @classmethod
    def from_item(cls, item: Item) -> Self:
        try:
            key = parse_ledger_key(item["pk"], item["sk"])
            parse_ref(item["run_ref"])
            return cls(key, item["run_ref"], item["attempt"], item["status"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Unreadable(f"{item.get('pk')}|{item.get('sk')}: {error!r}") from error
