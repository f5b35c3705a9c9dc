"""Pools of teams: make, share, read, list, delete."""

from __future__ import annotations

from typing import Any, cast

from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.pools.answers import DeletedPool, PoolsAnswer, PoolShown
from tickwork.api.pools.bodies import PoolIn
from tickwork.api.routing import Call, PathPart, Route
from tickwork.core.access.pools import Pool, check_pool_name
from tickwork.core.errors import AlreadyExists, InUse, NotFound, TooMany, VersionConflict
from tickwork.core.ids import check_slug
from tickwork.core.instants import iso_ms
from tickwork.flows.access import pools
from tickwork.flows.access.pools import Asked
from tickwork.flows.jobs import retiring
from tickwork.ports import PUSH_POOL


def put_pool(call: Call[PoolIn, NoQuery]) -> tuple[int, PoolShown]:
    """Make a pool of a team with its queues, or with `version` change with whom it is shared.

    Who it is shared with no more aims nothing new at it; what was registered goes on.
    """
    body = call.body
    for index, team in enumerate(body.shared_with):
        check_slug(team, f"shared_with.{index}")
    asked = Asked(body.worker, body.timeout_s or 0, tuple(dict.fromkeys(body.shared_with)))
    return 200, _view(pools.put_pool(call.ports, *_named(call), asked, body.version, call.actor))


def get_pool(call: Call[NoBody, NoQuery]) -> tuple[int, PoolShown]:
    """A pool of a team."""
    return 200, _view(pools.get_pool(call.ports, *_named(call)))


def list_pools(call: Call[NoBody, NoQuery]) -> tuple[int, PoolsAnswer]:
    """The pools at which a team may aim: its own, those that others share with it, the platform's."""
    ports, team = call.ports, call.path["team"]
    shared = pools.list_shares(ports, team)
    return 200, {
        "pools": [_view(pool) for pool in pools.list_pools(ports, team)],
        "shared": [{"pool": one.pool, "owner": one.owner, "name": one.name} for one in shared],
        "deployed": [name for name in ports.layout.pools if name != PUSH_POOL],
    }


def delete_pool(call: Call[NoBody, NoQuery]) -> tuple[int, DeletedPool]:
    """Delete a pool with its queues. Refused while anything is, or may be, pending for it."""
    team, name = _named(call)
    return 200, {"pool": retiring.delete_pool(call.ports, team, name, call.actor).pool, "deleted": True}


def _named(call: Call[Any, NoQuery]) -> tuple[str, str]:
    return call.path["team"], call.path["name"]


def _view(pool: Pool) -> PoolShown:
    view: dict[str, Any] = {
        "pool": pool.pool,
        "owner": pool.owner,
        "name": pool.name,
        "worker": pool.worker,
        "queue": pool.queue.name,
        "shared_with": list(pool.shared_with),
        "shared_before": list(pool.shared_before),
        "version": pool.version,
        "status": "closed" if pool.closed_at_ms else "open",
        "created_at": iso_ms(pool.created_at_ms),
        "created_by": pool.created_by,
        "changed_at": iso_ms(pool.changed_at_ms),
        "changed_by": pool.changed_by,
    }
    if pool.timeout_s:
        view["timeout_s"] = pool.timeout_s
    return cast("PoolShown", view)


_TEAM = PathPart("team", "A team by its name", "payments", lambda text, _: check_slug(text, "team"))
_NAME = PathPart("name", "What the team calls its pool", "fast", lambda text, _: check_pool_name(text, "pool"))
_AT = (_TEAM, _NAME)
_PATH = "/teams/{team}/pools/{name}"

ROUTES = (
    Route(
        "PUT",
        _PATH,
        put_pool,
        PoolIn,
        NoQuery,
        PoolShown,
        at=_AT,
        errors=(NotFound, AlreadyExists, VersionConflict, TooMany, InUse),
    ),
    Route("GET", _PATH, get_pool, NoBody, NoQuery, PoolShown, at=_AT, errors=(NotFound,)),
    Route("GET", "/teams/{team}/pools", list_pools, NoBody, NoQuery, PoolsAnswer, at=(_TEAM,)),
    Route("DELETE", _PATH, delete_pool, NoBody, NoQuery, DeletedPool, at=_AT, errors=(NotFound, InUse)),
)
