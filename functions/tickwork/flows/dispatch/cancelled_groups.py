"""What whoever fires makes of a group that was cancelled: its timers are passed, the chains of its jobs end.

Nothing is written to a timer, for there may be a million: its end is derived (`flows/ledger/groups`). What is a run of
a job, or is tried again, is sent, and its start ends it in writing. A window reads each group once, for what bears its
label only. All of this saves messages, and no more: it is the start that looks behind its own write, so whatever a
window knows, or cannot read, nothing of the group starts (cancelled-stays).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.records import Run
from tickwork.flows.dispatch.fired import Firing
from tickwork.flows.ledger import groups
from tickwork.ports import Ports


def pass_cancelled(ports: Ports, runs: Sequence[Run], firing: Firing) -> Sequence[Run]:
    """What of these is to be fired: all but timers that were cancelled with their group."""
    borne = {groups.label_of(run) for run in runs if run.group and not run.is_of_job}
    if not borne:
        return runs
    groups.learn(ports, firing.groups, borne)
    going: list[Run] = []
    for run in runs:
        if run.is_of_job or groups.cancelled(firing.groups, run) is None:
            going.append(run)
        else:
            ports.signals.count("runs.cancelled_with_group_total", team=run.key.team)
    return going


def as_it_fires(ports: Ports, job: Job, firing: Firing) -> Job:
    """A job that was read anew as whoever fires sees it: with the pauses of what it lies in, and marked."""
    return marked(ports, {job.job_id: firing.paused.applied_to(job)}, firing)[job.job_id]


def marked(ports: Ports, jobs: Mapping[str, Job], firing: Firing) -> dict[str, Job]:
    """The jobs, each with the group that has cancelled it, if one has: its next step ends its chain."""
    groups.learn(ports, firing.groups, {groups.label_of_job(job) for job in jobs.values() if job.group})
    found = {job_id: groups.cancelled_job(firing.groups, job) for job_id, job in jobs.items()}
    return {job_id: replace(job, cancelled_with=found[job_id]) for job_id, job in jobs.items()}
