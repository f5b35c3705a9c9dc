"""What a replay of a dead run writes on its job, beside the run: it holds the job again.

Protects no-overlap (F9): by the same compare-and-set by which the next one would fire. Refuses to know whether another
holds it: that was read.
"""

from __future__ import annotations

from tickwork.core.jobs import overlap
from tickwork.core.jobs.changes import as_read
from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.overlap import HOLDERS_MAX, Holder
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import AllOf, Check, Is, Update, Write, all_of


def take_holder(job: Job, run: Run) -> Write:
    """What a replay of one of the job's runs writes, or asks, beside the run. Where runs may overlap, that they still
    may: a change of that either comes after it, and finds the run, or before it. Else the run becomes the one that
    holds the job, by the same compare-and-set by which the next one would fire. (No run holds it: that was read.)"""
    unmoved = all_of(as_read(job), *overlap.as_read(job.holders, job.held_through_ms, job.buffer))
    taken = Holder(run.key, len(run.replays) + 1)
    if job.may_overlap and (job.holders or job.held_through_ms):
        return _named_too(job, taken, unmoved)
    if job.may_overlap:
        nobody = overlap.as_read((), 0, job.buffer)
        return Check(JOBS, job.key(), all_of(Is("version", job.version), *nobody))
    changes = overlap.written((taken,))
    changes |= {"held_through_ms": job.fired_through_ms} if job.fired_through_ms else {}
    return Update(JOBS, job.key(), unmoved, set=changes)


def _named_too(job: Job, taken: Holder, unmoved: AllOf) -> Update:
    """It may overlap, perhaps because the platform's defaults say so, and they may say another thing again: what the
    job knows of its holders does not reach a run that is replayed meanwhile, so that it is named beside them."""
    others = tuple(one for one in job.holders if one.key != taken.key)
    gone = ("held_through_ms",) if len(others) >= HOLDERS_MAX and job.held_through_ms else ()  # all are looked for
    return Update(JOBS, job.key(), unmoved, set=overlap.written((*others, taken)[-HOLDERS_MAX:]), remove=gone)
