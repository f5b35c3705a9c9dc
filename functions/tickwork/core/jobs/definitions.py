"""What a team has registered: a job, its policies, and its one pending occurrence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from tickwork.core.ids import job_id_of
from tickwork.core.jobs.pauses import Pause
from tickwork.core.ledger.items import Unreadable, without_defaults
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Item
from tickwork.core.schedule.calendars.calendar import Calendar

ACTIVE, FINISHED, ERROR, DELETED = "active", "finished", "error", "deleted"


@dataclass(frozen=True, slots=True)
class CatchUp:
    """What becomes of occurrences missed in an outage (spec F8). `last` counts with policy 'last' only."""

    policy: str = "latest"
    last: int = 0
    max_lateness_s: int = 0
    """0: no bound."""


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
