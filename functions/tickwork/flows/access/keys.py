"""Keys of teams: made, listed, revoked. What a key opens is decided in the core; here it is stored and found.

Protects: a key's text is in the answer that makes it and nowhere else; nobody makes a key that goes further than he
does himself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tickwork.core.access import api_keys
from tickwork.core.access.actors import PLATFORM_TEAM, Actor, Role, fault_of
from tickwork.core.access.api_keys import ApiKey
from tickwork.core.access.diffs import differences
from tickwork.core.access.entries import Change
from tickwork.core.access.pools import aim_key, is_owned, is_teams
from tickwork.core.errors import Conflict, Forbidden, InvalidField, NotFound, QuotaExceeded, TooMany
from tickwork.core.instants import DAY_MS
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import KEYS, KEYS_BY_TEAM, TEAMS
from tickwork.core.ledger.writes import Absent, Committed, Item, Put
from tickwork.flows.access import quotas, registry
from tickwork.flows.access.pools import no_such_pool
from tickwork.flows.access.recording import recorded
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

DRAWS = 4
"""Unique ids are drawn from the system's randomness, some 76 bits each: four are more than a key's 256."""
REVOKE_TRIES_MAX = 3


@dataclass(frozen=True, slots=True)
class Wanted:
    """A key that somebody asks for."""

    team: str
    role: Role
    ends_at_ms: int
    name: str = ""
    pools: tuple[str, ...] = ()


def create_key(ports: Ports, wanted: Wanted, actor: Actor, *, successor_of: str = "") -> tuple[ApiKey, str]:
    """(the key, its text, which is stored nowhere). Forbidden, InvalidField or TooMany. `successor_of`: the id of the
    key that it is to take the place of."""
    _check_wanted(ports, wanted, actor, is_successor=bool(successor_of))
    registry.hold_team(ports, wanted.team)
    standing = list_keys(ports, wanted.team)
    _check_quota(ports, wanted.team, standing, successor_of)
    if len(standing) >= api_keys.KEYS_PER_TEAM_MAX:
        raise TooMany(
            f"team {wanted.team} has {api_keys.KEYS_PER_TEAM_MAX} keys, with those that ended in the last 90 days",
            field="team",
            remedy="use one of them, or revoke some and wait until they are forgotten",
        )
    text = api_keys.key_text(wanted.team, api_keys.secret_of([ports.ids.unique() for _ in range(DRAWS)]))
    key = api_keys.new_key(
        text,
        wanted.role,
        name=wanted.name,
        pools=wanted.pools,
        by=actor.name,
        now_ms=ports.clock.now_ms(),
        ends_at_ms=wanted.ends_at_ms,
    )
    facts = {"in_place_of": successor_of} if successor_of else {}
    key, entry = _recorded(ports, None, key, "key.created", facts)
    result = commit(ports, Put(KEYS, key.to_item(), Absent()), entry)
    # A refusal with our own item is our first try, whose reply was lost.
    if not isinstance(result, Committed) and (result.failed.get(0) or {}).get("hash") != key.hash:
        raise Conflict(f"the id of the new key, {key.key_id}, is taken")
    ports.signals.log("key_created", key_id=key.key_id, role=key.role, by=actor.name, ends_at_ms=key.ends_at_ms)
    return key, text


def _check_quota(ports: Ports, team: str, standing: Sequence[ApiKey], successor_of: str) -> None:
    """QuotaExceeded when the team has as many valid keys as it may have. The one that is followed by the new one does
    not count: it is there so that both can be used for a while."""
    if quota := quotas.quotas_of(ports, team).keys:
        used = sum(one.key_id != successor_of for one in valid_keys(standing, ports.clock.now_ms()))
        if used >= quota:
            raise QuotaExceeded(team, "keys", quota, retry_after_s=quotas.HELD_AGAIN_S)


def valid_keys(keys: Sequence[ApiKey], now_ms: int) -> list[ApiKey]:
    return [key for key in keys if key.status_at(now_ms) == "valid"]


def _recorded(
    ports: Ports, before: ApiKey | None, after: ApiKey, action: str, facts: Mapping[str, Any]
) -> tuple[ApiKey, Put]:
    """(what the key becomes, with the head of its stream; the entry's write). Nothing in it opens anything."""
    team, _, name = after.key_id.partition(":")
    now_ms = ports.clock.now_ms()
    changes = differences(api_keys.told(before, now_ms) if before else None, api_keys.told(after, now_ms))
    change = Change(team, "key", name, action, head=after.audit_head, changes=changes, facts=facts)
    entry, head = recorded(ports, change)
    return replace(after, audit_head=head), entry


def _check_wanted(ports: Ports, wanted: Wanted, actor: Actor, *, is_successor: bool) -> None:
    if fault := fault_of(wanted.team, wanted.role, wanted.pools):
        raise InvalidField(fault, field="role", remedy="see docs/access.md for the roles")
    if actor.role != "platform" and wanted.team == PLATFORM_TEAM:
        raise Forbidden(
            f"a key of the team {PLATFORM_TEAM} reaches every team", field="team", remedy="ask the platform's team"
        )
    abroad = [pool for pool in wanted.pools if not (is_teams(pool) and is_owned(pool, wanted.team))]
    if actor.role != "platform" and abroad and not is_successor:
        # Whoever may lease from a pool that teams share takes messages that may be another team's.
        raise Forbidden(
            f"who may work for the pool {abroad[0][:80]!r} is not the team's to say",
            field="pools",
            remedy="name pools of the team's own, or have the platform's team make the first key: it can be rotated",
        )
    now_ms = ports.clock.now_ms()
    if not now_ms < wanted.ends_at_ms <= now_ms + api_keys.LIFE_DAYS_MAX * DAY_MS:
        raise InvalidField(
            "a key ends some time",
            field="expires_in_days",
            remedy=f"give 1 to {api_keys.LIFE_DAYS_MAX} days",
        )
    for pool in wanted.pools:
        if not (_is_there(ports, wanted.team, pool)):
            raise no_such_pool(pool, ports.layout, "pools")


def _is_there(ports: Ports, team: str, pool: str) -> bool:
    """Whether a team's workers can take from a pool: of the deployment, its own, or one that is shared with it. Of
    the platform's team they work for any."""
    if not is_teams(pool):
        return pool in ports.layout.pools
    return team == PLATFORM_TEAM or ports.store.get(TEAMS, aim_key(team, pool)) is not None


def list_keys(ports: Ports, team: str) -> list[ApiKey]:
    """All keys of a team that are not forgotten yet, the newest first."""
    found, _ = ports.store.query_index(
        KEYS, KEYS_BY_TEAM, team, limit=api_keys.KEYS_PER_TEAM_MAX, after=None, descending=False
    )
    items = read_many(ports, KEYS, [{"key_id": one["key_id"]} for one in found])
    keys = [key for item in items if item is not None and (key := _readable(ports, item)) is not None]
    return sorted(keys, key=lambda key: (-key.created_at_ms, key.key_id))


def _readable(ports: Ports, item: Item) -> ApiKey | None:
    """One that this version cannot read costs the list that one."""
    try:
        return ApiKey.from_item(item)
    except Unreadable as error:
        ports.signals.log("key_unreadable", why=str(error))
        return None


def get_key(ports: Ports, key_id: str) -> ApiKey:
    item = ports.store.get(KEYS, {"key_id": key_id})
    if item is None:
        raise NotFound(f"there is no key {key_id!r}", field="key_id", remedy="list them with ?team=")
    return ApiKey.from_item(item)


def revoke_key(ports: Ports, key_id: str, actor: Actor) -> tuple[ApiKey, bool]:
    """(the key, whether it was this call that revoked it). Again is a no-op."""
    for _ in range(REVOKE_TRIES_MAX):
        key = get_key(ports, key_id)
        if key.revoked_at_ms:
            return key, False
        ended = api_keys.revoked(key, actor.name, ports.clock.now_ms())
        ended, entry = _recorded(ports, key, ended, "key.revoked", {})
        result = commit(ports, api_keys.revocation(ended), entry)
        if isinstance(result, Committed):
            ports.signals.log("key_revoked", key_id=key_id, by=actor.name)
            return ended, True
        if (result.failed.get(0) or {}).get("audit_head") == ended.audit_head:
            return ended, True  # our own first try, whose reply was lost
    raise Conflict(f"key {key_id} was changed {REVOKE_TRIES_MAX} times meanwhile")
