"""Pools of teams: made, shared, listed. Deleting one needs to know of jobs, and is done elsewhere (`flows/jobs`).

Protects: an item says that a pool is there only when its queues are. A crash between leaves queues that nobody names,
which the next try takes as its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tickwork.core.access import pools
from tickwork.core.access.actors import PLATFORM_TEAM, Actor
from tickwork.core.access.pools import Pool, Share
from tickwork.core.access.teams import team_key
from tickwork.core.errors import (
    Conflict,
    InUse,
    InvalidField,
    NotFound,
    TooMany,
    WorldError,
    check_replaced,
)
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import (
    Absent,
    AllOf,
    AnyOf,
    Committed,
    Condition,
    Is,
    Item,
    Missing,
    Put,
    Update,
    Write,
)
from tickwork.flows.access import registry
from tickwork.flows.access.recording_pools import recorded_pool
from tickwork.flows.ledger.commit import commit
from tickwork.ports import PUSH_POOL, Layout, Ports

PUT_TRIES_MAX = 3
_LISTED_MAX = 200
"""Of one page, which is all: `POOLS_PER_TEAM_MAX` of its own, and what is shared with it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a team asks of a pool."""

    worker: str = pools.PROCESS
    timeout_s: int = 0
    shared_with: tuple[str, ...] = ()


# --- making and sharing -----------------------------------------------------------------------------------------


def put_pool(ports: Ports, team: str, name: str, asked: Asked, version: int | None, actor: Actor) -> Pool:
    """Make a pool (`version` None), or change with whom the version that the caller has read is shared. The same again
    is a no-op. NotFound, AlreadyExists, VersionConflict, TooMany, InvalidField, or InUse while it is being deleted."""
    pool = pools.pool_id(team, name)
    _check_asked(ports, team, name, asked)
    has_made = False
    for _ in range(PUT_TRIES_MAX):
        standing = find_pool(ports, team, pool)
        if standing is None:
            new = _new(ports, team, name, asked, version, actor)
        elif _says(standing, asked):
            return standing
        else:
            if has_made:
                ports.queues.make(standing.queue)  # ours may have been for another kind of worker
            _check_change(standing, asked, version)
            new = _shared_anew(standing, asked.shared_with, actor, ports.clock.now_ms())
        has_made = standing is None
        new, entry = recorded_pool(ports, standing, new, "changed" if standing else "created")
        if isinstance(commit(ports, *_writes(standing, new), entry), Committed):
            for key in (write.item if isinstance(write, Put) else write.key for write in _writes(standing, new)):
                ports.registry.pop((str(key["cell"]), str(key["team"])), None)
            ports.signals.log("pool_put", pool=pool, team=team, version=new.version, by=actor.name)
            return new
        # Refused: somebody was first, or it was our own write whose reply was lost; reading it again tells.
    raise Conflict(f"pool {pool} was changed {PUT_TRIES_MAX} times meanwhile")


def _check_asked(ports: Ports, team: str, name: str, asked: Asked) -> None:
    if name in ports.layout.pools:
        raise InvalidField(
            f"{name} is a pool of the deployment", field="pool", remedy="choose another name: all teams call it so"
        )
    if (asked.worker == pools.LAMBDA) != bool(asked.timeout_s):
        raise InvalidField(
            "a function's time limit goes with the worker `lambda`",
            field="timeout_s",
            remedy="give the function's timeout in seconds with `lambda`, and none with others",
        )
    if team in asked.shared_with:
        raise InvalidField("a team shares nothing with itself", field="shared_with", remedy=f"leave {team} out")
    if team != PLATFORM_TEAM and ports.store.get(TEAMS, team_key(team)) is None:
        raise NotFound(
            f"there is no team {team!r}",
            field="team",
            remedy=f"have the platform's team register it (`tickwork teams create {team}`)",
        )


def _new(ports: Ports, team: str, name: str, asked: Asked, version: int | None, actor: Actor) -> Pool:
    check_replaced(f"pool {name} of {team}", None, version)
    if len(list_pools(ports, team)) >= pools.POOLS_PER_TEAM_MAX:
        raise TooMany(
            f"team {team} has {pools.POOLS_PER_TEAM_MAX} pools", field="pool", remedy="use one of them, or delete some"
        )
    registry.hold_team(ports, team)
    by, at_ms = actor.name, ports.clock.now_ms()
    pool = Pool(
        owner=team,
        name=name,
        pool=pools.pool_id(team, name),
        worker=asked.worker,
        timeout_s=asked.timeout_s,
        shared_with=tuple(sorted(asked.shared_with)),
        created_at_ms=at_ms,
        created_by=by,
        changed_at_ms=at_ms,
        changed_by=by,
    )
    ports.queues.make(pool.queue)
    return pool


def _says(pool: Pool, asked: Asked) -> bool:
    said = Asked(pool.worker, pool.timeout_s, pool.shared_with)
    return not pool.closed_at_ms and said == replace(asked, shared_with=tuple(sorted(asked.shared_with)))


def _check_change(pool: Pool, asked: Asked, version: int | None) -> None:
    if pool.closed_at_ms:
        raise InUse(f"pool {pool.pool} is being deleted", field="pool", remedy="delete it to the end first")
    check_replaced(f"pool {pool.pool}", pool.version, version)
    if (asked.worker, asked.timeout_s) != (pool.worker, pool.timeout_s):
        raise InvalidField(
            "the kind of its worker is what its queue was made for",
            field="worker",
            remedy="make another pool for the other kind of worker",
        )


def _shared_anew(pool: Pool, shared_with: Sequence[str], actor: Actor, now_ms: int) -> Pool:
    before = {*pool.shared_with, *pool.shared_before} - {*shared_with}
    if len(before) + len(shared_with) > pools.SHARED_WITH_MAX:
        raise TooMany(
            f"pool {pool.pool} is, or was, shared with {pools.SHARED_WITH_MAX} teams",
            field="shared_with",
            remedy="make another pool for the others",
        )
    return replace(
        pool,
        shared_with=tuple(sorted(shared_with)),
        shared_before=tuple(sorted(before)),
        version=pool.version + 1,
        changed_at_ms=now_ms,
        changed_by=actor.name,
    )


def _writes(standing: Pool | None, new: Pool) -> list[Write]:
    """The pool, and for each team whose part in it changes its share."""
    writes: list[Write] = [Put(TEAMS, new.to_item(), Absent() if standing is None else stands(standing))]
    was = set(standing.shared_with) if standing else set()
    before = set(standing.shared_before) if standing else set()
    for team in sorted({*new.shared_with} - was - before):
        share = Share(team=f"{team}#{new.pool}", owner=new.owner, name=new.name, pool=new.pool)
        writes.append(Put(TEAMS, share.to_item(), Absent()))
    for team in sorted({*new.shared_with} & before):
        writes.append(Update(TEAMS, pools.share_key(team, new.pool), _is_share(new), remove=("closed_at_ms",)))
    for team in sorted(was - {*new.shared_with}):
        closed = {"closed_at_ms": new.changed_at_ms}
        writes.append(Update(TEAMS, pools.share_key(team, new.pool), _is_share(new), set=closed))
    return writes


def _is_share(pool: Pool) -> Condition:
    return Is("pool", pool.pool)


def stands(pool: Pool) -> Condition:
    """That a pool is as it was read. Its mark moves without a version, and is not to be put back."""
    mark = Is("pending_until_ms", pool.pending_until_ms)
    if not pool.pending_until_ms:
        mark = AnyOf((Missing("pending_until_ms"), mark))  # type: ignore[assignment]
    return AllOf((Is("version", pool.version), mark))


# --- reading ----------------------------------------------------------------------------------------------------


def find_pool(ports: Ports, team: str, pool: str) -> Pool | None:
    item = ports.store.get(TEAMS, pools.pool_key(team, pool))
    return None if item is None else Pool.from_item(item)


def get_pool(ports: Ports, team: str, name: str) -> Pool:
    found = find_pool(ports, team, pools.pool_id(team, name))
    if found is None:
        raise NotFound(
            f"there is no pool {name!r} of {team}", field="pool", remedy="list them with `tickwork pools list`"
        )
    return found


def list_pools(ports: Ports, team: str) -> list[Pool]:
    """A team's own pools, by how they are called."""
    return [pool for item in _of(ports, pools.POOLS, team) if (pool := _readable(ports, Pool, item)) is not None]


