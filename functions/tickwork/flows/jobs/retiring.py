"""Deleting a pool: refused while anything is pending for it.

What is known, and how: jobs that aim at it, by the lists of its owner's and its sharers' jobs; timers and retries, by
the marks of the pool and of its shares, which are moved before anything is aimed at it; messages, by asking its queues.
All of it errs towards "pending". Protects no-lost-timer: first nothing new may be aimed at it (one transaction, refused
when a mark has moved since), then the queues go, then the items. A crash between leaves a pool that takes in nothing,
and the same call goes on.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.access import pools
from tickwork.core.access.actors import Actor
from tickwork.core.access.pools import Pool, Share
from tickwork.core.errors import Conflict, InUse
from tickwork.core.instants import iso
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import AnyOf, Committed, Condition, Delete, Is, Missing, Update, Write
from tickwork.flows.access.pools import get_pool, stands
from tickwork.flows.access.recording_pools import recorded_pool
from tickwork.flows.jobs import registering
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

DELETE_TRIES_MAX = 3
JOB_PAGES_MAX, JOBS_PAGE = 50, 200
"""Of a team's jobs that are looked through for one that aims at the pool. A team with more counts as having one."""


def delete_pool(ports: Ports, team: str, name: str, actor: Actor) -> Pool:
    """NotFound, or InUse saying what is pending."""
    for _ in range(DELETE_TRIES_MAX):
        pool = get_pool(ports, team, name)
        shares = _shares(ports, pool)
        if not pool.closed_at_ms:
            if pending := _pending(ports, pool, shares):
                raise InUse(
                    f"pool {pool.pool} has {pending}",
                    field="pool",
                    remedy="delete or change the jobs; wait for what is on its way, or fires later",
                )
            closed = replace(pool, closed_at_ms=ports.clock.now_ms(), version=pool.version + 1)
            closed, entry = recorded_pool(ports, pool, closed, "deleted")
            changes = {name: getattr(closed, name) for name in ("closed_at_ms", "version", "audit_head")}
            close = Update(TEAMS, pools.pool_key(team, pool.pool), stands(pool), set=changes)
            if not isinstance(commit(ports, close, *_forgotten(shares), entry), Committed):
                continue  # a mark has moved, or it was changed
            pool = closed
        ports.queues.remove(pool.queue)
        # A refusal is our own first try, or another call's that was faster: what stands there by now was made since.
        commit(ports, Delete(TEAMS, pools.pool_key(team, pool.pool), Is("closed_at_ms", pool.closed_at_ms)))
        ports.registry.pop((pools.POOLS, f"{team}#{pool.pool}"), None)
        ports.signals.log("pool_deleted", pool=pool.pool, team=team, by=actor.name)
        return pool
    raise Conflict(f"pool {name} of {team} was changed {DELETE_TRIES_MAX} times meanwhile")


def _shares(ports: Ports, pool: Pool) -> list[Share]:
    keys = [pools.share_key(team, pool.pool) for team in (*pool.shared_with, *pool.shared_before)]
    return [Share.from_item(item) for item in read_many(ports, TEAMS, keys) if item is not None]


def _forgotten(shares: list[Share]) -> list[Write]:
    """The shares go as they were read: one whose mark has moved keeps the pool."""
    return [Delete(TEAMS, {"cell": pools.SHARES, "team": share.team}, _stands(share)) for share in shares]


def _stands(share: Share) -> Condition:
    mark = Is("pending_until_ms", share.pending_until_ms)
    return mark if share.pending_until_ms else AnyOf((Missing("pending_until_ms"), mark))


def _pending(ports: Ports, pool: Pool, shares: list[Share]) -> str:
    """What is, or may be, pending for a pool; empty: nothing."""
    until_ms = max([pool.pending_until_ms, *(share.pending_until_ms for share in shares)])
    if until_ms > ports.clock.now_ms():
        return f"something that may be pending until {iso(until_ms)}"
    for team in (pool.owner, *(share.team.partition("#")[0] for share in shares)):
        if job_id := _job_that_aims(ports, team, pool.pool):
            return f"the job {job_id}" if team == pool.owner else f"a job of {team}, with whom it is shared"
    waiting = ports.queues.waiting(pool.queue)
    return f"about {waiting} messages in its queues" if waiting else ""


def _job_that_aims(ports: Ports, team: str, pool: str) -> str:
    after: str | None = None
    for _ in range(JOB_PAGES_MAX):
        try:
            found, after = registering.list_jobs(ports, team, limit=JOBS_PAGE, after=after, strict=True)
        except Unreadable as error:  # a newer version's, which may aim at it
            return f"{team}:... ({error})"
        aiming = next((job.job_id for job in found if job.work.pool == pool), "")
        if aiming or after is None:
            return aiming
    return f"{team}:... (there are too many to look through)"
