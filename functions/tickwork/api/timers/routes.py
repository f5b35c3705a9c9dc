"""One-shot timers: create one or many, read, cancel one or many."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from tickwork.api.cursors import after_place, not_a_cursor, reached, to_place
from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.masks import sees_payloads
from tickwork.api.paused_view import with_pause
from tickwork.api.places import fields_under, own_by_team
from tickwork.api.routing import Call, PathPart, Route
from tickwork.api.timers import lists
from tickwork.api.timers.answers import (
    CancelledTimer,
    CancelTimersAnswer,
    CreatedTimer,
    TimerAnswer,
    TimersAnswer,
    TimerShown,
    TimersPage,
    UncancelledTimer,
    UncreatedTimer,
)
from tickwork.api.timers.bodies import CancelIn, TimerIn, TimersIn, TimersQuery
from tickwork.api.timers.making import asked_of, has_passed, new_timer, timer_warnings, work_shown
from tickwork.api.timers.views import timer_view
from tickwork.api.work import check_target
from tickwork.core.errors import (
    AlreadyExists,
    BadSchedule,
    CallerError,
    InvalidField,
    NotFound,
    OutcomeUnknown,
    PayloadTooLarge,
    QuotaExceeded,
    TooLate,
    UnknownTeam,
)
from tickwork.core.ids import check_slug, split_job_id
from tickwork.core.instants import DAY_MS, LATEST_INSTANT_MS
from tickwork.core.ledger.lifecycle import FORGOTTEN
from tickwork.core.ledger.records import Run
from tickwork.flows.access import registry
from tickwork.flows.access.recording import Counted, call_on_many
from tickwork.flows.audit import history
from tickwork.flows.audit.history import EndsOf, Filter
from tickwork.flows.runs import paging, timers
from tickwork.flows.runs.admitting import let_in, let_one_in
from tickwork.flows.runs.timers import Created, Fate, NewTimer
from tickwork.ports import Ports


def create_timer(call: Call[TimerIn, NoQuery]) -> tuple[int, TimerAnswer]:
    """Create a timer.

    With a `client_key` the same request again, at any later time, returns the first timer, and another one with the
    same key is refused. Requests are the same when they mean the same, however they are written.
    """
    ports, body = call.ports, call.body
    try:
        new, near = let_one_in(ports, _new(call, body, ports.clock.now_ms()))
    except CallerError:
        check_slug(body.team, "team")
        (before,) = _created_before(ports, [body])
        if not isinstance(before, Created):
            raise
        return 200, _answer(call, body, before)
    (created,) = timers.create_timers(ports, [new])
    registry.note_unregistered(ports, [body.team])
    paging.page_owners(ports, near)
    return 201 if created.is_new else 200, _answer(call, body, created)


def create_timers(call: Call[TimersIn, NoQuery]) -> tuple[int, TimersAnswer]:
    """Create up to a hundred timers, each with a fate of its own.

    Refused as a whole when one could not be created at any time, or when none is. One whose time has passed, whose
    client_key another timer has, or for which the team's quota leaves no room, is told so, and costs no other.
    """
    bodies = call.body.timers
    _refuse_repeated_keys(bodies)
    fates = _fates(call, bodies)
    _refuse_if_nothing_is_there(fates)
    status = 201 if all(isinstance(fate, Created) for fate in fates) else 207
    return status, {"timers": [_told(call, body, fate) for body, fate in zip(bodies, fates, strict=True)]}


def _new[B: TimerIn | TimersIn](call: Call[B, NoQuery], body: TimerIn, now_ms: int) -> NewTimer:
    new = new_timer(body, call.ports.layout, now_ms, call.traceparent)
    registry.check_team(call.ports, body.team)
    check_target(call.ports, body, new.work, new.fire_at_ms)
    return new


def _fates(call: Call[TimersIn, NoQuery], bodies: list[TimerIn]) -> list[Fate | CallerError]:
    """What becomes of each: known by its key before anything is asked of its time, else too late, else created."""
    ports, now_ms = call.ports, call.ports.clock.now_ms()
    fates: dict[int, Fate | CallerError] = {
        index: fate for index, fate in enumerate(_created_before(ports, bodies)) if fate is not None
    }
    new: dict[int, NewTimer] = {}
    for index, body in enumerate(bodies):
        if index in fates:
            continue
        with fields_under(f"timers.{index}"):
            try:
                new[index] = _new(call, body, now_ms)
            except CallerError as error:
                if not has_passed(error):
                    raise
                fates[index] = error
    let = let_in(ports, list(new.values()))
    asked = dict(zip(new, let.fates, strict=True))
    fates |= {index: fate for index, fate in asked.items() if isinstance(fate, QuotaExceeded)}
    new = {index: fate for index, fate in asked.items() if isinstance(fate, NewTimer)}
    fates |= zip(new, _created(ports, list(new.values())), strict=True)
    registry.note_unregistered(ports, {bodies[index].team for index in new})
    paging.page_owners(ports, let.near)
    for index, fate in fates.items():
        if isinstance(fate, CallerError):
            fate.field = f"timers.{index}.{fate.field}"
    return [fates[index] for index in range(len(bodies))]


def _created(ports: Ports, new: list[NewTimer]) -> list[Fate]:
    """What becomes of those that are new: one entry in the audit for all, for their records say by whom they are."""
    if not new:
        return []
    facts = {team: {"timers": count} for team, count in Counter(one.team for one in new).items()}
    with call_on_many(ports, "timers.created", facts) as counted:
        fates = timers.create_each(ports, new)
        for one, fate in zip(new, fates, strict=True):
            counted.add(one.team, _outcome(fate))
    return fates


def _outcome(fate: Fate) -> str:
    if not isinstance(fate, Created):
        return "not_created"
    return "created" if fate.is_new else "created_before"


def _created_before(ports: Ports, bodies: list[TimerIn]) -> list[Fate | None]:
    """What earlier requests with their client keys say of these."""
    keyed = [index for index, body in enumerate(bodies) if body.client_key is not None]
    for index in keyed:  # a key is looked up under its team: one that is none could reach into another's
        with fields_under(f"timers.{index}"):
            check_slug(bodies[index].team, "team")
    asked = [asked_of(bodies[index]) for index in keyed]
    found = timers.created_before(ports, asked, lambda at: work_shown(bodies[keyed[at]], ports.layout))
    known = dict(zip(keyed, found, strict=True))
    return [known.get(index) for index in range(len(bodies))]


def _refuse_if_nothing_is_there(fates: list[Fate | CallerError]) -> None:
    """A batch that leaves nothing behind is refused like a single request."""
    if any(isinstance(fate, Created) for fate in fates):
        return
    errors = [fate for fate in fates if not isinstance(fate, Created)]
    for kind in (QuotaExceeded, CallerError):  # of a quota first: it says when to come again
        if found := [error for error in errors if isinstance(error, kind)]:
            raise found[0]
    raise errors[0]


def _answer(call: Call[Any, NoQuery], body: TimerIn, created: Created) -> TimerAnswer:
    view = _view(call, created.run, FORGOTTEN if created.is_forgotten else None)
    return cast("TimerAnswer", {**view, "warnings": timer_warnings(body, call.ports.clock.now_ms())})


def _view(call: Call[Any, Any], run: Run, status: str | None = None) -> TimerShown:
    return timer_view(run, status, sees_payload=sees_payloads(call.ports, call.actor, run.key.team))


def _told(call: Call[Any, NoQuery], body: TimerIn, fate: Fate | CallerError) -> CreatedTimer | UncreatedTimer:
    if isinstance(fate, Created):
        return cast("CreatedTimer", {**_answer(call, body, fate), "created": fate.is_new})
    told: UncreatedTimer = {"created": False, "problem": BUSY, "field": None, "detail": _busy(fate), "remedy": _AGAIN}
    if isinstance(fate, CallerError):
        told |= {"problem": fate.slug, "field": fate.field, "detail": fate.detail, "remedy": fate.remedy}
    if isinstance(fate, QuotaExceeded):
        told["quota"] = {"limit": fate.limit, "value": fate.value}
    if body.client_key is not None:
        told["client_key"] = body.client_key
    return told


BUSY = "busy"
_AGAIN = "repeat it with its client_key; without one look at the team's runs first"


def _busy(fate: object) -> str:
    if isinstance(fate, OutcomeUnknown):
        return "whether it was created is not known: the answer of the tables was lost"
    return "it was not created: the tables were busy"


def get_timer(call: Call[NoBody, NoQuery]) -> tuple[int, TimerShown]:
    """A timer, which is also the record of its run."""
    view = history.view_of(call.ports, timers.get_timer(call.ports, call.path["timer_id"]))
    return 200, with_pause(call.ports, view.run, _view(call, view.run, view.status))


def list_timers(call: Call[NoBody, TimersQuery]) -> tuple[int, TimersPage]:
    """A team's timers, or those of one group, by fire time, the soonest first."""
    query, now_ms = call.query, call.ports.clock.now_ms()
    if query.group is not None:
        return 200, lists.group_page(call)
    since_ms = now_ms if query.since is None else max(0, query.since)
    until_ms = since_ms + DAY_MS if query.until is None else query.until
    after = after_place(query.cursor)
    if isinstance(after, EndsOf):
        raise not_a_cursor()
    wanted = Filter(query.team, query.status, since_ms, min(until_ms, LATEST_INSTANT_MS))
    page = history.list_timers(call.ports, wanted, limit=query.limit, after=after)
    shown = [_view(call, one.run, one.status) for one in page.found]
    come = {"cursor": to_place(page.after), "bounded": page.bounded, "reached": reached(page.after)}
    return 200, cast("TimersPage", {"timers": shown, **come})


