"""The resolver: each request finds its route in the table, is read as the route declares, and meets its handler. Errors
become problem documents in one place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError
from aws_lambda_powertools.utilities.data_classes import APIGatewayProxyEventV2

from tickwork.api import problems, wall
from tickwork.api.decoding import Refused, read_body, read_query
from tickwork.api.fields import NoBody
from tickwork.api.gate import Gate, OpenGate, acting_of
from tickwork.api.routing import AnyRoute, Call
from tickwork.api.table import ROUTES
from tickwork.core.access.actors import Actor
from tickwork.core.errors import CallerError, WorldError, told_error, told_way
from tickwork.ports import Ports

_SIGNS_OF_PATHS = "/%:|,;=+&$@!*'()<>[]{}^ "
"""What stays as it is in a path before its route is looked for. A part is decoded where it is read."""


class _Resolver(APIGatewayHttpResolver):
    """A resolver that keeps the request it is at in itself. The base class keeps it for all resolvers of a process
    together, which the embedded server's threads would take from each other (tenant-wall)."""

    _event: APIGatewayProxyEventV2

    def resolve(self, event: Any, context: Any) -> dict[str, Any]:
        # The base class takes few signs for those of a part of a path; a gateway hands on all of them as they are.
        event = {**event, "rawPath": quote(event["rawPath"], safe=_SIGNS_OF_PATHS, errors="replace")}
        self._event = APIGatewayProxyEventV2(event)
        return super().resolve(event, context)

    @property
    def current_event(self) -> APIGatewayProxyEventV2:  # type: ignore[override]
        return self._event


def build_app(ports: Ports, gate: Gate | None = None) -> APIGatewayHttpResolver:
    """The resolver over a set of ports: the Lambda handler and the embedded server both call it. `gate` says who calls;
    without one everybody who gets here does as he likes, as on one's own machine."""
    app = _Resolver()
    gate = gate or OpenGate()
    _handle_errors(app, ports)
    for route in ROUTES:
        app.route(route.rule, method=route.method)(_answerer(app, ports, route, gate))
    return app


def _answerer(app: _Resolver, ports: Ports, route: AnyRoute, gate: Gate) -> Callable[..., Response[str]]:
    """Who calls, and whether his role goes so far, is settled before anything of the request is read."""

    def answer(**path: str) -> Response[str]:
        event = app.current_event
        actor = wall.NOBODY if wall.is_open(route) else gate.actor_of(ports, event.raw_event)
        wall.check_role(route, actor)
        call = wall.admitted(route, _read(event, ports, route, path, actor))
        acting = acting_of(event.raw_event, call.actor)
        call = replace(call, ports=replace(call.ports, acting=acting))
        status, answered = route.handler(call)
        return Response(status, "application/json", json.dumps(answered, ensure_ascii=False))

    return answer


def _read(
    event: APIGatewayProxyEventV2, ports: Ports, route: AnyRoute, path: dict[str, str], actor: Actor
) -> Call[Any, Any]:
    """The request as its route declares it: first what stands in the URL, then the body."""
    path = {name: unquote(text) for name, text in path.items()}
    for part in route.at:
        part.check(path[part.name], ports.layout)
    query = read_query(route.query, event.query_string_parameters or {})
    body = NoBody() if route.body is NoBody else read_body(route.body, event.decoded_body or "")
    return Call(ports, path, query, body, actor, event.headers.get("traceparent"))


def _handle_errors(app: _Resolver, ports: Ports) -> None:
    def refused(error: Refused) -> Response[str]:
        return problems.of_validation(error.error, error.model)

    def not_utf8(_: UnicodeDecodeError) -> Response[str]:
        return problems.of_bad_json(json.JSONDecodeError("it is not UTF-8 text", "", 0))

    def world(error: WorldError) -> Response[str]:
        ports.signals.log("request_busy", error=repr(error))
        return problems.of_world(error)

    def ours(error: Exception) -> Response[str]:
        ports.signals.count("api.internal_errors_total")
        path, way = app.current_event.path, told_way(error)
        ports.signals.log("request_failed", error=told_error(error), path=path, traceback=way)
        return problems.of_bug()

    answers: dict[type[Exception], Callable[..., Response[str]]] = {
        CallerError: problems.of_caller,
        Refused: refused,
        json.JSONDecodeError: problems.of_bad_json,
        UnicodeDecodeError: not_utf8,
        WorldError: world,
        Exception: ours,
    }
    for error_type, answer in answers.items():
        app.exception_handler(error_type)(answer)

    @app.not_found
    def no_route(_: NotFoundError) -> Response[str]:
        return problems.of_no_route(app.current_event.http_method, unquote(app.current_event.path))
