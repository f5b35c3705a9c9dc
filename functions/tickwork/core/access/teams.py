"""What is stored of a team: who answers for it, where it is paged, what it may use.

Owns the record, its places in the table `teams`, and the mark behind which none of its timers lies. Refuses to know the
store. Protects: who may not say what a team may use does not say it by replacing the team.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from tickwork.core.access.actors import Actor
from tickwork.core.errors import Forbidden
from tickwork.core.instants import MINUTE_MS
from tickwork.core.ledger import items
from tickwork.core.ledger.items import Record, always
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Absent, AllOf, AnyOf, Below, Condition, Delete, Is, Item, Missing, Put, Update

REGISTERED, SEEN, RULES, PAUSES = "@teams", "@seen", "@rules", "@pauses"
"""Partitions of the table `teams`. No cell can be called so."""
UNKNOWN_REFUSED: Item = {"cell": RULES, "team": "unknown-teams-refused"}
"""The item that is there while what teams create that are not registered is refused."""

ROUTES_MAX, SHARED_MAX, SHARED_WITH_MAX = 10, 50, 50
"""So that a team stays an item of some kilobytes: it is read at creations."""
SLACK_MS_MIN, SLACK_PARTS = MINUTE_MS, 16
"""How much further than it needs a creator moves the mark, so that the next ones need not: a sixteenth of how far ahead
its timer lies, and a minute at least."""


@dataclass(frozen=True, slots=True)
class PagerRoute(Record):
    """A way to reach whoever answers for a team: a webhook's URL, a topic's ARN, or an e-mail address."""

    way: str = always("")
    """`webhook`, `topic` or `email`."""
    address: str = always("")


@dataclass(frozen=True, slots=True)
class Quotas(Record):
    """What a team may use at the most; 0: nobody has set a bound."""

    creates_per_s: int = 0
    pending_timers: int = 0
    jobs: int = 0
    payload_bytes: int = 0
    keys: int = 0


@dataclass(frozen=True, slots=True)
class Shared(Record):
    """A resource of the team (a concurrency tag) that other teams may use with it."""

    resource: str = always("")
    teams: tuple[str, ...] = ()


_NO_QUOTAS = Quotas()


@dataclass(frozen=True, slots=True)
class TeamContent(Record):
    """What a team says of itself, and the platform of it."""

    contact: str = always("")
    runbook: str = ""
    routes: tuple[PagerRoute, ...] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Fields of a job, for its jobs to leave out."""
    weight: int = 1
    """Its part, beside the others', of what all want at once."""
    quotas: Quotas = _NO_QUOTAS
    shared: tuple[Shared, ...] = ()
    hides_payloads: bool = False
    """Whether its viewers see no payloads. A version that did not ask has stored nothing of it: they went on seeing
    them, and so they do."""


PLATFORMS_SAY = ("weight", "quotas")
"""What a team cannot say of itself."""


@dataclass(frozen=True, slots=True)
class Team(TeamContent):
    """A registered team."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell",)

    team: str = always("")
    version: int = always(1)
    created_at_ms: int = 0
    created_by: str = ""
    changed_at_ms: int = 0
    changed_by: str = ""
    pending_until_ms: int = 0
    """No timer of the team that was created since it was registered fires later."""
    audit_head: str = ""
    """The last entry of its audit."""

    def to_item(self) -> Item:
        return items.written(self) | {"cell": REGISTERED}

    def says(self, content: TeamContent) -> bool:
        """Whether this is what it says already."""
        return items.values_of(self, TeamContent) == items.values_of(content, TeamContent)

    def saying(self, content: TeamContent) -> Self:
        """The team with other content. What a newer version has stored inside its parts stays."""
        return replace(self, **items.values_of(items.carrying(content, self), TeamContent))


def told(team: TeamContent) -> Item:
    """What a team says, as the audit tells of it."""
    return items.written(TeamContent(**items.values_of(team, TeamContent)))


def team_key(team: str) -> Item:
    return {"cell": REGISTERED, "team": team}


def registration(team: str, content: TeamContent, actor: Actor, now_ms: int) -> Team:
    """A team as it is registered: by the platform, whose say it is who is one."""
    if actor.role != "platform":
        raise Forbidden(
            f"who is a team is the platform's to say, and {team} is not registered yet",
            field="team",
            remedy="have the platform's team register it (`tickwork teams create`)",
        )
    by, at_ms = actor.name, now_ms
    return Team(team=team, created_at_ms=at_ms, created_by=by, changed_at_ms=at_ms, changed_by=by).saying(content)


def revision(team: Team, content: TeamContent, actor: Actor, now_ms: int) -> Team:
    """The team with other content, at its next version. Forbidden when the actor has no say in what would change."""
    for name in PLATFORMS_SAY if actor.role != "platform" else ():
        if getattr(content, name) != getattr(team, name):
            raise Forbidden(
                f"the {name} of a team is the platform's to say",
                field=name,
                remedy="leave it as it is, or ask the platform's team",
            )
    return replace(team.saying(content), version=team.version + 1, changed_at_ms=now_ms, changed_by=actor.name)


def put_team(team: Team) -> Put:
    """The write of a team that `registration` or `revision` made."""
    condition: Condition = Absent() if team.version == 1 else _stands(team, team.version - 1)
    return Put(TEAMS, team.to_item(), condition)


def deletion(team: Team) -> Delete:
    return Delete(TEAMS, team_key(team.team), _stands(team, team.version))


def _stands(team: Team, version: int) -> Condition:
    """That a team is as it was read. Its mark moves without a version, and is not to be put back."""
    mark = Is("pending_until_ms", team.pending_until_ms) if team.pending_until_ms else Missing("pending_until_ms")
    return AllOf((Is("version", version), mark))


def seen_key(team: str) -> Item:
    return {"cell": SEEN, "team": team}


def seen(team: str, now_ms: int) -> Put:
    """That a team which is not registered has created something."""
    return Put(TEAMS, seen_key(team) | {"seen_at_ms": now_ms}, Absent())


def forgetting(team: str) -> Delete:
    """That it has been seen, or not: adopting is not to bring back a team that was deleted."""
    return Delete(TEAMS, seen_key(team), AnyOf((Missing("seen_at_ms"), Is("team", team))))


# --- the mark ---------------------------------------------------------------------------------------------------


def needs_mark(pending_until_ms: int, fire_at_ms: int) -> bool:
    """Whether something that fires then lies behind the mark."""
    return pending_until_ms < fire_at_ms


def moved_mark(key: Item, fire_at_ms: int, now_ms: int, given: Condition) -> Update:
    """The write that moves the mark of an item past `fire_at_ms`. Refused where it lies there already, and where
    `given` does not hold."""
    slack_ms = max(SLACK_MS_MIN, (fire_at_ms - now_ms) // SLACK_PARTS)
    lies_before = AnyOf((Missing("pending_until_ms"), Below("pending_until_ms", fire_at_ms)))
    return Update(TEAMS, key, AllOf((given, lies_before)), set={"pending_until_ms": fire_at_ms + slack_ms})
