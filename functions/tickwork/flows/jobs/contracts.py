"""Holding a job to its contract when it is registered, changed or deleted, and listing what does not keep it.

Protects: nobody is refused by what a process remembers of a team, which may have got its route a second ago; and what
stands is listed, and never broken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tickwork.core.access.teams import TeamContent
from tickwork.core.errors import BadSchedule, InvalidField, WorldError
from tickwork.core.jobs import contracts
from tickwork.core.jobs.contracts import Violation
from tickwork.core.jobs.definitions import Definition, Job
from tickwork.flows.access import registry
from tickwork.flows.jobs import registering
from tickwork.flows.ledger import reading
from tickwork.ports import Ports


@dataclass(frozen=True, slots=True)
class Broken:
    """What a job lacks."""

    job_id: str
    violation: Violation


def check(ports: Ports, job: Definition, before: Definition | None = None) -> None:
    """InvalidField when a new job, or a change of one, does not keep what its tags demand."""
    if _demands_nothing(job):
        # Only a team's defaults can demand something then, and a table that is busy refuses nobody for them.
        try:
            _check(ports, job.team, lambda team: contracts.check(job, team, before))
        except WorldError as error:
            ports.signals.log("contract_not_checked", job_id=job.job_id, error=repr(error))
    else:
        _check(ports, job.team, lambda team: contracts.check(job, team, before))


def check_reason(ports: Ports, job_id: str, reason: str | None) -> Job | None:
    """The job that is to be deleted, if it is there. InvalidField when it may not be without a reason."""
    job = registering.standing(ports, job_id)
    if job is not None and not reason:
        _check(ports, job.team, lambda team: contracts.check_reason(job, team, reason))
    return job


def _demands_nothing(job: Definition) -> bool:
    return not (job.tags or job.pager_route)


def _check(ports: Ports, team: str, judge: Callable[[TeamContent | None], None]) -> None:
    try:
        judge(registry.said_by(ports, team))
    except InvalidField:
        judge(registry.said_by(ports, team, anew=True))


def warnings_of(ports: Ports, job: Job) -> list[str]:
    """What its owner should know of the bound on its silence."""
    if not job.max_silence_s:
        return []
    try:
        job = reading.to_plan(ports, job)
        return list(contracts.warnings_of_silence(job, registry.said_by(ports, job.team), ports.clock.now_ms()))
    except (WorldError, BadSchedule):  # it is registered, whoever is warned
        return []


def list_violations(ports: Ports, team: str, *, limit: int, after: str | None) -> tuple[list[Broken], str | None]:
    """What the jobs of a page lack, and the cursor to go on after."""
    jobs, more = registering.list_jobs(ports, team, limit=limit, after=after)
    content = registry.said_by(ports, team, anew=True)
    return list(_broken(jobs, content)), more


def _broken(jobs: list[Job], team: TeamContent | None) -> Iterator[Broken]:
    for job in jobs:
        for one in contracts.violations(job, team):
            yield Broken(job.job_id, one)
