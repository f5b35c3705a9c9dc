"""Runs as people and programs see them: listing, and cancelling one wherever it stands."""

from __future__ import annotations

from typing import Any, cast

from tickwork.api.cursors import from_cursor, to_cursor
from tickwork.api.fields import NoBody, NoQuery, instant_of
from tickwork.api.places import key_of
from tickwork.api.routing import Call, Route
from tickwork.api.runs.answers import CancelledRun, CancelRunsAnswer, RunsPage, UncancelledRun
from tickwork.api.runs.bodies import CancelRunIn, CancelRunsIn, RunsQuery
from tickwork.api.runs.views import run_view
from tickwork.core.errors import CallerError, InvalidField
from tickwork.core.ids import split_job_id
from tickwork.core.instants import DAY_MS
from tickwork.core.ledger.keys import LedgerKey
from tickwork.flows.audit import history
from tickwork.flows.runs import cancelling
from tickwork.ports import Ports


def list_runs(call: Call[NoBody, RunsQuery]) -> tuple[int, RunsPage]:
    """Runs by fire time, newest first."""
    query = call.query
    since_ms = call.ports.clock.now_ms() - DAY_MS if query.since is None else query.since
    before = from_cursor(query.cursor, int, int)
    wanted = history.Filter(query.team, query.status)
    found, more = history.list_runs(call.ports, wanted, limit=query.limit, before=before, since_ms=max(0, since_ms))
    return 200, {"runs": [run_view(one) for one in found], "cursor": to_cursor(more)}


def cancel_runs(call: Call[CancelRunsIn, NoQuery]) -> tuple[int, CancelRunsAnswer]:
    """Cancel runs, also ones in flight, each answered on its own."""
    runs = [_cancel_one(call.ports, one, i, call.body.reason) for i, one in enumerate(call.body.runs)]
    return 200, {"runs": runs}


def _cancel_one(ports: Ports, one: CancelRunIn, index: int, reason: str) -> CancelledRun | UncancelledRun:
    """One entry of the batch; a fault of it fails this entry, not its neighbours."""
    try:
        cancelled = cancelling.cancel_run(ports, _place_of(ports, one, f"runs.{index}."), reason)
    except CallerError as error:
        named: dict[str, Any] = one.model_dump(exclude_none=True)
        refused = {**named, "accepted": False, "problem": error.slug, "detail": error.detail}
        return cast("UncancelledRun", refused)
    key = cancelled.run.key
    return {
        "ref": key.ref,
        "run_id": key.run_id,
        "job_id": key.job_id,
        "accepted": True,
        "status": cancelled.status,
        "cancel_requested": cancelled.requested,
        "reason": cancelled.reason,
    }


def _place_of(ports: Ports, one: CancelRunIn, where: str) -> LedgerKey:
    if one.ref is not None:
        key = key_of(one.ref, f"{where}ref")
        if key.kind:
            raise InvalidField(
                "this is the ref of a retry", field=f"{where}ref", remedy="give the `ref` of the run itself"
            )
        return key
    split_job_id(one.job_id or "", f"{where}job_id")
    at_ms = None if one.scheduled_at is None else instant_of(one.scheduled_at, "scheduled_at")
    return cancelling.find_run(ports, one.job_id or "", at_ms)


ROUTES = (
    Route("GET", "/runs", list_runs, NoBody, RunsQuery, RunsPage),
    Route("POST", "/runs:cancel", cancel_runs, CancelRunsIn, NoQuery, CancelRunsAnswer),
)
