"""Teams: registered, changed, read, listed, and how an environment that has long had them gets them.

Protects: a team is replaced by who has read it as it stands; adopting registers nobody twice and changes nobody.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tickwork.core.access import teams
from tickwork.core.access.actors import PLATFORM_TEAM, Actor
from tickwork.core.access.diffs import differences
from tickwork.core.access.entries import Change
from tickwork.core.access.teams import Team, TeamContent
from tickwork.core.errors import Conflict, NotFound, check_replaced
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Absent, Committed, Delete, Is, Item, Put
from tickwork.flows.access import registry
from tickwork.flows.access.recording import recorded
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages, read_many
from tickwork.ports import Ports

PUT_TRIES_MAX = 3
"""A change competes with creators that move the mark; each moves it once a minute at most."""
_FIRST, _LAST = "!", "~"
_PAGE = 500
ADOPTED_MAX = 500
"""Of one call: as many writes as fit into its time."""


def get_team(ports: Ports, team: str) -> Team:
    item = ports.store.get(TEAMS, teams.team_key(team))
    if item is None:
        raise NotFound(f"there is no team {team!r}", field="team", remedy="list them with GET /teams")
    return Team.from_item(item)


def list_teams(
    ports: Ports, *, limit: int, after: str | None, of: Collection[str] | None = None
) -> tuple[list[Team], str | None]:
    """A page of teams by name, and the name to go on after. `of`: of these alone, which are few; None: of all. What
    goes on behind the wall would be the name of whoever comes next (tenant-wall)."""
    if of is not None:
        names = sorted(name for name in of if name > (after or ""))
        items = read_many(ports, TEAMS, [teams.team_key(name) for name in names[:limit]])
        more = names[limit - 1] if len(names) > limit else None
    else:
        page = ports.store.query(TEAMS, teams.REGISTERED, _FIRST, _LAST, limit=limit, after=after)
        items, more = [*page.items], page.more
    return [team for item in items if item is not None and (team := _readable(ports, item)) is not None], more


def _readable(ports: Ports, item: Item) -> Team | None:
    """One that this version cannot read costs the list that one."""
    try:
        return Team.from_item(item)
    except Unreadable as error:
        ports.signals.log("team_unreadable", why=str(error))
        return None


def put_team(
    ports: Ports, name: str, content: TeamContent, version: int | None, actor: Actor, *, shows: bool | None = None
) -> Team:
    """Register a team (`version` None), or replace the version that the caller has read. `shows`: whether its viewers
    see payloads (None: as it is, and of a new team they do not). The same content again is a no-op. Forbidden,
    AlreadyExists, NotFound, or VersionConflict when somebody else has changed it."""
    for _ in range(PUT_TRIES_MAX):
        item = ports.store.get(TEAMS, teams.team_key(name))
        standing = None if item is None else Team.from_item(item)
        hides = (standing is None or standing.hides_payloads) if shows is None else not shows
        content = replace(content, hides_payloads=hides)
        if standing is not None and standing.says(content):
            return standing
        check_replaced(f"team {name}", None if standing is None else standing.version, version)
        now_ms = ports.clock.now_ms()
        if standing is None:
            team = teams.registration(name, content, actor, now_ms)
        else:
            team = teams.revision(standing, content, actor, now_ms)
        team, entry = recorded_team(ports, standing, team, "changed" if standing else "registered")
        if isinstance(commit(ports, teams.put_team(team), entry), Committed):
            registry.remember(ports, teams.team_key(name), team.to_item())
            ports.signals.log("team_put", team=name, version=team.version, by=actor.name)
            return team
        # Refused: somebody was first, or it was our own write whose reply was lost; reading it again tells.
    raise Conflict(f"team {name} was changed {PUT_TRIES_MAX} times meanwhile")


def recorded_team(ports: Ports, before: Team | None, after: Team | None, action: str) -> tuple[Team, Put]:
    """(the team with the head of its stream; the entry's write). `after` None: it is deleted, and the entry says what
    it was, for nothing else does."""
    team = after or before
    assert team is not None
    change = Change(
        team.team,
        "team",
        team.team,
        f"team.{action}",
        head=team.audit_head,
        version_before=before.version if before else 0,
        version=after.version if after else 0,
        changes=differences(teams.told(before) if before else None, teams.told(after) if after else None),
    )
    entry, head = recorded(ports, change)
    return replace(team, audit_head=head), entry


# --- adopting ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Adoption:
    """Teams that were, or would be, registered; whether there are more; whether unknown ones are refused now."""

    teams: tuple[str, ...]
    more: bool
    refusing: bool


def adopt(ports: Ports, content: TeamContent, actor: Actor, *, dry_run: bool, refusing: bool | None) -> Adoption:
    """Register each team that has been seen and is not registered, and turn the rule on (`refusing`) or off, when none
    is left. None leaves it as it is. Again is a no-op."""
    registered, rule = _names(ports, teams.REGISTERED), ports.store.get(TEAMS, teams.UNKNOWN_REFUSED)
    missing = sorted(_names(ports, teams.SEEN) - registered - {PLATFORM_TEAM})
    these, more = missing[:ADOPTED_MAX], len(missing) > ADOPTED_MAX
    if not dry_run:
        for name in these:
            team = teams.registration(name, content, actor, ports.clock.now_ms())
            team, entry = recorded_team(ports, None, team, "adopted")
            commit(ports, teams.put_team(team), entry)  # a refusal is another call that was first
        if refusing is not None and not more:
            _turn(ports, actor, refusing=refusing, is_on=rule is not None)
            return Adoption(tuple(these), more, refusing)
    return Adoption(tuple(these), more, rule is not None)


def _names(ports: Ports, partition: str) -> set[str]:
    found = pages(ports, TEAMS, partition, _FIRST, _LAST, limit=_PAGE)
    return {str(item["team"]) for page in found for item in page.items}


def _turn(ports: Ports, actor: Actor, *, refusing: bool, is_on: bool) -> None:
    """A refusal is somebody else's turn to the same side."""
    if refusing == is_on:
        return
    key = teams.UNKNOWN_REFUSED
    rule = key | {"by": actor.name, "since_ms": ports.clock.now_ms()}
    change = Change(PLATFORM_TEAM, "rule", key["team"], f"rule.{'set' if refusing else 'lifted'}")
    entry, rule["audit_head"] = recorded(ports, change)
    commit(ports, Put(TEAMS, rule, Absent()) if refusing else Delete(TEAMS, key, Is("team", key["team"])), entry)
    registry.remember(ports, key, rule if refusing else None)
    ports.signals.log("unknown_teams_refused" if refusing else "unknown_teams_accepted", by=actor.name)
