"""Deleting a job, and what becomes of its runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import cast

from tickwork.api.fields import NoBody
from tickwork.api.jobs.answers import DeletedJob
from tickwork.api.jobs.bodies import DeleteQuery
from tickwork.api.routing import JOB_ID, Call, Route
from tickwork.core.errors import NotFound
from tickwork.core.ids import split_job_id
from tickwork.core.instants import iso_ms
from tickwork.flows.access.recording import call_on_many
from tickwork.flows.jobs import contracts, registering
from tickwork.flows.runs import unended
from tickwork.flows.runs.unended import Unended
from tickwork.flows.watch import telling
from tickwork.ports import Ports


def delete_job(call: Call[NoBody, DeleteQuery]) -> tuple[int, DeletedJob]:
    """Delete a job and cancel its pending occurrence. Again is a no-op, and says when it was done.

    Runs that were fired before go on, with their retries: the answer says how many are known, and `cancel_runs` ends
    them too.
    """
    ports, job_id = call.ports, call.path["job_id"]
    before = contracts.check_reason(ports, job_id, call.query.reason)
    changed = registering.delete_job(ports, job_id, call.query.reason or "")
    if changed and before is not None and call.query.reason:
        telling.tell_stopped(ports, before, "deleted", call.actor.name, call.query.reason)
    at_ms = registering.deleted_at_ms(ports, job_id)
    going_on = unended.unended_of(ports, job_id)
    counts = {status: going_on.count(status) for status in going_on.runs}
    answer = {
        "job_id": job_id,
        "deleted": True,
        "changed": changed,
        "deleted_at": iso_ms(at_ms) if at_ms else None,
        "runs": {**counts, "more": going_on.more},
    }
    if call.query.cancel_runs:
        answer["cancelled_runs"] = _cancel_runs(ports, job_id, going_on)
    return 200, cast("DeletedJob", answer)


def _cancel_runs(ports: Ports, job_id: str, going_on: Unended) -> dict[str, int]:
    team = split_job_id(job_id)[0]
    facts = {"job_id": job_id, "reason": "the job was deleted"}
    with call_on_many(ports, "runs.cancelled", {team: facts}) as counted:
        stopped = asdict(unended.cancel_unended(ports, going_on, "the job was deleted"))
        for outcome, count in stopped.items():
            counted.add(team, outcome, count)
    return stopped


ROUTES = (
    Route("DELETE", "/jobs/{job_id}", delete_job, NoBody, DeleteQuery, DeletedJob, at=(JOB_ID,), errors=(NotFound,)),
)
