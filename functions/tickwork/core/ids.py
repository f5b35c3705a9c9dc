"""Names and identities: how a job, a one-shot and a run are called, and which shard they live in.

Everything here is a hash or a spelling of stable inputs, so two processes always agree (invariant one-run).
The spellings are frozen: golden tests hold them, because a second spelling would be a second identity.
"""

from __future__ import annotations

import hashlib
import re

from tickwork.core.errors import InvalidField
from tickwork.core.instants import iso

# A name ends in URLs, keys, log groups and metrics: a documented slug, refused rather than escaped.
_SLUG = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?", re.ASCII)
_SLUG_RULE = "use 1 to 63 characters a-z, 0-9, '.', '_' or '-', beginning and ending with a letter or digit"

ONE_SHOT_MARK = "t~"
_ONE_SHOT = re.compile(r"t~([a-z0-9-]{1,20})~(\d{4})~(\d{10})~([0-9a-f]{8,40})", re.ASCII)


def check_slug(text: str, field: str) -> str:
    """The text itself if it is a usable name; InvalidField naming the rule if not."""
    if not _SLUG.fullmatch(text):
        raise InvalidField(f"{text[:80]!r} is not a usable name", field=field, remedy=_SLUG_RULE)
    return text


def job_id_of(team: str, name: str) -> str:
    """`team:name`, the id of a registered job."""
    return f"{team}:{name}"


def split_job_id(job_id: str, field: str = "job_id") -> tuple[str, str]:
    """(team, name) of a job's or a one-shot's id; InvalidField when it is neither."""
    team, colon, name = job_id.partition(":")
    if not colon:
        raise InvalidField(f"{job_id[:80]!r} is not a job id", field=field, remedy="write it as team:name")
    check_slug(team, field)
    if not _ONE_SHOT.fullmatch(name):
        check_slug(name, field)
    return team, name


def one_shot_name(cell: str, shard: int, fire_second: int, unique: str) -> str:
    """The name of a one-shot: it says where its ledger item is, so no index is needed to find it."""
    return f"{ONE_SHOT_MARK}{cell}~{shard:04d}~{fire_second:010d}~{unique}"


def parse_one_shot_name(name: str) -> tuple[str, int, int, str] | None:
    """(cell, shard, fire second, unique part) of a one-shot's name; None for a job's name."""
    found = _ONE_SHOT.fullmatch(name)
    if not found:
        return None
    cell, shard, second, unique = found.groups()
    return cell, int(shard), int(second), unique


def run_id_of(job_id: str, scheduled_at_ms: int, kind: str = "") -> str:
    """128 bits, the same on every attempt (spec 1): 64 would be expected to collide within a year. `kind`: of a run
    that somebody asked for; a scheduled one appends nothing."""
    tail = f"|{kind}" if kind else ""
    return hashlib.sha256(f"{job_id}|{iso(scheduled_at_ms)}{tail}".encode()).hexdigest()[:32]


def stable_hash(text: str) -> int:
    """A 64-bit hash that no process, version or machine changes."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])


def shard_of(identity: str, shard_count: int) -> int:
    """`hash(job_id) mod N` (spec F2); for a one-shot, of its team and unique part."""
    return stable_hash(identity) % shard_count
