"""Asking for a run of a job now (F13, A1): a run with an identity of its own, beside the scheduled ones.

Protects one-run (a repeat of the request, known by its client key, is answered with the first run) and no-lost-timer
(answered only after the creator's rule; a crash before the write leaves nothing, one after it a pending item that the
repeat, the scanner or the ledger audit sees to). It leaves the chain and a pause of its job as they are. While another
run holds the job it waits where the job's overlap has what is due wait, as that would, and is else refused; unless it
was asked for beside that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace

from tickwork.core.dispatch import buffering, chain
from tickwork.core.errors import Conflict, Held, NotFound
from tickwork.core.instants import SECOND_MS, iso, second_of
from tickwork.core.jobs.asked_for import asked_run, joining
from tickwork.core.jobs.definitions import DELETED, Job
from tickwork.core.jobs.overlap import Holder
from tickwork.core.ledger import kinds, lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import HeldBy, Run
from tickwork.core.ledger.tables import TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Absent, Committed, Put, Write
from tickwork.core.schedule import hard_freeze
from tickwork.flows.access import pools, registry
from tickwork.flows.dispatch import creating, freeing
from tickwork.flows.dispatch.overlapping import holding_of, named_live
from tickwork.flows.ledger import groups, reading
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.payloads import PAYLOAD_KEPT_S, keep_own
from tickwork.flows.ledger.reading import read_run
from tickwork.flows.runs import run_keys
from tickwork.flows.runs.naming import asked_for_key
from tickwork.ports import Ports

ASK_TRIES_MAX = 5
"""Each refusal means that the job was changed or stepped meanwhile: not five times between two calls."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run that somebody wants now. `work` makes of what the job does what this run is to do; `beside`: whatever else
    runs of the job; `waits`: where something does, until the job is free, if its overlap has any wait. `client_key` and
    `fingerprint` tell a repeat of the request."""

    job_id: str
    by: str
    reason: str
    work: Callable[[Work], Work] = lambda work: work
    beside: bool = False
    client_key: str = ""
    fingerprint: str = ""
    waits: bool = True


@dataclass(frozen=True, slots=True)
class Asked:
    """The run, and whether this call has made it. `run` None: an earlier one has, and its record has expired."""

    key: LedgerKey
    run: Run | None
    is_new: bool


def asked_before(ports: Ports, wanted: Wanted) -> Asked | None:
    """What the same request has made before, however long ago; AlreadyExists when its client key is another's. The
    first try may have died before it saw to its run, so that this one does."""
    if not wanted.client_key:
        return None
    key = run_keys.first_answer(ports, wanted.job_id, wanted.client_key, wanted.fingerprint)
    if key is None:
        return None
    creating.follow_up(ports, [key])
    run = read_run(ports, key)
    asked = Asked(key, run, False)
    if run is None or run.status != lifecycle.BUFFERED:
        return asked
    now_ms = ports.clock.now_ms()
    commit(ports, buffering.look_at(key, now_ms))  # that of the first try may have no tick
    creating.follow_up(ports, [buffering.look_key(key, now_ms)])
    return _looked_at(ports, asked)


def ask_for_run(ports: Ports, wanted: Wanted) -> Asked:
    """Make the run, and see to it that it is sent. NotFound without the job; Held while another run holds it, or a
    hard calendar excludes the time that it is; AlreadyExists for a client key of another request."""
    unique = f"{wanted.job_id}|{wanted.client_key}" if wanted.client_key else ports.ids.unique()
    kind = kinds.kind_of(kinds.MANUAL, hashlib.sha256(unique.encode()).hexdigest())
    at_ms = second_of(ports.clock.now_ms()) * SECOND_MS
    for tries in range(ASK_TRIES_MAX):
        job = _job(ports, wanted.job_id)
        key = asked_for_key(ports, wanted.job_id, at_ms, kind, job.work.lane)
        groups.refuse_cancelled(ports, job)
        _refuse_freeze(ports, job)
        if not pools.may_aim(ports, job.team, job.work.pool, at_ms):
            raise Held(f"the pool {job.work.pool} is closed", field="job_id", remedy="give the job another pool")
        others = _others(ports, job, wanted)
        work = keep_own(ports, wanted.work(job.work), f"{key.job_id}#{kind}", _payload_expires_s(ports, key))
        run = asked_run(job, key, work, wanted.by, wanted.reason, ports.clock.now_ms(), beside=wanted.beside)
        if (asked := _make(ports, wanted, _writes(ports, job, run, others, tries), run, job)) is not None:
            creating.follow_up(ports, [key])
            return asked if others.by is None else _looked_at(ports, asked)
        if job.buffer is not None:  # what it names may have ended, and be forgotten by nobody yet
            freeing.free_job(ports, wanted.job_id)
    raise Conflict(f"job {wanted.job_id} was changed {ASK_TRIES_MAX} times meanwhile")


def _job(ports: Ports, job_id: str) -> Job:
    """With its calendars. One that has finished, is paused, or shows an error has work all the same."""
    job = reading.read_job_to_plan(ports, job_id)
    if job is None or job.status == DELETED:
        raise NotFound(
            f"there is no job {job_id!r}", field="job_id", remedy="list the team's jobs with GET /jobs?team="
        )
    return job


def _writes(ports: Ports, job: Job, run: Run, others: _Others, tries: int) -> list[Write]:
    """The run, and what is written for it on its job; where it has to wait, as for an occurrence that is due. A try
    that follows another has its look a second later: one of the same second may be another's."""
    if others.by is None:
        return [Put(TIMERS, run.to_item(), Absent()), joining(job, run, others.live)]
    now_ms = ports.clock.now_ms() + tries * SECOND_MS
    buffer, kept_back = buffering.put_behind(job, run.key, others.by, now_ms, ports.layout.retention_s, born=run)
    return [*kept_back, joining(job, run, (), buffer)]


