"""Pools that teams make for themselves: what they are called, what is stored of one, who may aim at it.

A team's pool is called by what its queue is called: `<team>_<name>`, each half as it is or hashed, so that whoever
dispatches needs no registry to find the queue, whatever its version. Pools of the deployment have no `_` in their name:
they are the platform's, and every team's to use. Refuses to know the store and the queues. Protects: whose a pool is
can be read in its name, and two teams' pools are never called the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from tickwork.core.errors import InvalidField
from tickwork.core.ids import check_slug
from tickwork.core.ledger import items
from tickwork.core.ledger.items import Record, always
from tickwork.core.ledger.queues import Queue, ready
from tickwork.core.ledger.writes import AllOf, Condition, Is, Item, Missing

POOLS, SHARES = "@pools", "@shares"
"""Partitions of the table `teams`: `team#pool`, and `team it is shared with#pool`."""

PART_CHARS_MAX = 14
"""`<prefix>-ready-<team>_<name>-dlq` is a queue's name, of 80 characters: a prefix takes up to 40 of them."""
_HASH_CHARS = 12
POOLS_PER_TEAM_MAX, SHARED_WITH_MAX = 50, 40
"""A pool and its shares are written in one transaction."""

_PLAIN = re.compile(rf"[a-z0-9-]{{1,{PART_CHARS_MAX}}}", re.ASCII)
_HASHED = re.compile(rf"h[0-9a-f]{{{_HASH_CHARS}}}", re.ASCII)
_ID = re.compile(rf"[a-z0-9-]{{1,{PART_CHARS_MAX}}}_[a-z0-9-]{{1,{PART_CHARS_MAX}}}", re.ASCII)
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)
_NAME_RULE = "use 1 to 40 characters a-z, 0-9 or '-', beginning and ending with a letter or digit, not ending in '-dlq'"

PROCESS, LAMBDA, LEASE = "process", "lambda", "lease"


# --- names ------------------------------------------------------------------------------------------------------


def pool_id(team: str, name: str) -> str:
    """What the pool of a team is called everywhere: in its jobs, its messages and its queue."""
    return f"{part_of(team)}_{part_of(name)}"


def part_of(text: str) -> str:
    """A name that is short and plain as it is; any other, and one that looks like a hash, as a hash."""
    if _PLAIN.fullmatch(text) and not _HASHED.fullmatch(text):
        return text
    return f"h{hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]}"


def is_teams(pool: str) -> bool:
    """Whether a pool is a team's, and not of the deployment."""
    return "_" in pool


def is_owned(pool: str, team: str) -> bool:
    return pool.partition("_")[0] == part_of(team)


def is_anothers(pool: str, team: str) -> bool:
    """Whether a pool is another team's, so that this one may aim at it only where it is shared."""
    return is_teams(pool) and not is_owned(pool, team)


def check_pool_name(text: str, field: str = "pool") -> str:
    """The name that a team gives to a pool of its own."""
    if not _NAME.fullmatch(text) or text.endswith("-dlq"):
        raise InvalidField(f"{text[:80]!r} is no name of a pool", field=field, remedy=_NAME_RULE)
    return text


def is_pool_id(text: str) -> bool:
    return _ID.fullmatch(text) is not None


def resolve(text: str, team: str, deployed: Collection[str], field: str) -> str:
    """The pool that a team means: one of the deployment by its name; its own by its name, as `team:name`, or as it is
    called; another's as `team:name` or as it is called. Whether it is there is another question."""
    if text in deployed or is_pool_id(text):
        return text
    owner, colon, name = text.rpartition(":")
    if colon:
        check_slug(owner, field)
    return pool_id(owner if colon else team, check_pool_name(name, field))


def as_meant(text: str, team: str) -> str:
    """One spelling for a team's own pool: by its name alone, where that can be told."""
    owner, colon, name = text.rpartition(":")
    if colon and owner == team:
        return name
    own, _, rest = text.partition("_")
    if is_pool_id(text) and own == part_of(team) and not _HASHED.fullmatch(rest):
        return rest
    return text


# --- what is stored ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pool(Record):
    """A pool of a team. `worker` says what its messages are hidden for: a process, leases over HTTP, or a function with
    its time limit."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell", "team")

    owner: str = always("")
    name: str = always("")
    pool: str = always("")
    worker: str = always(PROCESS)
    timeout_s: int = 0
    """Of a function."""
    shared_with: tuple[str, ...] = ()
    shared_before: tuple[str, ...] = ()
    """Teams that may aim nothing new at it; what they have registered goes on."""
    version: int = always(1)
    created_at_ms: int = 0
    created_by: str = ""
    changed_at_ms: int = 0
    changed_by: str = ""
    pending_until_ms: int = 0
    """Nothing that its owner has aimed at it, but jobs, is pending later."""
    closed_at_ms: int = 0
    """It is being deleted: nothing new may be aimed at it."""
    audit_head: str = ""
    """The last entry of its audit."""

    def to_item(self) -> Item:
        return items.written(self) | pool_key(self.owner, self.pool)

    @property
    def queue(self) -> Queue:
        return ready(self.pool, self.timeout_s or None)


@dataclass(frozen=True, slots=True)
class Share(Record):
    """That a team may aim at a pool of another one."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell",)

    team: str = always("")
    """The key: `team#pool`."""
    owner: str = always("")
    name: str = always("")
    pool: str = always("")
    pending_until_ms: int = 0
    closed_at_ms: int = 0
    """It is not shared any more: nothing new may be aimed at it."""

    def to_item(self) -> Item:
        return items.written(self) | {"cell": SHARES}


def told(pool: Pool) -> Item:
    """A pool as the audit tells of it."""
    said: Item = {"worker": pool.worker, "timeout_s": pool.timeout_s, "shared_with": list(pool.shared_with)}
    return {name: value for name, value in said.items() if value}


def pool_key(team: str, pool: str) -> Item:
    return {"cell": POOLS, "team": f"{team}#{pool}"}


def share_key(team: str, pool: str) -> Item:
    return {"cell": SHARES, "team": f"{team}#{pool}"}


def aim_key(team: str, pool: str) -> Item:
    """What says that a team may aim at a pool: the pool, or its share in it."""
    return pool_key(team, pool) if is_owned(pool, team) else share_key(team, pool)


def open_to_new(pool: str) -> Condition:
    """That it is there, and something new may be aimed at it."""
    return AllOf((Is("pool", pool), Missing("closed_at_ms")))


def is_open(item: Item | None) -> bool:
    return item is not None and not item.get("closed_at_ms")
