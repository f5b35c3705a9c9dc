"""Finding runs that go on much longer than usual, and telling of them.

Protects the heartbeat that it is called from: whatever fails here, the lease has been extended and its worker hears so.
Costs a read unit for each heartbeat of a run beyond its first hour, and nothing before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs import durations
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS
from tickwork.flows.ledger.reading import job_from, read_many
from tickwork.ports import Ports


@dataclass(frozen=True, slots=True)
class Overlong:
    """An attempt that has been running for so long; `usual_s` None: it is not known how long its job's runs take."""

    running_s: int
    usual_s: int | None


def tell(ports: Ports, run: Run) -> None:
    """Say of a run that was just beaten for that it goes on much longer than usual, as long as it does."""
    found = find(ports, [run]).get(run.key.ref)
    if found is None:
        return
    ports.signals.count("runs.overlong_total", team=run.key.team)
    facts = {"worker": run.worker, "running_s": found.running_s, "usual_s": found.usual_s}
    ports.signals.log("run_overlong", ref=run.key.ref, job_id=run.key.job_id, **facts)


def find(ports: Ports, runs: Iterable[Run]) -> dict[str, Overlong]:
    """Those of the runs that go on much longer than usual, by ref. Their jobs are read at once; of one that cannot be
    read now nothing is said."""
    now_ms = ports.clock.now_ms()
    suspects = [run for run in runs if _is_suspect(run, now_ms)]
    try:
        jobs = _jobs_of(ports, suspects)
    except WorldError:
        return {}
    found: dict[str, Overlong] = {}
    for run in suspects:
        job = jobs.get(run.key.job_id)
        if run.is_of_job and job is None:
            continue
        usual = None if job is None else durations.usual_s(job)
        running_s = (now_ms - run.started_at_ms) // SECOND_MS
        if running_s >= durations.told_after_s(usual):
            found[run.key.ref] = Overlong(running_s, usual)
    return found


def _is_suspect(run: Run, now_ms: int) -> bool:
    """Whether its job has to be looked at. What has a bound of its own ends by that; whose lease is over has no worker
    that it could be told of."""
    is_running = run.status == lifecycle.RUNNING and not run.stop_at_ms and run.lease_until_ms > now_ms
    return is_running and now_ms - run.started_at_ms >= durations.LOOK_AFTER_S * SECOND_MS


def _jobs_of(ports: Ports, runs: Iterable[Run]) -> dict[str, Job]:
    ids = sorted({run.key.job_id for run in runs if run.is_of_job})
    jobs: dict[str, Job] = {}
    for item in read_many(ports, JOBS, [{"job_id": id_} for id_ in ids]):
        try:
            jobs |= {} if item is None else {str(item["job_id"]): job_from(item)}
        except Unreadable:  # its own alarm is on
            continue
    return jobs