def list_shares(ports: Ports, team: str) -> list[Share]:
    """Other teams' pools at which a team may aim."""
    found = [share for item in _of(ports, pools.SHARES, team) if (share := _readable(ports, Share, item)) is not None]
    return [share for share in found if not share.closed_at_ms]


def _of(ports: Ports, partition: str, team: str) -> Sequence[Item]:
    return ports.store.query(TEAMS, partition, f"{team}#", f"{team}#~", limit=_LISTED_MAX).items


def _readable[R: (Pool, Share)](ports: Ports, kind: type[R], item: Item) -> R | None:
    """One that this version cannot read costs the list that one."""
    try:
        return kind.from_item(item)
    except Unreadable as error:
        ports.signals.log("pool_unreadable", why=str(error))
        return None


def has_pools(ports: Ports, team: str) -> bool:
    """Whether a team has any, also one that this version cannot read."""
    return bool(_of(ports, pools.POOLS, team))


# --- aiming -----------------------------------------------------------------------------------------------------


def may_aim(ports: Ports, team: str, pool: str, until_ms: int) -> bool:
    """Whether a team may aim something new at a pool, and that it will be waited for until then before the pool is
    deleted. Asked before what is aimed is written. Costs nothing for a pool of the deployment."""
    if not pools.is_teams(pool):
        return True
    until_ms = _waited_for_until(ports, until_ms)
    return registry.keep_mark(ports, pools.aim_key(team, pool), until_ms, pools.open_to_new(pool), anew=True)


def _waited_for_until(ports: Ports, until_ms: int) -> int:
    """A minute more: a call of ours that has asked is over by then, so nobody deletes the pool under it."""
    return max(until_ms, ports.clock.now_ms()) + registry.CALL_MS_MAX


def wait_for(ports: Ports, team: str, pool: str, until_ms: int) -> None:
    """Have a pool waited for because of what was aimed at it before, also by a share that was taken back since: as far
    as that can be had."""
    if not pools.is_teams(pool):
        return
    key, until_ms = pools.aim_key(team, pool), _waited_for_until(ports, until_ms)
    try:
        registry.keep_mark(ports, key, until_ms, Is("pool", pool), anew=True, closed_too=True)
    except (WorldError, Unreadable) as error:
        ports.signals.log("pool_not_waited_for", pool=pool, team=team, error=repr(error))


def check_aim(ports: Ports, team: str, pool: str, named: str, until_ms: int = 0, field: str = "target.pool") -> None:
    """InvalidField, as for a pool that is not there, when a team may not aim at one."""
    if not may_aim(ports, team, pool, until_ms):
        raise no_such_pool(named, ports.layout, field)


def no_such_pool(named: str, layout: Layout, field: str) -> InvalidField:
    """The refusal of a pool that is not there, or not for the caller: in the same words."""
    own = "a team's own: `tickwork pools list`"
    deployed = ", ".join(name for name in layout.pools if name != PUSH_POOL)
    remedy = f"pools of this environment: {deployed}; {own}"
    return InvalidField(f"there is no pool {named[:80]!r} here", field=field, remedy=remedy)
