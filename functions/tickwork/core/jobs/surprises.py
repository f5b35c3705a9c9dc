"""Policies of a job that are right each by itself, and do together what few people expect.

Owns the warnings of them, shown when a job is registered or changed, each as `code: sentence`. A warning never changes
what a policy means. Those of schedules are in `schedule.shown.surprises`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tickwork.core.jobs.definitions import Definition
from tickwork.core.jobs.overlap import BUFFERED_MAX


def warnings_of_policies(job: Definition) -> Iterator[str]:
    """Decision 149: what an outage has left comes due at one moment, and then each holds up those behind it."""
    policy, last = job.catch_up.policy, job.catch_up.last
    if job.may_overlap or not (policy == "all" or (policy == "last" and last > 1)):
        return
    asked = "all that was missed" if policy == "all" else f"the last {last} that were missed"
    waits = BUFFERED_MAX[job.overlap]
    lets = "only the oldest of them run" if not waits else "only the two oldest of them run, the second when it may"
    yield (
        f"overlap_skips_missed: catch_up is to run {asked} in an outage, but overlap '{job.overlap}' lets {lets}: the "
        "others are due while one has not ended, and are skipped; say overlap 'allow' to run them all"
    )