def _looked_at(ports: Ports, asked: Asked) -> Asked:
    """Who has a run wait looks at once whether it may go, and asks what holds it up to end where that is the policy."""
    freeing.free_job(ports, asked.key.job_id)
    return replace(asked, run=read_run(ports, asked.key))


def _make(ports: Ports, wanted: Wanted, writes: list[Write], run: Run, job: Job) -> Asked | None:
    """The run as it is made, or was made by another try of the same request; None when the job has moved."""
    registry.keep_teams_mark(ports, job.team, run.key.fire_at_ms)
    look = buffering.look_among(writes)
    creating.prepare_slices(ports, [run.key] if look is None else [run.key, look])
    if wanted.client_key:
        row = run_keys.claim(run.key, wanted.client_key, wanted.fingerprint, ports.layout.retention_s)
        writes.append(row)
    is_made = isinstance(commit(ports, *writes), Committed)
    standing = None if is_made else read_run(ports, run.key)
    if is_made or standing is not None:  # or it is our own write, whose reply was lost
        creating.follow_up(ports, [] if look is None else [look])
    if is_made:
        ports.signals.log("run_asked_for", ref=run.key.ref, job_id=job.job_id, by=wanted.by, reason=wanted.reason)
        return Asked(run.key, run, True)
    if standing is not None:
        return Asked(run.key, standing, True)
    return asked_before(ports, wanted)


@dataclass(frozen=True, slots=True)
class _Others:
    """What else runs of a job: `live` it goes on naming beside this one; `by`: this one waits for it."""

    live: tuple[Holder, ...] = ()
    by: HeldBy | None = None


def _others(ports: Ports, job: Job, wanted: Wanted) -> _Others:
    """Held, where it may not run beside another, and may not wait for it."""
    if wanted.beside:
        return _Others()
    if job.may_overlap:
        return _Others(named_live(ports, job))
    holding = holding_of(ports, job)
    by = holding.by if holding is not None else None
    by = by or (job.buffer.by if job.buffer is not None else None)  # nothing overtakes what waits
    if by is not None and not (wanted.waits and chain.is_room(job)):
        raise Held(
            f"run {by['occurrence']} of the job has not ended ({by['status']})",
            field="overlap",
            remedy="wait for it or cancel it; with `overlap` allow this one runs beside it",
        )
    return _Others(by=by)


def _refuse_freeze(ports: Ports, job: Job) -> None:
    """A run that would be put off to the end of a freeze is not what was asked for, and says so at once."""
    freeze = hard_freeze(job.calendars, ports.clock.now_ms())
    if freeze is not None:
        raise Held(
            f"calendar {freeze.calendar} keeps the job's runs from starting until {iso(freeze.until_ms)}",
            field="job_id",
            remedy="ask again after that",
        )


def _payload_expires_s(ports: Ports, key: LedgerKey) -> int:
    return key.fire_second + ports.layout.retention_s + PAYLOAD_KEPT_S
