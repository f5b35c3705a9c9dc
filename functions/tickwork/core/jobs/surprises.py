"""Policies of a job that are right each by itself, and do together what few people expect.

Owns the warnings of them, shown when a job is registered or changed, each as `code: sentence`. A warning never changes
what a policy means. Those of schedules are in `schedule.shown.surprises`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tickwork.core.jobs.definitions import Definition
from tickwork.core.jobs.overlap import BUFFERED_MAX, CANCEL_OTHER


def warnings_of_policies(job: Definition) -> Iterator[str]:
    """Decision 149: what an outage has left comes due at one moment, and then each holds up those behind it."""
    policy, last = job.catch_up.policy, job.catch_up.last
    if job.may_overlap or not (policy == "all" or (policy == "last" and last > 1)):
        return
    asked = "all that was missed" if policy == "all" else f"the last {last} that were missed"
    others = job.buffered_max
    if others >= (last - 1 if policy == "last" else BUFFERED_MAX):
        return
    lets = (
        f"only the {others + 1} oldest of them run, each when the one before has ended"
        if others
        else "only the oldest of them run"
    )
    if job.overlap == CANCEL_OTHER:
        lets, others = "only the newest of them run", 0
    yield (
        f"overlap_skips_missed: catch_up is to run {asked} in an outage, but overlap '{job.overlap}' lets {lets}: the "
        "others are due while one has not ended, and are skipped; say overlap 'allow' to run them all"
    )
