"""Runs as people and programs see them: listing, and cancelling one wherever it stands."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

from tickwork.api.cursors import after_place, not_a_cursor, reached, to_place
from tickwork.api.fields import NoBody, NoQuery, instant_of
from tickwork.api.paused_view import with_pause
from tickwork.api.places import key_of, own_by_team, run_named
from tickwork.api.routing import Call, PathPart, Route
from tickwork.api.runs.answers import CancelledRun, CancelRunsAnswer, RunShown, RunsPage, UncancelledRun
from tickwork.api.runs.bodies import DUE, ENDED, CancelRunIn, CancelRunsIn, RunQuery, RunsQuery
from tickwork.api.runs.views import run_view, runs_page
from tickwork.core.errors import CallerError, InvalidField, NotFound
from tickwork.core.ids import split_job_id
from tickwork.core.instants import DAY_MS, LATEST_INSTANT_MS
from tickwork.core.ledger.ends import BAD
from tickwork.core.ledger.keys import LedgerKey, bad_end_partitions, parse_ref
from tickwork.core.ledger.lifecycle import CANCELLED
from tickwork.flows.access.recording import Counted, call_on_many
from tickwork.flows.audit import history
from tickwork.flows.audit.history import EndsOf, Filter, Place
from tickwork.flows.ledger.minutes import Spot
from tickwork.flows.ledger.reading import read_run
from tickwork.flows.runs import cancelling
from tickwork.flows.runs.naming import find_run, run_of_ref
from tickwork.ports import Ports


def list_runs(call: Call[NoBody, RunsQuery]) -> tuple[int, RunsPage]:
    """Runs of a team, or of all: those that did not end well by their end, others by fire time; newest first."""
    query = call.query
    since_ms = call.ports.clock.now_ms() - DAY_MS if query.since is None else query.since
    until_ms = LATEST_INSTANT_MS if query.until is None else query.until
    wanted = Filter(query.team, query.status, max(0, since_ms), until_ms, by_due=query.order == DUE)
    if query.order == ENDED and not wanted.is_by_end:
        raise InvalidField(
            "only runs that did not end well are listed by their end",
            field="order",
            remedy=f"leave it out, or ask for one status: {', '.join(BAD)}",
        )
    after = _after(query.cursor, wanted)
    page = history.list_runs(call.ports, wanted, limit=query.limit, after=after)
    return 200, runs_page(page, to_place(page.after), reached(page.after))


def get_run(call: Call[NoBody, RunQuery]) -> tuple[int, RunShown]:
    """One run, by any of its names."""
    key = run_named(call.ports, call.path["run"], "run", call.query.job_id)
    run = read_run(call.ports, key)
    if run is None:
        raise NotFound(
            f"there is no run {key.occurrence}",
            field="run",
            remedy="check the name; ended runs are kept for the retention time",
        )
    return 200, with_pause(call.ports, run, run_view(history.view_of(call.ports, run)))


def _after(cursor: str | None, wanted: Filter) -> Place | None:
    """The place of a cursor, if it is one of this very list."""
    after = after_place(cursor)
    if isinstance(after, Spot) and wanted.is_by_end and wanted.status != CANCELLED:
        raise not_a_cursor()
    if isinstance(after, EndsOf):
        team = after.end.partition.partition("#")[0] if after.end else after.first_team
        named = {after.first_team, after.last_team, team} - {""}
        is_of_list = wanted.is_by_end and (not wanted.team or named == {wanted.team})
        if not is_of_list or (after.end and after.end.partition not in bad_end_partitions(team, wanted.status)):
            raise not_a_cursor()
    return after


def cancel_runs(call: Call[CancelRunsIn, NoQuery]) -> tuple[int, CancelRunsAnswer]:
    """Cancel runs, also ones in flight, each answered on its own."""
    body = call.body
    named = own_by_team(call.actor, map(_id_of, body.runs))
    facts = {
        team: {"runs": [_named(body.runs[index]) for index in indices], "reason": body.reason}
        for team, indices in named.items()
    }
    with call_on_many(call.ports, "runs.cancelled", facts) as counted:
        runs = [_cancel_one(call.ports, one, i, body.reason, counted) for i, one in enumerate(body.runs)]
    return 200, {"runs": runs}


def _named(one: CancelRunIn) -> str:
    at = f"@{one.scheduled_at}" if one.scheduled_at else ""
    return one.run or one.ref or f"{one.job_id}{at}"


def _id_of(one: CancelRunIn) -> str:
    """The job or the timer that a run is of, by whatever name of it."""
    if one.job_id:
        return one.job_id
    named = one.run or one.ref or ""
    with suppress(ValueError):
        return parse_ref(named).job_id
    return named.partition("@")[0]


def _cancel_one(
    ports: Ports, one: CancelRunIn, index: int, reason: str, counted: Counted
) -> CancelledRun | UncancelledRun:
    """One entry of the batch; a fault of it fails this entry, not its neighbours."""
    team = _id_of(one).partition(":")[0]
    try:
        key = _place_of(ports, one, f"runs.{index}.")
        counted.check(key.team)
        cancelled = cancelling.cancel_run(ports, key, reason)
    except CallerError as error:
        counted.add(team, "refused")
        named: dict[str, Any] = one.model_dump(exclude_none=True)
        refused = {**named, "accepted": False, "problem": error.slug, "detail": error.detail}
        return cast("UncancelledRun", refused)
    counted.add(team, "told_to_stop" if cancelled.requested else "cancelled")
    key = cancelled.run.key
    return {
        "ref": key.ref,
        "occurrence": key.occurrence,
        "run_id": key.run_id,
        "job_id": key.job_id,
        "accepted": True,
        "status": cancelled.status,
        "cancel_requested": cancelled.requested,
        "reason": cancelled.reason,
    }


def _place_of(ports: Ports, one: CancelRunIn, where: str) -> LedgerKey:
    if one.ref is not None:
        return run_of_ref(ports, key_of(one.ref, f"{where}ref"))
    if one.run is not None:
        return run_named(ports, one.run, f"{where}run", one.job_id or "")
    split_job_id(one.job_id or "", f"{where}job_id")
    at_ms = None if one.scheduled_at is None else instant_of(one.scheduled_at, "scheduled_at")
    return find_run(ports, one.job_id or "", at_ms)


_AT = (
    PathPart(
        "run",
        "A timer's id, `team:name@time` with the nominal time, a `ref`, or (with `job_id`) a `run_id`",
        "payments:card-settlement@2026-12-01T02:00:00Z",
        lambda text, _: text,
    ),
)

ROUTES = (
    Route("GET", "/runs", list_runs, NoBody, RunsQuery, RunsPage),
    Route("GET", "/runs/{run}", get_run, NoBody, RunQuery, RunShown, at=_AT, errors=(NotFound,)),
    Route("POST", "/runs:cancel", cancel_runs, CancelRunsIn, NoQuery, CancelRunsAnswer),
)
