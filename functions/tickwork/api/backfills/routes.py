"""Backfills: count and make, list, show, pause, resume, cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tickwork.api.backfills.answers import (
    BackfillAnswer,
    BackfillsAnswer,
    BackfillShown,
    CountedBackfill,
    MadeBackfill,
)
from tickwork.api.backfills.bodies import BackfillIn, CancelBackfillIn, PauseBackfillIn, ResumeBackfillIn
from tickwork.api.fields import NoBody, NoQuery, instant_of
from tickwork.api.fingerprints import fingerprints_of
from tickwork.api.routing import JOB_ID, Call, PathPart, Route
from tickwork.core.errors import (
    AlreadyExists,
    BadSchedule,
    Held,
    InvalidField,
    NotFound,
    QuotaExceeded,
    TooLate,
    TooMany,
    VersionConflict,
)
from tickwork.core.ids import split_job_id
from tickwork.core.instants import iso, iso_ms
from tickwork.core.jobs.backfills import Backfill, parse_backfill_id
from tickwork.flows.access import quotas
from tickwork.flows.access.recording import call_on_many
from tickwork.flows.runs import backfill_making, backfill_stopping, paging
from tickwork.flows.runs.backfill_making import Plan, Wanted
from tickwork.ports import Layout

WRITE_UNITS = 9
"""Of a run: its item and the backfill's in one transaction, its index, start, end."""
_USD_PER_WRITE_UNIT = 0.625e-6


def create_backfill(call: Call[BackfillIn, NoQuery]) -> tuple[int, BackfillAnswer]:
    """Run a job's occurrences of a range again, so many at a time; or count them first.

    The list is fixed when it is made. Its runs have identities of their own, neither hold the job nor are held, and
    leave its schedule and a pause as they are.
    """
    ports, body = call.ports, call.body
    wanted = _wanted(call)
    if body.dry_run:
        return 200, _counted(wanted, backfill_making.plan(ports, wanted))
    if (before := backfill_making.made_before(ports, wanted)) is not None:
        return 200, _made(before, created=False)
    team, _ = split_job_id(wanted.job_id)
    near = quotas.admit_creates(ports, team)
    with call_on_many(ports, "backfills.created", {team: _asked(wanted)}) as counted:
        backfill = backfill_making.make(ports, wanted, body.token or "")
        counted.add(team, "runs", backfill.matched)
    paging.page_owners(ports, {team: near})
    return 201, _made(backfill, created=True)


def _wanted(call: Call[BackfillIn, NoQuery]) -> Wanted:
    body = call.body
    from_ms, until_ms = max(0, instant_of(body.since, "since")), max(0, instant_of(body.until, "until"))
    return Wanted(
        call.path["job_id"],
        from_ms,
        until_ms,
        body.outcomes,
        body.order,
        body.concurrency,
        call.actor.signs(body.by),
        body.reason,
        body.client_key or "",
        fingerprints_of(body, lambda given: _meaning(given) | {"since": from_ms, "until": until_ms}).meaning,
        body.lane or "",
    )


def _meaning(given: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in given.items() if name not in ("dry_run", "token", "by")}


def _asked(wanted: Wanted) -> dict[str, Any]:
    return {
        "job_id": wanted.job_id,
        "since": iso(wanted.from_ms),
        "until": iso(wanted.until_ms),
        "outcomes": wanted.outcomes,
        "concurrency": wanted.concurrency,
        "by": wanted.by,
        "reason": wanted.reason,
    }