def cancel_timer(call: Call[NoBody, NoQuery]) -> tuple[int, TimerShown]:
    """Cancel a timer. Works until a worker has started it; again is a no-op."""
    return 200, _view(call, timers.cancel_timer(call.ports, call.path["timer_id"]))


def cancel_timers(call: Call[CancelIn, NoQuery]) -> tuple[int, CancelTimersAnswer]:
    """Cancel up to a hundred timers, each answered on its own."""
    ids = call.body.timer_ids
    facts = {team: {"timers": len(named)} for team, named in own_by_team(call.actor, ids).items()}
    with call_on_many(call.ports, "timers.cancelled", facts) as counted:
        return 200, {"timers": [_cancel_one(call.ports, one, counted) for one in ids]}


def _cancel_one(ports: Ports, timer_id: str, counted: Counted) -> CancelledTimer | UncancelledTimer:
    team = timer_id.partition(":")[0]
    try:
        counted.check(timers.timer_place(timer_id).team)
        run = timers.cancel_timer(ports, timer_id)
    except CallerError as error:
        counted.add(team, "not_cancelled")
        return {"timer_id": timer_id, "cancelled": False, "problem": error.slug, "detail": error.detail}
    counted.add(team, "cancelled")
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


_AT = (
    PathPart(
        "timer_id",
        "The `timer_id` that creation returned",
        "payments:t~main~0001~1793318406~00000000000000000001",
        lambda text, _: split_job_id(text, "timer_id"),
    ),
)
_REFUSED = (AlreadyExists, BadSchedule, PayloadTooLarge, QuotaExceeded, UnknownTeam)

ROUTES = (
    Route(
        "POST",
        "/timers",
        create_timer,
        TimerIn,
        NoQuery,
        TimerAnswer,
        {201: "It is created.", 200: "It was created before, by the same request with the same `client_key`."},
        errors=_REFUSED,
    ),
    Route(
        "POST",
        "/timers:batch",
        create_timers,
        TimersIn,
        NoQuery,
        TimersAnswer,
        {
            201: "They are created, or were before by the same `client_key`.",
            207: "Some are there, and some are not: `timers` says which, and why.",
        },
        errors=_REFUSED,
    ),
    Route("GET", "/timers", list_timers, NoBody, TimersQuery, TimersPage),
    Route("GET", "/timers/{timer_id}", get_timer, NoBody, NoQuery, TimerShown, at=_AT, errors=(NotFound,)),
    Route(
        "DELETE", "/timers/{timer_id}", cancel_timer, NoBody, NoQuery, TimerShown, at=_AT, errors=(NotFound, TooLate)
    ),
    Route("POST", "/timers:cancel", cancel_timers, CancelIn, NoQuery, CancelTimersAnswer),
)
