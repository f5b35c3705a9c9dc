"""Groups as flows ask for them: read consistently, and only for what bears a label.

Owns the derived end: what of a group stands as pending, and was cancelled with it, is shown as cancelled by whoever
reads here. Refuses to write. Costs a read unit for each group that is asked for, and nothing where no label is borne.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tickwork.core.errors import Held, WorldError
from tickwork.core.jobs.definitions import ACTIVE, CANCELLED, Job
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.epochs import Group, Label, group_key
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TEAMS
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

UNSTARTED = frozenset({lifecycle.PENDING, lifecycle.BUFFERED, lifecycle.WAITING})
"""Statuses of what starts no more when its group was cancelled."""

type Known = dict[Label, Group | None]
"""What was read of some groups; None: it was never cancelled."""


def label_of(run: Run) -> Label:
    return Label(run.key.team, run.group)


def label_of_job(job: Job) -> Label:
    return Label(job.team, job.group)


def read_groups(ports: Ports, labels: Iterable[Label]) -> Known:
    """These groups as they stand now. A name that is empty is none."""
    wanted = sorted({label for label in labels if label.name})
    if not wanted:
        return {}
    items = read_many(ports, TEAMS, [group_key(label) for label in wanted])
    found = zip(wanted, items, strict=True)
    return {label: None if item is None else Group.from_item(item) for label, item in found}


def learn(ports: Ports, known: Known, labels: Iterable[Label]) -> None:
    """Read what of these groups is not known yet. While they cannot be read nothing is learned of them: whoever fires
    goes on, and the start looks again."""
    try:
        known |= read_groups(ports, (label for label in labels if label not in known))
    except (WorldError, Unreadable) as error:
        ports.signals.log("groups_unread", why=repr(error))


def epoch_of(known: Mapping[Label, Group | None], label: Label) -> int:
    group = known.get(label)
    return group.epoch if group is not None else 0


def cancelled(known: Mapping[Label, Group | None], run: Run) -> Group | None:
    """The group with which a run was cancelled, should it not have started."""
    group = known.get(label_of(run)) if run.group else None
    return group if group is not None and group.has_cancelled(run.epoch) else None


def cancelled_job(known: Mapping[Label, Group | None], job: Job) -> Group | None:
    """The group with which a job was cancelled."""
    group = known.get(label_of_job(job)) if job.group else None
    return group if group is not None and group.has_cancelled(job.epoch) else None


def group_that_cancelled(ports: Ports, job: Job) -> Group | None:
    """The same, as it stands now."""
    return cancelled_job(read_groups(ports, [label_of_job(job)]), job)


def refuse_cancelled(ports: Ports, job: Job) -> None:
    """Held where a job was cancelled with its group: it runs neither by hand nor for the past."""
    if (group := group_that_cancelled(ports, job)) is not None:
        raise Held(group.why, field="job_id", remedy="register the job again, and it is part of the group as it is now")


# --- what is shown --------------------------------------------------------------------------------------------


def as_ended(run: Run, group: Group | None) -> Run:
    """A run as it is shown: one that its group's cancellation has ended, though nobody has written that to it."""
    if group is None or run.status not in UNSTARTED:
        return run
    why, at_ms = group.why, group.cancelled_at_ms
    return replace(run, status=lifecycle.CANCELLED, reason=why, cancelled_by=group.by, ended_at_ms=at_ms)


def as_they_end(ports: Ports, runs: Sequence[Run], known: Known | None = None) -> list[Run]:
    """Runs as they are shown. `known` is what the same answer has read before, and is added to."""
    known = {} if known is None else known
    asked = {label_of(run) for run in runs if run.group and run.status in UNSTARTED}
    known |= read_groups(ports, asked - known.keys())
    return [as_ended(run, cancelled(known, run)) for run in runs]


def jobs_as_they_end(ports: Ports, jobs: Sequence[Job]) -> list[Job]:
    """Jobs as they are shown: of one that was cancelled with its group nothing comes, also where no window has met its
    next occurrence yet."""
    known = read_groups(ports, [label_of_job(job) for job in jobs if job.status == ACTIVE])
    return [_ended_job(job, cancelled_job(known, job)) for job in jobs]


def _ended_job(job: Job, group: Group | None) -> Job:
    if group is None or job.status != ACTIVE:
        return job
    return replace(job, status=CANCELLED, reason=group.why, next=None)