def _counted(wanted: Wanted, plan: Plan) -> CountedBackfill:
    count = plan.count
    usual_s = plan.job.usual_s
    counted = {
        "dry_run": True,
        "job_id": wanted.job_id,
        "occurrences": plan.outcomes,
        "matched": count,
        "first": iso(min(plan.instants)) if plan.instants else None,
        "last": iso(max(plan.instants)) if plan.instants else None,
        "cost": {"write_units": count * WRITE_UNITS, "usd": round(count * WRITE_UNITS * _USD_PER_WRITE_UNIT, 6)},
        "takes_s": -(-count * usual_s // wanted.concurrency) if usual_s else None,
        "token": plan.token,
        **({"approximate": True} if plan.is_range else {}),
    }
    return cast("CountedBackfill", counted)


def _made(backfill: Backfill, *, created: bool) -> MadeBackfill:
    return cast("MadeBackfill", {**backfill_view(backfill), "dry_run": False, "created": created})


def backfill_view(backfill: Backfill) -> BackfillShown:
    view: BackfillShown = {
        "backfill_id": backfill.backfill_id,
        "job_id": backfill.job_id,
        "status": backfill.status,  # type: ignore[typeddict-item]
        "since": iso(backfill.from_ms),
        "until": iso(backfill.until_ms),
        "outcomes": backfill.outcomes,
        "order": backfill.order,
        "concurrency": backfill.concurrency,
        "by": backfill.by,
        "reason": backfill.because,
        "created_at": iso_ms(backfill.created_at_ms),
        "ended_at": iso_ms(backfill.ended_at_ms) if backfill.ended_at_ms else None,
        "matched": backfill.matched,
        "launched": backfill.position,
        "running": len(backfill.live),
        "ended": dict(backfill.ended),
        "left": max(0, backfill.matched - backfill.position),
    }
    if backfill.work.lane:
        view["lane"] = backfill.work.lane
    if not backfill.is_listed:
        view["approximate"], view["listed_to"] = True, iso(backfill.listed_ms)
    if backfill.stopped_by:
        view["stopped"] = {"by": backfill.stopped_by, "reason": backfill.stopped_because}
    return view


def list_backfills(call: Call[NoBody, NoQuery]) -> tuple[int, BackfillsAnswer]:
    """A job's backfills, the newest first."""
    found = backfill_making.list_of(call.ports, call.path["job_id"])
    return 200, {"backfills": [backfill_view(one) for one in found]}


def get_backfill(call: Call[NoBody, NoQuery]) -> tuple[int, BackfillShown]:
    """A backfill, and how far it is."""
    return 200, backfill_view(backfill_stopping.get_backfill(call.ports, call.path["backfill_id"]))


def pause_backfill(call: Call[PauseBackfillIn, NoQuery]) -> tuple[int, BackfillShown]:
    """Launch nothing more until it is resumed; runs that were launched go on."""
    by, reason = call.actor.signs(call.body.by), call.body.reason
    return _act(call, "paused", reason, lambda id_: backfill_stopping.pause(call.ports, id_, by, reason))


def resume_backfill(call: Call[ResumeBackfillIn, NoQuery]) -> tuple[int, BackfillShown]:
    """Go on. Again is a no-op."""
    by = call.actor.signs(call.body.by)
    return _act(call, "resumed", "", lambda id_: backfill_stopping.resume(call.ports, id_, by))


def cancel_backfill(call: Call[CancelBackfillIn, NoQuery]) -> tuple[int, BackfillShown]:
    """Launch nothing more. What has not started is cancelled; `runs` says what becomes of what has."""
    body, by = call.body, call.actor.signs(call.body.by)
    stops_runs = body.runs == "cancel"
    return _act(
        call,
        "cancelled",
        body.reason,
        lambda id_: backfill_stopping.cancel(call.ports, id_, by, body.reason, stops_runs=stops_runs),
    )


def _act(call: Call[Any, NoQuery], what: str, reason: str, act: Callable[[str], Backfill]) -> tuple[int, BackfillShown]:
    backfill_id = call.path["backfill_id"]
    team, _, _ = backfill_id.partition(":")
    facts = {"backfill": backfill_id, "reason": reason, "by": call.actor.signs(call.body.by)}
    with call_on_many(call.ports, f"backfills.{what}", {team: facts}) as counted:
        backfill = act(backfill_id)
        counted.add(team, backfill.status)
    return 200, backfill_view(backfill)


def _check_id(text: str, _: Layout) -> None:
    parsed = parse_backfill_id(text)
    if parsed is None:
        raise InvalidField(
            f"{text[:80]!r} is not the id of a backfill", field="backfill_id", remedy="list those of its job"
        )
    split_job_id(parsed[0], "backfill_id")


_JOB = (JOB_ID,)
_AT = (
    PathPart(
        "backfill_id",
        "The `backfill_id` that making it returned",
        "payments:card-settlement~9f86d081884c7d65",
        _check_id,
    ),
)
_OVER = (NotFound, TooLate)

ROUTES = (
    Route(
        "POST",
        "/jobs/{job_id}/backfills",
        create_backfill,
        BackfillIn,
        NoQuery,
        BackfillAnswer,  # type: ignore[arg-type]
        {
            201: "It is made, and its first runs are launched.",
            200: "It is counted; or it was made before, by the same request with the same `client_key`.",
        },
        at=_JOB,
        errors=(NotFound, VersionConflict, AlreadyExists, Held, TooMany, BadSchedule, QuotaExceeded),
    ),
    Route("GET", "/jobs/{job_id}/backfills", list_backfills, NoBody, NoQuery, BackfillsAnswer, at=_JOB),
    Route("GET", "/backfills/{backfill_id}", get_backfill, NoBody, NoQuery, BackfillShown, at=_AT, errors=(NotFound,)),
    Route(
        "POST",
        "/backfills/{backfill_id}/pause",
        pause_backfill,
        PauseBackfillIn,
        NoQuery,
        BackfillShown,
        at=_AT,
        errors=_OVER,
    ),
    Route(
        "POST",
        "/backfills/{backfill_id}/resume",
        resume_backfill,
        ResumeBackfillIn,
        NoQuery,
        BackfillShown,
        at=_AT,
        errors=_OVER,
    ),
    Route(
        "POST",
        "/backfills/{backfill_id}/cancel",
        cancel_backfill,
        CancelBackfillIn,
        NoQuery,
        BackfillShown,
        at=_AT,
        errors=_OVER,
    ),
)
