"""The routes. Each one decodes, calls one flow, encodes; errors become problem documents in one place."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2
from pydantic import ValidationError

from tickwork.api import problems, requests, views
from tickwork.api.calendars import add_calendar_routes
from tickwork.api.dead_letter_routes import add_dead_letter_routes
from tickwork.api.job_routes import add_job_routes
from tickwork.api.models import (
    CancelIn,
    TimerIn,
    TimersIn,
)
from tickwork.api.requests import (
    body_of,
    fields_under,
    json_response,
)
from tickwork.api.run_routes import add_run_routes
from tickwork.api.workers import add_worker_routes
from tickwork.core.errors import CallerError, InvalidField, WorldError
from tickwork.core.instants import iso_ms
from tickwork.flows.audit import history
from tickwork.flows.runs import timers
from tickwork.ports import Ports


class _Resolver(APIGatewayHttpResolver):
    """A resolver that keeps the request it is at in itself. The base class keeps it for all resolvers of a process
    together, which the embedded server's threads would take from each other (tenant-wall)."""

    _event: APIGatewayProxyEventV2

    def resolve(self, event: Any, context: Any) -> dict[str, Any]:
        self._event = APIGatewayProxyEventV2(event)
        return super().resolve(event, context)

    @property
    def current_event(self) -> APIGatewayProxyEventV2:  # type: ignore[override]
        return self._event


def build_app(ports: Ports) -> APIGatewayHttpResolver:
    """The resolver over a set of ports: the Lambda handler and the embedded server both call it."""
    app = _Resolver()
    _handle_errors(app, ports)
    add_job_routes(app, ports)
    _timer_routes(app, ports)
    add_calendar_routes(app, ports)
    add_run_routes(app, ports)
    add_dead_letter_routes(app, ports)
    add_worker_routes(app, ports)
    return app


def _handle_errors(app: APIGatewayHttpResolver, ports: Ports) -> None:
    def validation(error: ValidationError) -> Response[str]:
        return problems.of_validation(error, app.context["model"])

    def not_utf8(_: UnicodeDecodeError) -> Response[str]:
        return problems.of_bad_json(json.JSONDecodeError("it is not UTF-8 text", "", 0))

    def world(error: WorldError) -> Response[str]:
        ports.signals.log("request_busy", error=repr(error))
        return problems.of_world(error)

    def ours(error: Exception) -> Response[str]:
        ports.signals.count("api.internal_errors_total")
        ports.signals.log("request_failed", error=repr(error), path=app.current_event.path)
        return problems.of_bug()

    answers: dict[type[Exception], Callable[..., Response[str]]] = {
        CallerError: problems.of_caller,
        ValidationError: validation,
        json.JSONDecodeError: problems.of_bad_json,
        UnicodeDecodeError: not_utf8,
        WorldError: world,
        Exception: ours,
    }
    for error_type, answer in answers.items():
        app.exception_handler(error_type)(answer)

    @app.not_found
    def no_route(_: NotFoundError) -> Response[str]:
        return problems.of_no_route(app.current_event.http_method, app.current_event.path)

    @app.get("/health")
    def health() -> Response[str]:
        return json_response({"status": "ok", "now": iso_ms(ports.clock.now_ms())})


def _timer_routes(app: APIGatewayHttpResolver, ports: Ports) -> None:
    def traceparent() -> str | None:
        return app.current_event.headers.get("traceparent")

    @app.post("/timers")
    def create_timer() -> Response[str]:
        new = requests.new_timer(body_of(app, TimerIn), ports.layout, ports.clock.now_ms(), traceparent())
        (created,) = timers.create_timers(ports, [new])
        return json_response(views.timer_view(created.run), 201 if created.is_new else 200)

    @app.post("/timers:batch")
    def create_timers() -> Response[str]:
        now_ms = ports.clock.now_ms()
        bodies = body_of(app, TimersIn).timers
        new = []
        for index, one in enumerate(bodies):
            with fields_under(f"timers.{index}"):
                new.append(requests.new_timer(one, ports.layout, now_ms, traceparent()))
        _refuse_repeated_keys(bodies)
        with fields_under("timers" if len(new) > 1 else "timers.0"):
            created = timers.create_timers(ports, new)
        return json_response({"timers": [views.timer_view(one.run) for one in created]}, 201)

    @app.get("/timers/<timer_id>")
    def get_timer(timer_id: str) -> Response[str]:
        (view,), _ = history.job_runs(ports, timers.timer_place(timer_id).job_id, limit=1, after=None)
        return json_response(views.timer_view(view.run, view.status))

    @app.delete("/timers/<timer_id>")
    def cancel_timer(timer_id: str) -> Response[str]:
        return json_response(views.timer_view(timers.cancel_timer(ports, timer_id)))

    @app.post("/timers:cancel")
    def cancel_timers() -> Response[str]:
        return json_response({"timers": [_cancel_one(one) for one in body_of(app, CancelIn).timer_ids]})

    def _cancel_one(timer_id: str) -> dict[str, Any]:
        try:
            run = timers.cancel_timer(ports, timer_id)
        except CallerError as error:
            return {"timer_id": timer_id, "cancelled": False, "problem": error.slug, "detail": error.detail}
        return {"timer_id": timer_id, "cancelled": True, "status": run.status}


def _refuse_repeated_keys(bodies: list[TimerIn]) -> None:
    seen: dict[tuple[str, str], int] = {}
    for index, body in enumerate(bodies):
        if body.client_key is not None and seen.setdefault((body.team, body.client_key), index) != index:
            raise InvalidField(
                f"client_key {body.client_key!r} stands twice in this batch",
                field=f"timers.{index}.client_key",
                remedy="a client_key names one timer",
            )
