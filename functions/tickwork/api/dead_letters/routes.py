"""A team's dead letters: why each run died, and replaying them, counted first and then at a pace."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from tickwork.api.cursors import from_cursor, not_a_cursor, to_cursor
from tickwork.api.dead_letters.answers import (
    CauseShown,
    DeadLetterShown,
    DeadLettersPage,
    ReplayAnswer,
    ReplayedRun,
)
from tickwork.api.dead_letters.bodies import DeadFilterIn, DeadLettersQuery, ReplayIn
from tickwork.api.fields import NoBody, NoQuery, instant_of
from tickwork.api.places import fields_under, key_of
from tickwork.api.routing import Call, Route
from tickwork.api.runs.views import run_view
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


def list_dead_letters(call: Call[NoBody, DeadLettersQuery]) -> tuple[int, DeadLettersPage]:
    """A team's dead runs with their cause, newest death first."""
    query = call.query
    wanted = Wanted(
        query.job_id, query.error_class, query.reason_contains, query.error_contains, query.since, query.until
    )
    after = _position(query.cursor)
    found, more = dead_letters.list_dead(call.ports, query.team, wanted, limit=query.limit, after=after)
    return 200, {"runs": [dead_letter_view(run) for run in found], "cursor": _cursor(more)}


def replay_dead_letters(call: Call[ReplayIn, NoQuery]) -> tuple[int, ReplayAnswer]:
    """Run dead runs again, as the same runs, at a pace; or count them first.

    They do what they were fired to do, whatever their job says by now, unless `definition` asks for another.
    """
    ports, body = call.ports, call.body
    check_slug(body.team, "team")
    now_ms = ports.clock.now_ms()
    order = Order(
        body.by,
        body.reason,
        body.per_second,
        now_ms,
        body.replayed_before,
        body.repeat_unsafe,
        body.definition or dead_letters.OWN,
    )
    if body.runs is not None:
        keys = [_own(key_of(ref, f"runs.{i}"), body.team, f"runs.{i}") for i, ref in enumerate(body.runs)]
        return 200, _replay(ports, keys, order, None, dry_run=body.dry_run)
    with fields_under("filter"):
        wanted = _wanted(body.filter or DeadFilterIn())
    found, more = dead_letters.list_dead(ports, body.team, wanted, limit=REPLAY_PAGE, after=_position(body.cursor))
    return 200, _replay(ports, [run.key for run in found], order, _cursor(more), dry_run=body.dry_run)


def _replay(ports: Ports, keys: list[LedgerKey], order: Order, cursor: str | None, *, dry_run: bool) -> ReplayAnswer:
    if dry_run:
        matched = [{"ref": key.ref, "run_id": key.run_id} for key in keys]
        return {"dry_run": True, "matched": len(keys), "runs": matched, "cursor": cursor}  # type: ignore[typeddict-item]
    outcomes = dead_letters.replay_runs(ports, keys, order)
    replayed = sum(1 for one in outcomes if not one.refusal)
    shown = [_outcome(one) for one in outcomes]
    return {"dry_run": False, "matched": len(keys), "replayed": replayed, "runs": shown, "cursor": cursor}


def _outcome(one: Replayed) -> ReplayedRun:
    answer: ReplayedRun = {"ref": one.ref, "run_id": one.run_id, "replayed": not one.refusal}
    if one.refusal:
        answer["reason"] = one.refusal
    else:
        answer["due_at"] = iso(one.due_ms)
    return answer


def _own(key: LedgerKey, team: str, field: str) -> LedgerKey:
    if key.team != team or key.kind:
        raise InvalidField("it is not a run of this team", field=field, remedy="give the `ref` of one of its runs")
    return key


def _wanted(body: DeadFilterIn) -> Wanted:
    return Wanted(
        body.job_id or "",
        body.error_class or "",
        body.reason_contains or "",
        body.error_contains or "",
        instant_of(body.since, "since") if body.since else 0,
        instant_of(body.until, "until") if body.until else 0,
    )


def dead_letter_view(run: Run) -> DeadLetterShown:
    """A dead run: its history, and the cause on top."""
    last: Mapping[str, Any] = run.attempts[-1] if run.attempts else {}
    cause: CauseShown = {
        "reason": run.reason,
        "error": last.get("error", ""),
        "error_class": last.get("error_class"),
    }
    view = {**run_view(RunView(run, run.status)), "cause": cause, "died_at": iso_ms(run.ended_at_ms)}
    return cast("DeadLetterShown", view)


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


ROUTES = (
    Route("GET", "/dead-letters", list_dead_letters, NoBody, DeadLettersQuery, DeadLettersPage),
    # A type checker knows no value for the type of a union.
    Route("POST", "/dead-letters:replay", replay_dead_letters, ReplayIn, NoQuery, ReplayAnswer),  # type: ignore[arg-type]
)
