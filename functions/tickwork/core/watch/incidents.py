"""An incident: that a job is silent, who was told of it and when, and until when nobody is to be told again.

One for each job and kind, at a place of its own, so that two watchdogs open one. Owns its record and what is due of it
at an instant. Refuses to know how a message travels. Protects: what is claimed by a write is told once, and again only
where the write that says so is missing; one that was acknowledged is told to nobody until it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tickwork.core.ids import job_id_of
from tickwork.core.instants import MINUTE_MS, SECOND_MS, iso_ms
from tickwork.core.jobs.contracts import Contract
from tickwork.core.ledger import items
from tickwork.core.ledger.items import Record, always
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Absent, Anyway, Delete, Is, Item, Put

OPEN, PAST = "@incidents", "@incidents-past"
"""Partitions of the table `teams`: `team#name#kind`. Of those that are over, the last of each job and kind."""
SILENT, UNREADABLE = "silent", "unreadable"
KINDS = (SILENT, UNREADABLE)

GATHER_MS = 2 * MINUTE_MS
"""So long after one was opened is its owner told: others of the team that fall silent with it are one message."""
AGAIN_MS = 2 * MINUTE_MS
"""After this, what was claimed and not said to be told is told again: whoever claimed it has died."""
WORST_MAX = 3


@dataclass(frozen=True, slots=True)
class Incident(Record):
    """`rev` goes up with each write: a write is of who has read the one before."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell",)

    team: str = always("")
    """The key: `team#name#kind`."""
    rev: int = always(1)
    opened_at_ms: int = always(0)
    since_ms: int = 0
    """When the silence began; 0: not known."""
    by_ms: int = 0
    """By when a success had to come."""
    silence_s: int = 0
    version: int = 0
    """Of the job, when it was opened."""
    why: str = ""
    """What was known when it was opened: how the last run ended, or what stood in its way."""
    tells: int = 0
    claimed_at_ms: int = 0
    told_at_ms: int = 0
    told_all: bool = False
    """Whether the team's other routes were told as well."""
    acknowledged_by: str = ""
    acknowledged_at_ms: int = 0
    acknowledged_why: str = ""
    snoozed_until_ms: int = 0
    """0, of one that is acknowledged: until it is over."""
    closed_at_ms: int = 0
    missed: int = 0
    how: str = ""
    """How it ended."""

    @property
    def of_team(self) -> str:
        return self.team.split("#")[0]

    @property
    def job_id(self) -> str:
        team, name, _ = self.team.split("#")
        return job_id_of(team, name)

    @property
    def kind(self) -> str:
        return self.team.split("#")[2]

    @property
    def message_name(self) -> str:
        """What its next message is called, whoever sends it."""
        return f"incident {self.team} {self.opened_at_ms} {self.tells}{' closed' if self.closed_at_ms else ''}"

    def key(self) -> Item:
        return {"cell": OPEN, "team": self.team}

    def to_item(self) -> Item:
        return items.written(self) | self.key()


def key_of(job_id: str, kind: str) -> Item:
    team, _, name = job_id.partition(":")
    return {"cell": OPEN, "team": f"{team}#{name}#{kind}"}


def opened(job_id: str, kind: str, now_ms: int) -> Incident:
    return Incident(team=str(key_of(job_id, kind)["team"]), opened_at_ms=now_ms)


def opening(incident: Incident) -> Put:
    return Put(TEAMS, incident.to_item(), Absent())


def revised(before: Incident, after: Incident) -> Put:
    """The write that turns the one that was read into another. What a newer version has stored beside stays."""
    return Put(TEAMS, replace(after, rev=before.rev + 1).to_item(), Is("rev", before.rev))


def ending(incident: Incident) -> tuple[Delete, Put]:
    """It is over, and everybody has heard so."""
    whatever = Anyway("a note: the one before gives way, whatever clock it went by, and keeps this one from no end")
    past = Put(TEAMS, items.written(incident) | {"cell": PAST}, whatever)
    return Delete(TEAMS, incident.key(), Is("rev", incident.rev)), past


