"""The platform's defaults: shown, published as a new version, rolled out and taken back, looked at before."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tickwork.api.cursors import from_cursor, not_a_cursor, to_cursor
from tickwork.api.defaults.answers import DefaultsShown, DefaultsVersionShown, PlannedRollOut, TurnedShown
from tickwork.api.defaults.bodies import NewDefaultsIn, PlanIn, RollOutIn
from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.jobs.views import catch_up_shown
from tickwork.api.routing import Call, Route
from tickwork.core.errors import CallerError, InvalidField, NotFound, VersionConflict
from tickwork.core.ids import check_slug, split_job_id
from tickwork.core.instants import iso, iso_ms
from tickwork.core.jobs.defaults import Defaults, Version
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.items import values_of
from tickwork.core.ledger.work import RetryPolicy
from tickwork.flows.jobs import rolling_out
from tickwork.flows.jobs.rolling_out import Turned


def get_defaults(call: Call[NoBody, NoQuery]) -> tuple[int, DefaultsShown]:
    """All versions of the platform's defaults, and for whom each is in force."""
    return 200, _view(rolling_out.read_defaults(call.ports))


def publish_defaults(call: Call[NewDefaultsIn, NoQuery]) -> tuple[int, DefaultsShown]:
    """Publish a new version. No job goes by it until it is rolled out, or pins it."""
    body = call.body
    version = rolling_out.read_defaults(call.ports).versions[-1]
    if body.retry_policy is not None:
        version = replace(version, retry=RetryPolicy.from_item(body.retry_policy.model_dump()))
    if body.catch_up is not None:
        version = replace(version, catch_up=CatchUp(**body.catch_up.model_dump()))
    tolerance_s = version.tolerance_s if body.tolerance_s is None else body.tolerance_s
    version = replace(version, tolerance_s=tolerance_s, overlap=body.overlap or version.overlap)
    if not body.model_fields_set - {"edition", "reason"}:
        raise InvalidField("nothing is given", field="retry_policy", remedy="give at least one policy")
    return 200, _view(rolling_out.publish(call.ports, body.edition, version, call.actor.name, body.reason))


def plan_defaults(call: Call[PlanIn, NoQuery]) -> tuple[int, PlannedRollOut]:
    """Who would change with a roll-out, and in what. Changes nothing."""
    body = call.body
    found = rolling_out.plan(call.ports, body.version, body.percent, _teams(body.teams), _after(body.cursor))
    answer: PlannedRollOut = {
        "jobs": [_turned(one) for one in found.turned],
        "by_team": found.by_team,
        "looked_at": found.looked_at,
        "same": found.own,
        "unreadable": found.unreadable,
        "cursor": to_cursor(found.after),
    }
    return 200, answer


def roll_out_defaults(call: Call[RollOutIn, NoQuery]) -> tuple[int, DefaultsShown]:
    """Have a version be in force for a percentage of all jobs and for teams, and for nobody else; with neither it is
    taken back. It counts from the occurrence on that is planned next."""
    body = call.body
    document = rolling_out.roll_out(
        call.ports, body.edition, body.version, body.percent, _teams(body.teams), body.reason
    )
    return 200, _view(document)


def _teams(names: list[str]) -> list[str]:
    return [check_slug(name, f"teams.{index}") for index, name in enumerate(names)]


def _after(cursor: str | None) -> str | None:
    after: str | None = from_cursor(cursor, str)
    try:
        if after is not None:
            split_job_id(after)
    except CallerError:
        raise not_a_cursor() from None
    return after


def _view(document: Defaults) -> DefaultsShown:
    versions = [_version(number, version) for number, version in enumerate(document.versions)]
    return {"edition": document.edition, "versions": versions}


def _version(number: int, version: Version) -> DefaultsVersionShown:
    view = {
        "version": number,
        "retry_policy": values_of(version.retry),
        "tolerance_s": version.tolerance_s,
        "overlap": version.overlap,
        "catch_up": catch_up_shown(version.catch_up),
        "percent": version.percent,
        "teams": list(version.teams),
        "by": version.by,
        "reason": version.reason,
        "created_at": iso_ms(version.created_at_ms) if version.created_at_ms else None,
    }
    return cast("DefaultsVersionShown", view)


def _turned(one: Turned) -> TurnedShown:
    upcoming = one.job.next
    return {
        "job_id": one.job.job_id,
        "before": one.before,
        "after": one.after,
        "policies": list(one.policies),
        "from_after": iso(upcoming.scheduled_at_ms) if upcoming else None,
    }


ROUTES = (
    Route("GET", "/defaults", get_defaults, NoBody, NoQuery, DefaultsShown),
    Route("POST", "/defaults", publish_defaults, NewDefaultsIn, NoQuery, DefaultsShown, errors=(VersionConflict,)),
    Route("POST", "/defaults:plan", plan_defaults, PlanIn, NoQuery, PlannedRollOut, errors=(NotFound,)),
    Route(
        "POST",
        "/defaults:roll-out",
        roll_out_defaults,
        RollOutIn,
        NoQuery,
        DefaultsShown,
        errors=(NotFound, VersionConflict),
    ),
)
