"""Jobs as the occurrences that are due were planned: by the version of the platform's defaults that each was (W13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tickwork.core.errors import WorldError
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.flows.ledger import platform_defaults
from tickwork.ports import Ports


def as_planned(
    ports: Ports,
    runs: Sequence[Run],
    jobs: Mapping[str, Job],
    leave: Callable[[LedgerKey, WorldError | Unreadable], object],
) -> tuple[list[Run], dict[str, Job]]:
    """The runs, and their jobs by id. What a job has passed, or has not come to, is decided by nothing of it; where it
    cannot be known now how its next one was planned, that one is left."""
    due: list[Run] = []
    found = dict(jobs)
    for run in runs:
        job = jobs[run.key.job_id]
        try:
            if job.next_key(run.key.cell) == run.key:
                found[job.job_id] = platform_defaults.as_due(ports, job, run)
        except (WorldError, Unreadable) as error:
            leave(run.key, error)
            continue
        due.append(run)
    return due, found
