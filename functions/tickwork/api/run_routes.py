"""Runs as people and programs see them: listing, and cancelling one wherever it stands."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from tickwork.api import views
from tickwork.api.models import CancelRunIn, CancelRunsIn
from tickwork.api.requests import (
    body_of,
    from_cursor,
    instant_in,
    json_response,
    key_of,
    limit_of,
    query_of,
    team_of,
    to_cursor,
)
from tickwork.core.errors import CallerError, InvalidField
from tickwork.core.ids import split_job_id
from tickwork.core.instants import DAY_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.flows.audit import history
from tickwork.flows.runs import cancelling
from tickwork.ports import Ports

STATUSES = sorted((set(lifecycle.MEANING) | {lifecycle.QUEUED}) - {lifecycle.SPENT})


def add_run_routes(app: APIGatewayHttpResolver, ports: Ports) -> None:
    @app.get("/runs")
    def list_runs() -> Response[str]:
        query = query_of(app, "team", "status", "limit", "since", "cursor")
        status = query.get("status", "")
        if status and status not in STATUSES:
            raise InvalidField(
                f"there is no status {status[:40]!r}", field="status", remedy=f"one of {', '.join(STATUSES)}"
            )
        team = team_of(query) if "team" in query else ""
        since_ms = max(0, instant_in(query, "since", ports.clock.now_ms() - DAY_MS))
        before = from_cursor(query.get("cursor"), int, int)
        found, more = history.list_runs(
            ports, history.Filter(team, status), limit=limit_of(query), before=before, since_ms=since_ms
        )
        return json_response({"runs": [views.run_view(one) for one in found], "cursor": to_cursor(more)})

    @app.post("/runs:cancel")
    def cancel_runs() -> Response[str]:
        body = body_of(app, CancelRunsIn)
        return json_response({"runs": [_cancel_one(ports, one, i, body.reason) for i, one in enumerate(body.runs)]})


def _cancel_one(ports: Ports, one: CancelRunIn, index: int, reason: str) -> dict[str, Any]:
    """One entry of the batch; a fault of it fails this entry, not its neighbours."""
    try:
        cancelled = cancelling.cancel_run(ports, _place_of(ports, one, f"runs.{index}."), reason)
    except CallerError as error:
        named = one.model_dump(exclude_none=True)
        return {**named, "accepted": False, "problem": error.slug, "detail": error.detail}
    key = cancelled.run.key
    named = {"ref": key.ref, "run_id": key.run_id, "job_id": key.job_id}
    return {**named, "accepted": True, "status": cancelled.status, "cancel_requested": cancelled.requested}


def _place_of(ports: Ports, one: CancelRunIn, where: str) -> LedgerKey:
    if one.ref is not None:
        key = key_of(one.ref, f"{where}ref")
        if key.kind:
            raise InvalidField(
                "this is the ref of a retry", field=f"{where}ref", remedy="give the `ref` of the run itself"
            )
        return key
    split_job_id(one.job_id or "", f"{where}job_id")
    at_ms = None if one.scheduled_at is None else instant_in({"scheduled_at": one.scheduled_at}, "scheduled_at", 0)
    return cancelling.find_run(ports, one.job_id or "", at_ms)
