"""The platform's defaults as a process knows them: one item, read when a job is planned and not within half a minute
of the last time.

Protects W13 where processes know different editions: which version counts for an occurrence stands in its item, and a
version that this process does not know yet is looked up. While the table is busy, what was known goes on counting; who
knows nothing yet plans a job as it was registered, and leaves an occurrence that was planned by another version.
"""

from __future__ import annotations

from collections.abc import Sequence

from tickwork.core.access.teams import RULES
from tickwork.core.errors import WorldError
from tickwork.core.jobs import defaults
from tickwork.core.jobs.defaults import DEFAULTS, Defaults
from tickwork.core.jobs.definitions import REPLACED, Definition, Job
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger import remembered
from tickwork.ports import Ports

KEY: Item = {"cell": RULES, "team": "platform-defaults"}


def in_force(ports: Ports, known: int = 0, *, anew: bool = False) -> Defaults:
    """The defaults, with the version `known` among them if there is one. WorldError where nothing is known at all. For
    `TRUSTED_MS` after a roll-out a process may plan by what was before: it says so on the item."""
    try:
        (item,) = remembered.read(ports, [KEY], anew=anew)
        found = _from(ports, item)
        if known > found.newest and not anew:
            return in_force(ports, anew=True)
    except WorldError as error:
        ports.signals.log("defaults_not_read", error=repr(error))
        if anew or (item := remembered.known(ports, KEY)) is None:
            raise
        return _from(ports, item)
    return found


def _from(ports: Ports, item: Item | None) -> Defaults:
    """A document of a newer version of ours, which this one cannot read, says nothing to it: jobs go as registered."""
    if item is None:
        return DEFAULTS
    try:
        return Defaults.from_item({name: value for name, value in item.items() if name not in KEY})
    except Unreadable as error:
        ports.signals.log("defaults_unreadable", why=str(error))
        return DEFAULTS


def applied(ports: Ports, jobs: Sequence[Job]) -> list[Job]:
    """The jobs as they are by the versions that they go by now: what comes next is planned by those."""
    if not jobs:
        return []
    try:
        found = in_force(ports)
    except WorldError:
        return [*jobs]
    return [defaults.by_version(found, job, found.version_of(job)) for job in jobs]


def as_seen(ports: Ports, job: Job) -> Job:
    """A job as it is shown: by what is in force for it, or as it was defined."""
    return job if job.status == REPLACED else applied(ports, [job])[0]


def as_due(ports: Ports, job: Job, run: Run) -> Job:
    """A job as one of its occurrences is decided on: by the version that this one was planned by. WorldError where
    that cannot be known now."""
    planned_by = job.defaults_base if run.defaults is None else run.defaults
    if planned_by == job.goes_by:
        return job
    if planned_by == job.defaults_base:
        return defaults.as_due(DEFAULTS, job, planned_by)
    return defaults.as_due(in_force(ports, planned_by), job, planned_by)


def work_by(ports: Ports, definition: Definition, run: Run) -> Work:
    """What a run is to do by the definition that it was fired by, and the version that it was planned by."""
    if isinstance(definition, Job):
        definition = definition.as_stored()
    if run.defaults is None:
        return definition.work
    return defaults.work_by(in_force(ports, run.defaults), definition, run.defaults)
