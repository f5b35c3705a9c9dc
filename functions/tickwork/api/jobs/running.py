"""Running a job by hand: the request, as it is asked of the flow, and its answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tickwork.api.fields import NoQuery
from tickwork.api.fingerprints import fingerprints_of
from tickwork.api.jobs.answers import AskedRun
from tickwork.api.jobs.bodies import RunNowIn
from tickwork.api.masks import unmasked
from tickwork.api.matrix import OWNERS
from tickwork.api.routing import JOB_ID, Call, Route
from tickwork.api.runs.views import run_view
from tickwork.api.work import payload_text
from tickwork.core.errors import AlreadyExists, Forbidden, Held, NotFound, PayloadTooLarge, QuotaExceeded
from tickwork.core.ids import split_job_id
from tickwork.core.ledger.lifecycle import FORGOTTEN
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import Work
from tickwork.flows.access import quotas
from tickwork.flows.access.recording import call_on_many
from tickwork.flows.audit import history
from tickwork.flows.audit.history import RunView
from tickwork.flows.runs import asking, paging
from tickwork.flows.runs.asking import Asked, Wanted


def run_job(call: Call[RunNowIn, NoQuery]) -> tuple[int, AskedRun]:
    """Run a job now, as a run of its own beside the scheduled ones.

    Its schedule goes on as it is, and so does a pause. It obeys the job's `overlap`, unless the request says otherwise:
    while another run has not ended it waits, as `buffered`, where an occurrence that is due would, and else is refused.
    With a `client_key` the same request again, at any later time, returns the first run.
    """
    ports, body, job_id = call.ports, call.body, call.path["job_id"]
    _check_payload(call)
    wanted = _wanted(call)
    if (before := asking.asked_before(ports, wanted)) is not None:
        return 200, _answer(call, before)
    team, _ = split_job_id(job_id)
    near = quotas.admit_creates(ports, team)
    facts = {"job_id": job_id, "reason": body.reason, "by": wanted.by, "overlap": body.overlap or "as the job says"}
    facts["payload"] = "its own" if body.has_payload else "the job's"
    with call_on_many(ports, "jobs.run", {team: facts}) as counted:
        asked = asking.ask_for_run(ports, wanted)
        counted.add(team, "asked_for" if asked.is_new else "asked_for_before")
    paging.page_owners(ports, {team: near})
    return 201 if asked.is_new else 200, _answer(call, asked)


def _check_payload(call: Call[RunNowIn, NoQuery]) -> None:
    """Who may not say what a job does may not say it for one run either."""
    if call.body.has_payload and call.actor.role not in OWNERS:
        raise Forbidden(
            f"{call.actor.name} is {call.actor.role}: a payload of its own is given by owners",
            field="payload",
            remedy="leave it out to run the job as it is, or call as an owner of the team",
        )


def _wanted(call: Call[RunNowIn, NoQuery]) -> Wanted:
    body = call.body
    return Wanted(
        call.path["job_id"],
        call.actor.signs(body.by),
        body.reason,
        lambda work: _work(body, work),
        beside=body.overlap == "allow",
        waits=body.overlap != "skip",
        client_key=body.client_key or "",
        fingerprint=fingerprints_of(body, lambda given: _meaning(body, given)).meaning,
    )


def _meaning(body: RunNowIn, given: dict[str, Any]) -> dict[str, Any]:
    """A payload that is null is one, too."""
    return given | ({"payload": body.payload} if body.has_payload else {})


def _work(body: RunNowIn, work: Work) -> Work:
    """What the run is to do: what its job does, with the payload that was given for this run."""
    if not body.has_payload:
        return work
    meant = unmasked({"payload": body.payload}, work)
    return replace(work, payload=payload_text(meant["payload"]), payload_id=None)


def _answer(call: Call[RunNowIn, NoQuery], asked: Asked) -> AskedRun:
    if asked.run is None:
        view = RunView(Run(asked.key, created_by=call.actor.signs(call.body.by), because=call.body.reason), FORGOTTEN)
    else:
        view = history.view_of(call.ports, asked.run)
    return cast("AskedRun", {**run_view(view), "created": asked.is_new})


ROUTES = (
    Route(
        "POST",
        "/jobs/{job_id}/run",
        run_job,
        RunNowIn,
        NoQuery,
        AskedRun,
        {201: "The run is made.", 200: "It was made before, by the same request with the same `client_key`."},
        at=(JOB_ID,),
        errors=(NotFound, Held, AlreadyExists, PayloadTooLarge, QuotaExceeded),
    ),
)
