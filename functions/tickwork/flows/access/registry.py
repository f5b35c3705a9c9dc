"""What processes know of teams: read from the table `teams`, remembered for a while, and asked anew before a refusal.

A creation costs no read while its process has asked in the last `TRUSTED_MS`, and no write but the mark's now and then.
Protects: a team that was registered a second ago is known; a table that is busy keeps nobody from creating what he may;
while it is not, no timer of a registered team lies behind its mark.
"""

from __future__ import annotations

from collections.abc import Iterable

from tickwork.core.access import teams
from tickwork.core.access.actors import PLATFORM_TEAM
from tickwork.core.access.pools import is_open
from tickwork.core.errors import Conflict, NotFound, UnknownTeam, WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import BY_TEAM, JOBS, TEAMS
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import Committed, Condition, Is, Item
from tickwork.flows.ledger import platform_defaults
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.remembered import REMEMBERED_MAX as REMEMBERED_MAX
from tickwork.flows.ledger.remembered import TRUSTED_MS as TRUSTED_MS
from tickwork.flows.ledger.remembered import read as read
from tickwork.flows.ledger.remembered import remember as remember
from tickwork.ports import Ports

MARK_TRIES_MAX = 3
CALL_MS_MAX = 60 * SECOND_MS
"""By then a call that has asked has written what it asked for, or never will: a function that serves one is stopped
after half of it."""


def check_team(ports: Ports, team: str, field: str = "team") -> None:
    """UnknownTeam when the team is not registered, and has to be. Before it creates something."""
    if team == PLATFORM_TEAM:
        return
    try:
        may_create = _may_create(ports, team)
        if may_create:
            hold_team(ports, team)
            may_create = _may_create(ports, team)  # it may have been deleted since it was read
    except WorldError as error:
        ports.signals.log("team_not_checked", team=team, error=repr(error))
        return
    if not may_create:
        raise UnknownTeam(
            f"there is no team {team!r} here",
            field=field,
            remedy=f"check its name, or have the platform's team register it (`tickwork teams create {team}`)",
        )


def _may_create(ports: Ports, team: str) -> bool:
    # The third is for `note_unregistered`, the fourth for whoever plans a job, so that all together are one read.
    keys = [teams.team_key(team), teams.UNKNOWN_REFUSED, teams.seen_key(team), platform_defaults.KEY]
    registered, refused, *_ = read(ports, keys)
    if registered is not None or refused is None:
        return True
    registered, refused = read(ports, [teams.team_key(team), teams.UNKNOWN_REFUSED], anew=True)
    return registered is not None or refused is None


def check_heard_of(ports: Ports, team: str, field: str = "team") -> None:
    """NotFound for a team of which nobody has heard. Before somebody says something of it (a pause, a placement, a
    roll-out): of a name that is misspelt it would do nothing, and tell nobody."""
    if team == PLATFORM_TEAM or any(ports.store.get_many(TEAMS, [teams.team_key(team), teams.seen_key(team)])):
        return
    found, _ = ports.store.query_index(JOBS, BY_TEAM, team, limit=1, after=None, descending=False)
    if not found:
        raise NotFound(f"there is no team {team!r}", field=field, remedy="check its name (`tickwork teams list`)")


def hides_payloads(ports: Ports, team: str) -> bool:
    """Whether viewers of a team see no payloads. Of one that is not registered, nobody has ever said so. A table that
    is busy is told as such: nothing is shown for it."""
    (item,) = read(ports, [teams.team_key(team)])
    return item is not None and item.get("hides_payloads", False) is not False


def said_by(ports: Ports, team: str, *, anew: bool = False) -> teams.TeamContent | None:
    """What a team says; None of one that is not registered, or that this version cannot read."""
    (item,) = read(ports, [teams.team_key(team)], anew=anew)
    try:
        return None if item is None else teams.Team.from_item(item)
    except Unreadable as error:
        ports.signals.log("team_unreadable", why=str(error))
        return None


def note_unregistered(ports: Ports, names: Iterable[str]) -> None:
    """Note those of these teams that are not registered, for `adopt`: by who has created something of theirs, or walks
    over what there is."""
    for team in sorted(set(names) - {PLATFORM_TEAM}):
        try:
            registered, seen = read(ports, [teams.team_key(team), teams.seen_key(team)])
            if registered is None and seen is None:
                _note(ports, team)
        except WorldError as error:
            # All are in the one table that is busy: to ask for each would cost its patience as often.
            ports.signals.log("team_not_noted", team=team, error=repr(error))
            return


def _note(ports: Ports, team: str) -> None:
    put = teams.seen(team, ports.clock.now_ms())
    ports.store.commit([put])  # a refusal is another process that was first
    remember(ports, put.item, put.item)


def keep_teams_mark(ports: Ports, team: str, fire_at_ms: int) -> None:
    """See to it that a timer of the team which fires then will lie before its mark, if it is registered. Before the
    timer is written. Tried only: without the mark a team may be deleted while its timer is pending, which fires all the
    same; without the timer it would not."""
    try:
        keep_mark(ports, teams.team_key(team), fire_at_ms, Is("team", team))
    except (WorldError, Unreadable) as error:
        ports.signals.log("team_mark_not_kept", team=team, error=repr(error))


def hold_team(ports: Ports, team: str) -> None:
    """Have a team's deletion wait for what is about to be created of it. Its deletion looks for jobs and keys in
    indexes, which are behind by a moment, and before it deletes: what is missed there would belong to whoever is
    registered by that name next."""
    keep_teams_mark(ports, team, ports.clock.now_ms() + CALL_MS_MAX)


def keep_mark(
    ports: Ports, key: Item, until_ms: int, given: Condition, *, anew: bool = False, closed_too: bool = False
) -> bool:
    """Whether an item is there and takes in something new (`closed_too`: or has), as `given` says to the store; then
    its mark lies behind `until_ms`. `anew`: one that is not remembered as such is read again."""
    (item,) = read(ports, [key])
    if anew and not _takes(item, closed_too=closed_too):
        (item,) = read(ports, [key], anew=True)
    for _ in range(MARK_TRIES_MAX):
        if item is None or not _takes(item, closed_too=closed_too):
            return False
        if not teams.needs_mark(_mark(item), until_ms):
            return True
        result = commit(ports, teams.moved_mark(key, until_ms, ports.clock.now_ms(), given))
        item = result.item if isinstance(result, Committed) else result.only
        remember(ports, key, item)
    raise Conflict(f"the mark of {key['team']} was moved {MARK_TRIES_MAX} times meanwhile")


def _takes(item: Item | None, *, closed_too: bool) -> bool:
    return item is not None if closed_too else is_open(item)


def _mark(item: Item) -> int:
    try:
        return whole(item.get("pending_until_ms", 0))
    except ValueError as error:
        raise Unreadable(f"team {item.get('team')!r}: {error}") from error
