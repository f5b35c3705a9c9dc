"""A team's dead letters: why each run died, and replaying them, counted first and then at a pace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tickwork.api.cursors import after_place, not_a_cursor, reached, to_place
from tickwork.api.dead_letters.answers import (
    CauseShown,
    DeadLetterShown,
    DeadLettersPage,
    ReplayAnswer,
    ReplayedRun,
)
from tickwork.api.dead_letters.bodies import DeadFilterIn, DeadLettersQuery, ReplayIn
from tickwork.api.fields import NoBody, NoQuery, instant_of
from tickwork.api.places import fields_under, run_named
from tickwork.api.routing import Call, Route
from tickwork.api.runs.views import run_view
from tickwork.core.errors import InvalidField
from tickwork.core.ids import check_slug
from tickwork.core.instants import iso, iso_ms
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey, bad_end_partitions, parse_ref
from tickwork.core.ledger.records import Run
from tickwork.flows.access.recording import call_on_many
from tickwork.flows.audit.history import EndsOf, RunView
from tickwork.flows.ledger.bad_ends import EndPlace
from tickwork.flows.runs import dead_letters
from tickwork.flows.runs.dead_letters import Order, Replayed, Wanted
from tickwork.ports import Ports

REPLAY_PAGE = 100
"""Runs that one call replays, or reads to count: well inside the time a call may take."""


def list_dead_letters(call: Call[NoBody, DeadLettersQuery]) -> tuple[int, DeadLettersPage]:
    """A team's dead runs with their cause, newest death first."""
    query = call.query
    wanted = Wanted(
        query.job_id, query.error_class, query.reason_contains, query.error_contains, query.since, query.until
    )
    page = dead_letters.list_dead(
        call.ports, query.team, wanted, limit=query.limit, after=_after(query.cursor, query.team)
    )
    place = _place(query.team, page.after)
    return 200, {
        "runs": [dead_letter_view(run) for run in page.found],
        "cursor": to_place(place),
        "bounded": page.bounded,
        "reached": reached(place),
    }


def replay_dead_letters(call: Call[ReplayIn, NoQuery]) -> tuple[int, ReplayAnswer]:
    """Run dead runs again, as the same runs, at a pace; or count them first.

    They do what they were fired to do, whatever their job says by now, unless `definition` asks for another.
    """
    ports, body = call.ports, call.body
    check_slug(body.team, "team")
    now_ms = ports.clock.now_ms()
    order = Order(
        call.actor.signs(body.by),
        body.reason,
        body.per_second,
        now_ms,
        body.replayed_before,
        body.repeat_unsafe,
        body.definition or dead_letters.OWN,
    )
    if body.runs is not None:
        named = [_own(ports, name, body.team, f"runs.{i}") for i, name in enumerate(body.runs)]
        keys = list(dict.fromkeys(named))  # a run by two of its names is one
        keys = dead_letters.dead_of(ports, keys) if body.dry_run else keys
        return 200, _replay(ports, keys, order, None, _asked(call))
    with fields_under("filter"):
        wanted = _wanted(body.filter or DeadFilterIn())
    after = _after(body.cursor, body.team)
    page = dead_letters.list_dead(ports, body.team, wanted, limit=REPLAY_PAGE, after=after)
    cursor = to_place(_place(body.team, page.after))
    return 200, _replay(ports, [run.key for run in page.found], order, cursor, _asked(call))


def _asked(call: Call[ReplayIn, NoQuery]) -> Mapping[str, Any] | None:
    """What the audit says of the call; None for one that only counts."""
    body = call.body
    if body.dry_run:
        return None
    asked = body.model_dump(include={"reason", "runs", "filter", "per_second", "definition"}, exclude_defaults=True)
    return {**asked, "by": call.actor.signs(body.by)}


def _replay(
    ports: Ports, keys: list[LedgerKey], order: Order, cursor: str | None, asked: Mapping[str, Any] | None
) -> ReplayAnswer:
    if asked is None:
        matched = [{"ref": key.ref, "occurrence": key.occurrence, "run_id": key.run_id} for key in keys]
        return {"dry_run": True, "matched": len(keys), "runs": matched, "cursor": cursor}  # type: ignore[typeddict-item]
    with call_on_many(ports, "runs.replayed", {key.team: asked for key in keys}) as counted:
        outcomes = dead_letters.replay_runs(ports, keys, order)
        for one in outcomes:
            counted.add(parse_ref(one.ref).team, "refused" if one.refusal else "replayed")
    replayed = sum(1 for one in outcomes if not one.refusal)
    shown = [_outcome(one) for one in outcomes]
    return {"dry_run": False, "matched": len(keys), "replayed": replayed, "runs": shown, "cursor": cursor}


def _outcome(one: Replayed) -> ReplayedRun:
    key = parse_ref(one.ref)
    answer: ReplayedRun = {
        "ref": one.ref,
        "occurrence": key.occurrence,
        "run_id": one.run_id,
        "replayed": not one.refusal,
    }
    if one.refusal:
        answer["reason"] = one.refusal
        if one.held_by is not None:
            answer["held_by"] = one.held_by["occurrence"]
    else:
        answer["due_at"] = iso(one.due_ms)
    return answer


def _own(ports: Ports, name: str, team: str, field: str) -> LedgerKey:
    """The place of a run of this team; what names none is told by where it stands in the request."""
    with fields_under(field):
        key = run_named(ports, name, field)
    if key.team != team:
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


def _place(team: str, after: EndPlace | None) -> EndsOf | None:
    return None if after is None else EndsOf(team, team, after)


def _after(cursor: str | None, team: str) -> EndPlace | None:
    """The place of a cursor, if it is one of this team's dead letters."""
    place = after_place(cursor)
    if place is None:
        return None
    if not isinstance(place, EndsOf) or place.end is None:
        raise not_a_cursor()
    if place.end.partition not in bad_end_partitions(team, lifecycle.DEAD):
        raise not_a_cursor()
    return place.end


ROUTES = (
    Route("GET", "/dead-letters", list_dead_letters, NoBody, DeadLettersQuery, DeadLettersPage),
    # A type checker knows no value for the type of a union.
    Route("POST", "/dead-letters:replay", replay_dead_letters, ReplayIn, NoQuery, ReplayAnswer),  # type: ignore[arg-type]
)
