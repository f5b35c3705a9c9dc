"""The routes of calendars: put, read, list."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from tickwork.api.models import CalendarIn
from tickwork.api.requests import after_name, body_of, json_response, limit_of, query_of, team_of, to_cursor
from tickwork.api.work import json_text
from tickwork.core.ids import split_job_id
from tickwork.core.instants import iso_ms
from tickwork.core.ledger.writes import Item
from tickwork.flows.jobs import calendars
from tickwork.ports import Ports


def add_calendar_routes(app: APIGatewayHttpResolver, ports: Ports) -> None:
    @app.put("/calendars/<calendar_id>")
    def put_calendar(calendar_id: str) -> Response[str]:
        team, name = split_job_id(calendar_id, "calendar_id")
        body = body_of(app, CalendarIn)
        spec = body.model_dump(exclude={"version"}, exclude_defaults=True)
        json_text(spec, "calendar")
        return json_response(_view(calendars.put_calendar(ports, team, name, spec, body.version)))

    @app.get("/calendars/<calendar_id>")
    def get_calendar(calendar_id: str) -> Response[str]:
        split_job_id(calendar_id, "calendar_id")
        return json_response(_view(calendars.get_calendar(ports, calendar_id)))

    @app.get("/calendars")
    def list_calendars() -> Response[str]:
        query = query_of(app, "team", "limit", "cursor")
        team = team_of(query)
        found, more = calendars.list_calendars(ports, team, limit=limit_of(query), after=after_name(query, team))
        return json_response({"calendars": [_view(item) for item in found], "cursor": to_cursor(more)})


def _view(item: Item) -> dict[str, Any]:
    return {
        "calendar_id": item["calendar_id"],
        "version": item["version"],
        **item["spec"],
        "changed_at": iso_ms(item["changed_at_ms"]),
    }
