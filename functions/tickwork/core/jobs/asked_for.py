"""A run that somebody asks for now, beside the schedule (F13): its item, and what its job notes of it.

Protects one-run (its identity is its own, next to any scheduled run's), chain-unbroken (nothing of the chain is in its
writes) and what a job's `overlap` promises: where its runs may not overlap it becomes the holder by the same
compare-and-set by which the next one would fire. Where they may, it is named all the same: should they not any more,
whoever steps the chain reads it at once, while the index of a job's runs may not show it yet. Refuses to know a pause:
a run by hand leaves one as it was.
"""

from __future__ import annotations

from tickwork.core.jobs import overlap
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.overlap import HOLDERS_MAX, Buffer, Holder
from tickwork.core.ledger import deadlines
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Check, Item, Update, all_of


def asked_run(job: Job, key: LedgerKey, work: Work, by: str, because: str, now_ms: int, *, beside: bool) -> Run:
    """The pending run. What it is to do stands in it, whatever its job becomes (W13)."""
    defaults = job.goes_by if job.goes_by != job.defaults_base else None
    return Run(
        key,
        work=work,
        created_at_ms=now_ms,
        guarded=work.is_guarded or job.is_hard,
        hard=job.is_hard,
        start_by_ms=deadlines.start_by_ms(key, work),
        created_by=by,
        because=because,
        beside=beside,
        defaults=defaults,
        group=job.group,
        epoch=job.epoch,
    )


def joining(job: Job, run: Run, live: tuple[Holder, ...], buffer: Buffer | None = None) -> Update | Check:
    """What is written, or asked, on the job as it was read. `live`: of the runs that it names, those that have not
    ended; where its runs may not overlap there is none: who would be held waits, in
    `buffer`, or does not come here."""
    if run.beside:
        return Check(JOBS, job.key(), as_read(job))
    # Of more than a job can name the newest are: the others have been in the index for long, and are looked for.
    named: Item = overlap.written((*live, Holder(run.key))[-HOLDERS_MAX:])
    if not job.may_overlap and job.fired_through_ms:
        named["held_through_ms"] = job.fired_through_ms
    unmoved = all_of(as_read(job), *overlap.as_read(job.holders, job.held_through_ms, job.buffer))
    if buffer is not None:
        return Update(JOBS, job.key(), unmoved, set=overlap.buffered(buffer))
    dropped = job.may_overlap and len(live) >= HOLDERS_MAX and job.held_through_ms
    return Update(JOBS, job.key(), unmoved, set=named, remove=("held_through_ms",) if dropped else ())
