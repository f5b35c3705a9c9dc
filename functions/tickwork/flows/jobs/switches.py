"""Putting a job before the watchdog when it is registered or changed: its first deadline goes with the transaction.

Protects: a job without a switch costs and stores what it did; one whose deadline cannot be worked out is looked at all
the same, and judged then.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.access.teams import TeamContent
from tickwork.core.errors import WorldError
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.contracts import contract_of
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Item, Put, Update
from tickwork.core.watch import silence, wheel
from tickwork.flows.access import registry
from tickwork.flows.ledger import reading
from tickwork.flows.ledger.commit import commit
from tickwork.ports import Ports


def switched(ports: Ports, job: Job, before: Job | None = None) -> Job:
    """The job with when its switch was turned on, if it is, and the mark of its deadlines from now on."""
    if not contract_of(job, _team(ports, job.team)).is_watched:
        return replace(job, watched_since_ms=0, deadline_mark=0)
    since_ms = before.watched_since_ms if before is not None else 0
    return replace(job, watched_since_ms=since_ms or ports.clock.now_ms(), deadline_mark=job.version)


def first_deadline(ports: Ports, job: Job) -> list[Put]:
    """The deadline of a job, whose calendars have been read. One more is put where it stands already: it may have
    become a shorter one, and what is too many is harmless."""
    if not job.watched_since_ms:
        return []
    contract = contract_of(job, _team(ports, job.team))
    expected = silence.expected(job, contract, job.pauses, 0)
    if expected is None:
        return []
    now_ms = ports.clock.now_ms()
    return [wheel.put(wheel.deadline(job, expected.by_ms, expected.silence_s, now_ms))]


def enrol(ports: Ports, job: Job) -> None:
    """Put a job before the watchdog that is not there yet, for its team turned the switch on after it was registered.
    The mark and the deadline are one transaction; a refusal is somebody's change of the job, which does the same."""
    if job.watched_since_ms or not contract_of(job, _team(ports, job.team)).is_watched:
        return
    now_ms = ports.clock.now_ms()
    watched = replace(reading.to_plan(ports, job), watched_since_ms=now_ms, deadline_mark=job.version)
    marks: Item = {"watched_since_ms": now_ms, "deadline_mark": job.version}
    commit(ports, Update(JOBS, job.key(), as_read(job), set=marks), *first_deadline(ports, watched))


def _team(ports: Ports, name: str) -> TeamContent | None:
    """What its team says; while that cannot be read, the job's own word counts."""
    try:
        return registry.said_by(ports, name)
    except WorldError as error:
        ports.signals.log("contract_not_checked", team=name, error=repr(error))
        return None
