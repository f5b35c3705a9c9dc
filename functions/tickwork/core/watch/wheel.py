"""The wheel of deadlines: by when the watchdog has to look at a job again (O2).

One small item for each deadline, by the minute in which it is reached and spread over some partitions, in the table
`teams`. It is put anew when it is reached, and never when a run succeeds. Owns its places and what it says. Protects: a
deadline too many is harmless, for the job itself is judged when it is reached; none is put where the watchdog has been.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tickwork.core.ids import job_id_of, stable_hash
from tickwork.core.instants import MINUTE_MS, SECOND_MS
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger import items
from tickwork.core.ledger.items import Record, Unreadable, always
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Anyway, Delete, Is, Item, Put

SPREADS = 4
"""Partitions of a minute: so many thousand deadlines are put and taken in each second of it."""
AHEAD_MS = 2 * MINUTE_MS
"""How far ahead a deadline is put at least: whoever puts one may be slow, or have another clock, by less than that."""
SLACK_MS = 10 * SECOND_MS
"""How long after its end a minute is looked at."""

PLACE: Item = {"cell": "@wheel", "team": "place"}
"""How far the watchdog has come: `minute`."""


@dataclass(frozen=True, slots=True)
class Deadline(Record):
    """That a job is looked at in a minute. `silence_s`: what it was put by, for when nobody can tell any more."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell",)

    minute: int = always(0)
    team: str = always("")
    """The key: `team#name`."""
    silence_s: int = 0
    mark: int = 0
    """The job's `deadline_mark` when it was put. A change of the job puts one of its own, and so each job has one chain
    of them."""

    @property
    def job_id(self) -> str:
        return job_id_of(*self.team.split("#", 1))

    def key(self) -> Item:
        return {"cell": partition(self.minute, spread_of(self.job_id)), "team": self.team}

    def to_item(self) -> Item:
        return items.written(self) | self.key()


def partition(minute: int, spread: int) -> str:
    return f"@wheel#{minute:08d}#{spread:02d}"


def spread_of(job_id: str) -> int:
    return stable_hash(job_id) % SPREADS


def deadline(job: Job, at_ms: int, silence_s: int, now_ms: int) -> Deadline:
    """The deadline of a job that is reached at an instant, or a little later where that is too near."""
    return Deadline(minute_of(max(at_ms, now_ms + AHEAD_MS)), f"{job.team}#{job.name}", silence_s, job.deadline_mark)


def put(one: Deadline) -> Put:
    return Put(TEAMS, one.to_item(), Anyway("it says the same whoever puts it"))


def taken(one: Deadline) -> Delete:
    return Delete(TEAMS, one.key(), Is("minute", one.minute))


def minute_of(at_ms: int) -> int:
    return at_ms // MINUTE_MS


def looked_through(now_ms: int) -> int:
    """The last minute that is over, whoever's clock it goes by."""
    return (now_ms - SLACK_MS) // MINUTE_MS - 1


def deadline_from(item: Item) -> Deadline:
    """Unreadable when it is none of a job."""
    found = Deadline.from_item(item)
    if "#" not in found.team:
        raise Unreadable(f"deadline {found.team[:80]!r}: it names no job")
    return found
