"""What a run is to do: on the item itself for a one-shot, in the job's definition for an occurrence."""

from __future__ import annotations

from tickwork.core.records import Job, Run, Work
from tickwork.core.tables import JOBS
from tickwork.ports import Ports

ORDINARY = Work("", "")
"""Stands in for a definition that is not needed, or is gone: the default policies, and no limits."""


def work_of(ports: Ports, run: Run) -> Work | None:
    """The run's work; None when its job's definition is gone (a deleted job's is kept for the retention time)."""
    if run.work is not None:
        return run.work
    item = ports.store.get(JOBS, {"job_id": run.key.job_id})
    return None if item is None else Job.from_item(item).work
