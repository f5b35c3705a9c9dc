"""A team's dead letters: why each run died, and replaying them, counted first and then at a pace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response

from tickwork.api.models import DeadFilterIn, ReplayIn
from tickwork.api.requests import (
    body_of,
    fields_under,
    from_cursor,
    instant_in,
    json_response,
    key_of,
    limit_of,
    not_a_cursor,
    query_of,
    team_of,
    to_cursor,
)
from tickwork.api.views import run_view
from tickwork.core.errors import InvalidField
from tickwork.core.ids import check_slug
from tickwork.core.instants import LATEST_INSTANT_MS, iso, iso_ms
from tickwork.core.ledger.keys import DEAD_SPREAD, LedgerKey, parse_ledger_key
from tickwork.core.ledger.records import Run
from tickwork.flows.audit.history import RunView
from tickwork.flows.runs import dead_letters
from tickwork.flows.runs.dead_letters import Order, Position, Replayed, Wanted
from tickwork.ports import Ports

REPLAY_PAGE = 100
"""Runs that one call replays, or reads to count: well inside the time a call may take."""


def add_dead_letter_routes(app: APIGatewayHttpResolver, ports: Ports) -> None:
    @app.get("/dead-letters")
    def list_dead_letters() -> Response[str]:
        query = query_of(app, "team", "limit", "cursor", *DeadFilterIn.model_fields)
        wanted = _wanted({name: text for name, text in query.items() if name in DeadFilterIn.model_fields})
        after = _position(query.get("cursor"))
        found, more = dead_letters.list_dead(ports, team_of(query), wanted, limit=limit_of(query), after=after)
        return json_response({"runs": [dead_letter_view(run) for run in found], "cursor": _cursor(more)})

    @app.post("/dead-letters:replay")
    def replay() -> Response[str]:
        body = body_of(app, ReplayIn)
        check_slug(body.team, "team")
        now_ms = ports.clock.now_ms()
        order = Order(body.by, body.reason, body.per_second, now_ms, body.replayed_before, body.repeat_unsafe)
        if body.runs is not None:
            keys = [_own(key_of(ref, f"runs.{i}"), body.team, f"runs.{i}") for i, ref in enumerate(body.runs)]
            return json_response(_replay(ports, keys, order, dry_run=body.dry_run) | {"cursor": None})
        with fields_under("filter"):
            wanted = _wanted((body.filter or DeadFilterIn()).model_dump(exclude_none=True))
        found, more = dead_letters.list_dead(ports, body.team, wanted, limit=REPLAY_PAGE, after=_position(body.cursor))
        keys = [run.key for run in found]
        return json_response(_replay(ports, keys, order, dry_run=body.dry_run) | {"cursor": _cursor(more)})


def _replay(ports: Ports, keys: list[LedgerKey], order: Order, *, dry_run: bool) -> dict[str, Any]:
    if dry_run:
        return {"dry_run": True, "matched": len(keys), "runs": [{"ref": k.ref, "run_id": k.run_id} for k in keys]}
    outcomes = dead_letters.replay_runs(ports, keys, order)
    replayed = sum(1 for one in outcomes if not one.refusal)
    return {"dry_run": False, "matched": len(keys), "replayed": replayed, "runs": [_outcome(one) for one in outcomes]}


def _outcome(one: Replayed) -> dict[str, Any]:
    answer: dict[str, Any] = {"ref": one.ref, "run_id": one.run_id, "replayed": not one.refusal}
    return answer | ({"reason": one.refusal} if one.refusal else {"due_at": iso(one.due_ms)})


def _own(key: LedgerKey, team: str, field: str) -> LedgerKey:
    if key.team != team or key.kind:
        raise InvalidField("it is not a run of this team", field=field, remedy="give the `ref` of one of its runs")
    return key


def _wanted(given: dict[str, str]) -> Wanted:
    return Wanted(
        given.get("job_id", ""),
        given.get("error_class", ""),
        given.get("reason_contains", ""),
        given.get("error_contains", ""),
        instant_in(given, "since", 0),
        instant_in(given, "until", 0),
    )


def dead_letter_view(run: Run) -> dict[str, Any]:
    """A dead run: its history, and the cause on top."""
    last: Mapping[str, Any] = run.attempts[-1] if run.attempts else {}
    cause = {"reason": run.reason, "error": last.get("error", ""), "error_class": last.get("error_class")}
    return run_view(RunView(run, run.status)) | {"cause": cause, "died_at": iso_ms(run.ended_at_ms)}


def _cursor(position: Position | None) -> str | None:
    return None if position is None else to_cursor(json.dumps(position))


def _position(cursor: str | None) -> Position | None:
    text = from_cursor(cursor, str)
    if text is None:
        return None
    try:
        parts = json.loads(text)
        position = tuple(None if part is None else _place(*part) for part in parts)
    except (ValueError, TypeError, RecursionError):
        position = ()
    if len(position) != DEAD_SPREAD:
        raise not_a_cursor()
    return position


def _place(ended_at_ms: object, pk: str, sk: str) -> tuple[int, str, str]:
    """One partition's part of a cursor. ValueError or TypeError when it is none of ours."""
    if type(ended_at_ms) is not int or not 0 <= ended_at_ms <= LATEST_INSTANT_MS:
        raise ValueError("not an instant")
    parse_ledger_key(pk, sk)
    return ended_at_ms, pk, sk
