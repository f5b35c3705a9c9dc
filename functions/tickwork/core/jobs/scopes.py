"""Pauses of many jobs and timers at once: of a team, of a group of it, of a pool, of the cell (F12).

One item for each scope that is paused, or was lately, with its pauses as a job has its own (`pauses`). What a scope
covers is told from an item of the ledger and its pool alone: no list is kept of what is paused, and nothing is written
to it. Owns what is stored and what it covers. Refuses to know who may pause what. Protects: a pause stops starts, and
nothing else; what has been started is never asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from tickwork.core.access.teams import PAUSES
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.pauses import Pause, is_over, pause_in_force, skipping_at
from tickwork.core.ledger import kinds, lanes
from tickwork.core.ledger.items import Record, Spelling, always, spelled
from tickwork.core.ledger.writes import Item

TEAM, POOL, CELL, GROUP = "team", "pool", "cell", "group"
ALL_CELLS = "*"

KNOWN_MS = 14 * 86_400 * SECOND_MS
"""How long a pause that is over is still known: what it covered, and nobody has come to since, is decided by it; and
what has waited for its end is given the thirteen days from then that a message in its queue has."""


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """What is paused. `owner`: the team that answers for it, the platform's for a cell and the deployment's pools. A
    cell is named, or `*` for all; a pool is with its lanes. A kind that another version has made covers nothing here.
    """

    owner: str
    kind: str
    name: str

    @property
    def key(self) -> str:
        return f"{self.owner}#{self.kind}#{self.name}"

    @property
    def words(self) -> str:
        return f"the {self.kind} {self.name}"

    def covers(self, team: str, pool: str, group: str) -> bool:
        """Whether what a team has in a pool, and in a group ('': in none), lies in it: of a cell, in one that was asked
        for (`Paused.in_cell`)."""
        match self.kind:
            case "team":
                return team == self.name
            case "group":
                return (team, group) == (self.owner, self.name)
            case "pool":
                return pool in lanes.pools_of(self.name)
            case "cell":
                return True
        return False

    def at(self, pool: str) -> Scope:
        """The scope as a row of what waits names it: of a pool, the very pool that is waited for, for who knows of no
        lanes takes a row for its own pool's alone."""
        return replace(self, name=pool) if self.kind == POOL else self

    @property
    def rows(self) -> tuple[Scope, ...]:
        """The names of all its rows."""
        return tuple(self.at(pool) for pool in lanes.pools_of(self.name)) if self.kind == POOL else (self,)


def is_pausable(kind: str) -> bool:
    """Whether pauses are about items of a kind. What somebody has started by hand is one run, and no part of what is
    paused: it goes, and the pause stays as it is."""
    return not kinds.own(kind)


def parse_scope(text: str) -> Scope:
    """The inverse of `Scope.key`; ValueError when it is none."""
    parts = text.split("#")
    if len(parts) != 3 or not all(parts):
        raise ValueError(f"{text[:80]!r} is no scope of a pause")
    return Scope(*parts)


def scope_key(scope: Scope) -> Item:
    """In the partition of the table `teams` that windows and starts read whole."""
    return {"cell": PAUSES, "team": scope.key}


_BY_KEY = Spelling(("team",), scope_key, lambda item: parse_scope(item["team"]), is_required=True)


@dataclass(frozen=True, slots=True)
class PausedScope(Record):
    """A scope with its pauses, the last one behind."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell",)

    scope: Scope = field(metadata=spelled(_BY_KEY))
    pauses: tuple[Pause, ...] = ()
    version: int = always(1)
    audit_head: str = ""

    @property
    def kind(self) -> str:
        return self.scope.kind

    def is_forgotten(self, now_ms: int) -> bool:
        """Whether nothing that it has covered can still be waiting for a decision."""
        return all(is_over(pause, now_ms) and pause.until_ms + KNOWN_MS <= now_ms for pause in self.pauses)


@dataclass(frozen=True, slots=True)
class Paused:
    """All scopes that are paused, or were lately, as they were read at one instant."""

    scopes: tuple[PausedScope, ...] = ()

    def in_force(self, team: str, pool: str, group: str, now_ms: int) -> Scope | None:
        """A scope that keeps what a team has in a pool from being started: the least by name, so all say one."""
        over = (one for one in self.scopes if one.scope.covers(team, pool, group))
        return next((one.scope.at(pool) for one in over if pause_in_force(one.pauses, now_ms)), None)

    def in_cell(self, cell: str) -> Paused:
        """As far as a cell goes."""
        return Paused(tuple(one for one in self.scopes if one.kind != CELL or one.scope.name in (cell, ALL_CELLS)))

    @property
    def has_pools(self) -> bool:
        return any(one.kind == POOL for one in self.scopes)

    def concerns(self, team: str, scheduled_at_ms: int, now_ms: int) -> bool:
        """Whether something of a team that is due then may have to do with a pause, whatever its pool and group."""
        return any(
            pause_in_force(one.pauses, now_ms) or skipping_at(one.pauses, scheduled_at_ms)
            for one in self.scopes
            if one.kind == POOL or one.scope.covers(team, "", one.scope.name)
        )

    def pauses_of(self, team: str, pool: str, group: str) -> tuple[Pause, ...]:
        return tuple(pause for one in self.scopes if one.scope.covers(team, pool, group) for pause in one.pauses)

    def waited_until_ms(self, team: str, pool: str, group: str, due_ms: int, now_ms: int) -> int:
        """When the last pause ended that has kept waiting what was due then; 0: none is known to have."""
        ended = (pause for pause in self.pauses_of(team, pool, group) if is_over(pause, now_ms))
        return max((pause.until_ms for pause in ended if pause.until_ms > due_ms), default=0)

    def applied_to(self, job: Job) -> Job:
        """A job as it is to be decided on: with the pauses of what it lies in beside its own."""
        added = self.pauses_of(job.team, job.work.pool, job.group)
        return replace(job, pauses=(*job.pauses, *added)) if added else job

    def end_of(self, scope: Scope, now_ms: int) -> int | None:
        """When the pause of a scope that is in force ends by itself (0: never); None: none is in force. Of a lane it is
        its own, or its pool's."""
        over = (one for one in self.scopes if scope in one.scope.rows)
        ends_ms = [pause.until_ms for one in over if (pause := pause_in_force(one.pauses, now_ms)) is not None]
        return None if not ends_ms else 0 if 0 in ends_ms else max(ends_ms)


NONE = Paused()


def paused_of(found: Sequence[PausedScope]) -> Paused:
    return Paused(tuple(sorted(found, key=lambda one: one.scope)))
