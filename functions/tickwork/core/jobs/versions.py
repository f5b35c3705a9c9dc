"""Definitions that a job had: which of them an occurrence runs by (W13).

What an occurrence does is fixed when it is dispatched, and nothing is written for that. A change or deletion puts the
definition it replaces into `job_versions`, in its own transaction, with `through`: the last nominal instant that the
job had fired by then. The definition of an occurrence is the oldest whose `through` reaches it, and else the one that
stands. So every attempt, replay, repeated window and audit derives the same, also of a run that never started.

A row lives until nothing can need it: for the retention and some more from when it was replaced, and anew from each
time that a run which is still alive asks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from tickwork.core.instants import HOUR_MS, SECOND_MS
from tickwork.core.jobs.definitions import Definition, Job
from tickwork.core.ledger import items
from tickwork.core.ledger.items import read_by
from tickwork.core.ledger.keys import version_place
from tickwork.core.ledger.tables import JOB_VERSIONS, PAYLOADS
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import Anyway, Below, Item, Put, Update, Write

KEPT_S = 90 * 86_400
"""How long a definition outlives the retention of its last run, and the longest that a run takes between two looks at
its definition."""

RENEWED_BELOW_S = 45 * 86_400
"""A run that is alive and finds less than this beyond the retention renews the row: retries wait a day at most, so
that it is written once in weeks."""

BEFORE_BIRTH_MS = HOUR_MS
"""A job that is registered under a name which nothing is known of has no occurrences from before that: what may lie
there is a predecessor's, whose tombstone has expired."""


@dataclass(frozen=True, slots=True)
class JobVersion(Definition):
    """A definition that a job had from version `since` to `version`, and by which it fired what lies after `after_ms`
    and at or before `through_ms`."""

    DERIVED: ClassVar[tuple[str, ...]] = ("job_id", "place")

    since: int = 0
    version: int = 0
    after_ms: int = 0
    through_ms: int = 0
    expires_at_s: int = read_by(whole, 0)

    def key(self) -> Item:
        return {"job_id": self.job_id, "place": version_place(self.through_ms, self.version)}

    def fired(self, scheduled_at_ms: int) -> bool:
        return self.after_ms < scheduled_at_ms <= self.through_ms

    def was_in_force_at(self, version: int) -> bool:
        return (self.since or self.version) <= version <= self.version

    def to_item(self) -> Item:
        return items.written(self) | self.key()

    @classmethod
    def from_item(cls, item: Item) -> Self:
        return items.read(cls, item)


def is_in_force_at(job: Job, version: int) -> bool:
    """Whether the job had the definition that it has at a version. Of one that a version of ours registered which did
    not note it, nothing is known but what it says now."""
    return (job.defined_since or job.version) <= version <= job.version


def through_ms(job: Job) -> int:
    """Up to where what a job has fired is not a later definition's."""
    return max(job.fired_through_ms, job.earlier_through_ms)


def replaced(job: Job, payload_id: str | None, now_ms: int, retention_s: int) -> tuple[Write, ...]:
    """What a change or deletion writes of the definition that it takes the place of. `payload_id`: the payload kept
    apart that the job has from now on; the one it had expires with its definition, unless it is the same."""
    expires_at_s = _expiry_s(now_ms, retention_s)
    row = JobVersion(
        **items.values_of(job.as_stored(), Definition),
        since=job.defined_since,
        version=job.version,
        after_ms=job.earlier_through_ms,
        through_ms=through_ms(job),
        expires_at_s=expires_at_s,
    )
    same = "its place says which definition of the job it is: whoever writes it writes the same"
    put = Put(JOB_VERSIONS, row.to_item(), Anyway(same))
    if job.work.payload_id in (None, payload_id):
        return (put,)
    gone = "where the payload is gone, this leaves a stub that expires: it must not keep its job from being changed"
    expire = Update(PAYLOADS, {"payload_id": job.work.payload_id}, Anyway(gone), set={"expires_at_s": expires_at_s})
    return put, expire


def renewals(row: JobVersion, now_ms: int, retention_s: int) -> tuple[Update, ...]:
    """The writes that let a definition, and its payload, live on for a run that is alive; none while they last. Each
    stands alone: a payload that the job still has does not expire, and one that is gone is not brought back."""
    if row.expires_at_s - now_ms // SECOND_MS > retention_s + RENEWED_BELOW_S:
        return ()
    expires_at_s = _expiry_s(now_ms, retention_s)
    later, change = Below("expires_at_s", expires_at_s), {"expires_at_s": expires_at_s}
    renewed = [Update(JOB_VERSIONS, row.key(), later, set=change)]
    if row.work.payload_id is not None:
        renewed.insert(0, Update(PAYLOADS, {"payload_id": row.work.payload_id}, later, set=change))
    return tuple(renewed)


def _expiry_s(now_ms: int, retention_s: int) -> int:
    return now_ms // SECOND_MS + retention_s + KEPT_S
