"""The platform's defaults: what a job does of which its team has said nothing, by version (spec P4).

Owns the document of all versions, which jobs go by which, and what a job comes to by one. A policy is a job's own, or
it follows, and is taken whole. What is stored in a job is what it does by the version that it was registered by, so
that a process which knows of no versions goes by that. Refuses to know where the document is kept. Protects W13: an
occurrence goes by the version that it was planned by (`Run.defaults`), whatever is rolled out or taken back since.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from tickwork.core.errors import BadSchedule
from tickwork.core.ids import stable_hash
from tickwork.core.jobs.definitions import CatchUp, Definition, Job
from tickwork.core.jobs.overlap import ALLOW, SKIP
from tickwork.core.ledger.items import Record, always
from tickwork.core.ledger.work import RetryPolicy, Work
from tickwork.core.schedule import TOLERANCE_S, default_tolerance_s, schedule_from_spec

BEFORE, BUILT_IN = 0, 1
"""The versions that are always there: what jobs have that were registered before there were any, and what a job is
registered by since."""

RETRY, TOLERANCE, OVERLAP, CATCH_UP = POLICIES = "retry_policy", "tolerance_s", "overlap", "catch_up"
"""What follows where a job does not say it, by the names of the API."""

_FIELDS: Mapping[str, str] = dict(zip(POLICIES, ("retry", *POLICIES[1:]), strict=True))

VERSIONS_MAX = 100
"""The document is one item that every process reads twice a minute: so many are some 30 KB."""

NAMED_MAX = 1_000
"""Teams that all versions together name: 200 in each of a hundred would be more than an item may have."""

TOLERANCE_S_MAX = 86_400
"""As much as a job may say of itself."""

_ROOMS_REMEMBERED = 4_096
"""Schedules whose room a process remembers: to find the shortest gap of one takes up to a millisecond."""


_RETRY, _CATCH_UP = RetryPolicy(), CatchUp()


@dataclass(frozen=True, slots=True)
class Version(Record):
    """One version: the four policies, and for whom it has been rolled out."""

    retry: RetryPolicy = _RETRY
    tolerance_s: int = TOLERANCE_S
    """At most: it is never more than half of a job's shortest gap, and 0 for what is due once."""
    overlap: str = SKIP
    """Of what recurs. What is due once has nothing beside it."""
    catch_up: CatchUp = _CATCH_UP
    percent: int = 0
    """Of all jobs, by a hash of their ids: who is among 10 is among 20."""
    teams: tuple[str, ...] = ()
    by: str = ""
    reason: str = ""
    created_at_ms: int = 0

    def covers(self, job_id: str, team: str) -> bool:
        return team in self.teams or part_of(job_id) < self.percent


def part_of(job_id: str) -> int:
    """Which of a hundred parts a job is in, for ever."""
    return stable_hash(f"defaults|{job_id}") % 100


@dataclass(frozen=True, slots=True)
class Defaults(Record):
    """All versions, the newest last. `edition` goes up with every change of any of them."""

    edition: int = always(0)
    versions: tuple[Version, ...] = (Version(overlap=ALLOW), Version())
    audit_head: str = ""

    @property
    def newest(self) -> int:
        return len(self.versions) - 1

    def version_of(self, job: Job) -> int:
        """By which a job goes that is planned now: the one that it has pinned, or the newest that was rolled out for
        it, and none that is older than the one it was registered by."""
        if job.defaults_pin is not None and job.defaults_pin <= self.newest:
            return job.defaults_pin
        for number in range(self.newest, job.defaults_base, -1):
            if self.versions[number].covers(job.job_id, job.team):
                return number
        return job.defaults_base

    @property
    def named(self) -> int:
        """How many teams all versions together name."""
        return sum(len(version.teams) for version in self.versions)

    def rolled_out(self, number: int, percent: int, teams: Collection[str]) -> Defaults:
        """With a version rolled out for these, and for nobody else."""
        versions = list(self.versions)
        versions[number] = replace(versions[number], percent=percent, teams=tuple(sorted(set(teams))))
        return replace(self, versions=tuple(versions))