# --- what is due of it ------------------------------------------------------------------------------------------


def is_quiet(incident: Incident, now_ms: int) -> bool:
    """Whether somebody has said that he has heard, and for now that is enough."""
    has_said = bool(incident.acknowledged_at_ms)
    return has_said and (not incident.snoozed_until_ms or now_ms < incident.snoozed_until_ms)


def is_due(incident: Incident, contract: Contract, now_ms: int) -> bool:
    """Whether it is to be told now."""
    if incident.claimed_at_ms > incident.told_at_ms:
        return now_ms - incident.claimed_at_ms >= AGAIN_MS
    if incident.closed_at_ms:
        return bool(incident.tells)  # who was told of it hears that it is over
    if is_quiet(incident, now_ms):
        return False
    if not incident.told_at_ms:
        return now_ms - incident.opened_at_ms >= GATHER_MS
    if incident.snoozed_until_ms and incident.told_at_ms < incident.snoozed_until_ms <= now_ms:
        return True
    if goes_to_all(incident, contract, now_ms) and not incident.told_all:
        return True
    return now_ms - incident.told_at_ms >= contract.repeat_s * SECOND_MS


def goes_to_all(incident: Incident, contract: Contract, now_ms: int) -> bool:
    """Whether the team's other routes are told too: nobody has acknowledged it for a while; or they were before."""
    after_ms = contract.second_route_after_s * SECOND_MS
    unheard = not incident.acknowledged_at_ms and now_ms - incident.opened_at_ms >= after_ms
    is_later = bool(incident.told_at_ms) and not incident.closed_at_ms
    return incident.told_all or (len(contract.routes) > 1 and unheard and is_later)


def claimed(incident: Incident, contract: Contract, now_ms: int) -> Incident:
    """It is about to be told. One that is told again for whoever died keeps its message's name."""
    again = incident.claimed_at_ms > incident.told_at_ms
    tells = incident.tells if again or incident.closed_at_ms else incident.tells + 1
    return replace(
        incident,
        tells=tells,
        claimed_at_ms=now_ms,
        told_all=goes_to_all(incident, contract, now_ms),
    )


def told(incident: Incident, now_ms: int) -> Incident:
    return replace(incident, told_at_ms=max(now_ms, incident.claimed_at_ms))


def acknowledged(incident: Incident, by: str, why: str, now_ms: int, until_ms: int) -> Incident:
    said = replace(incident, acknowledged_by=by, acknowledged_at_ms=now_ms, acknowledged_why=why)
    return replace(said, snoozed_until_ms=until_ms)


def closed(incident: Incident, now_ms: int, how: str, missed: int = 0) -> Incident:
    return replace(incident, closed_at_ms=now_ms, how=how, missed=missed)


# --- what is said -----------------------------------------------------------------------------------------------


def words(incident: Incident, now_ms: int) -> str:
    """Measured facts (A13)."""
    if incident.kind == UNREADABLE:
        return f"{incident.job_id}: its definition cannot be read, and nothing is known of its runs ({incident.why})"
    silent_s = (now_ms - incident.since_ms) // SECOND_MS
    return (
        f"{incident.job_id}: no success since {iso_ms(incident.since_ms)} ({silent_s} s); at most "
        f"{incident.silence_s} s were allowed, until {iso_ms(incident.by_ms)}; {incident.why}"
    )


def recovery(incident: Incident) -> str:
    lasted_s = (incident.closed_at_ms - incident.opened_at_ms) // SECOND_MS
    missed = f"; {incident.missed} occurrences were missed" if incident.missed else ""
    return f"{incident.job_id}: {incident.how} after {lasted_s} s{missed}"


def worst(found: list[Incident]) -> list[Incident]:
    """Those that are silent for longest."""
    return sorted(found, key=lambda one: (one.since_ms or one.opened_at_ms, one.team))[:WORST_MAX]