DEFAULTS: Final = Defaults()
"""As long as nobody has published a version."""


# --- by a version -----------------------------------------------------------------------------------------------


def overlap_by(version: Version, schedule: Mapping[str, Any]) -> str:
    """What becomes of an occurrence of this schedule that is due while another run has not ended."""
    try:
        return version.overlap if schedule_from_spec(schedule).is_recurring else ALLOW
    except BadSchedule:  # of a newer version
        return version.overlap


def tolerance_by(version: Version, schedule: Mapping[str, Any]) -> int | None:
    """None where the schedule is one that this version of ours cannot read."""
    try:
        return min(version.tolerance_s, _room_of(schedule_from_spec(schedule).spec_json))
    except BadSchedule:
        return None


@lru_cache(maxsize=_ROOMS_REMEMBERED)
def _room_of(spec_json: str) -> int:
    """The tolerance that a schedule leaves room for."""
    return default_tolerance_s(schedule_from_spec(json.loads(spec_json)), TOLERANCE_S_MAX)


def retry_follows(definition: Definition) -> bool:
    """Whether a definition says nothing of retries. (All versions that a job may be registered by say the same.)"""
    return RETRY not in definition.own_policies and definition.work.retry == DEFAULTS.versions[BUILT_IN].retry


def following(definition: Definition, base: int) -> frozenset[str]:
    """The policies that are not a job's own: what it stores of them is what it was registered with (by the version
    `base`), and nobody has said that it is to stay so. What differs somebody has said, be it by a process that notes
    nothing of it."""
    version = DEFAULTS.versions[min(base, BUILT_IN)]
    as_registered = {
        RETRY: retry_follows(definition),
        TOLERANCE: definition.tolerance_s == tolerance_by(version, definition.schedule),
        OVERLAP: definition.overlap == overlap_by(version, definition.schedule),
        CATCH_UP: definition.catch_up == version.catch_up,
    }
    return frozenset(name for name, is_so in as_registered.items() if is_so and name not in definition.own_policies)


def by_version(defaults: Defaults, job: Job, number: int) -> Job:
    """A job as it is by a version of the defaults. By one that is not known, as it was registered."""
    job = job.as_stored()
    if number == job.defaults_base or number > defaults.newest:
        return job
    version, follows = defaults.versions[number], following(job, job.defaults_base)
    values = {
        RETRY: version.retry,
        TOLERANCE: tolerance_by(version, job.schedule),
        OVERLAP: overlap_by(version, job.schedule),
        CATCH_UP: version.catch_up,
    }
    return job.applying(number, **{_FIELDS[name]: values[name] for name in follows})


def as_due(defaults: Defaults, job: Job, planned_by: int) -> Job:
    """A job as an occurrence of it is decided on that was planned by a version: with what comes after it as the job is
    by now."""
    due = by_version(defaults, job, planned_by)
    return job.applying(job.goes_by, retry=due.work.retry, overlap=due.overlap, catch_up=due.catch_up)


def work_by(defaults: Defaults, definition: Definition, number: int) -> Work:
    """What an occurrence is to do that was fired by a definition, and planned by a version."""
    if number > defaults.newest or not retry_follows(definition):
        return definition.work
    return replace(definition.work, retry=defaults.versions[number].retry)


def with_policies[D: Definition](definition: D, other: Definition, names: Collection[str]) -> D:
    """A definition with some policies as another has them."""
    values = {name: getattr(other, name) for name in names if name != RETRY}
    retry = other.work.retry if RETRY in names else definition.work.retry
    return replace(definition, work=replace(definition.work, retry=retry), **values)


def policies_of(definition: Definition) -> dict[str, Any]:
    return {RETRY: definition.work.retry} | {name: getattr(definition, name) for name in POLICIES[1:]}


# --- what a job says --------------------------------------------------------------------------------------------


def noted(definition: Definition, said: Collection[str], base: int) -> tuple[str, ...]:
    """Of the policies that a job says, those of which its values do not tell it: they are as in the version that it is
    registered by, and stay so when that is not in force any more."""
    return tuple(sorted(set(said) & following(replace(definition, own_policies=()), base)))
