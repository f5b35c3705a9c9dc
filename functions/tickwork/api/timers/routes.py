"""One-shot timers: create one or many, read, cancel one or many."""

from __future__ import annotations

from typing import cast

from tickwork.api.cursors import after_place, not_a_cursor, reached, to_place
from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.places import fields_under
from tickwork.api.routing import Call, PathPart, Route
from tickwork.api.timers.answers import (
    CancelledTimer,
    CancelTimersAnswer,
    TimersAnswer,
    TimerShown,
    TimersPage,
    UncancelledTimer,
)
from tickwork.api.timers.bodies import CancelIn, TimerIn, TimersIn, TimersQuery
from tickwork.api.timers.making import new_timer
from tickwork.api.timers.views import timer_view
from tickwork.core.errors import (
    AlreadyExists,
    BadSchedule,
    CallerError,
    InvalidField,
    NotFound,
    PayloadTooLarge,
    TooLate,
)
from tickwork.core.ids import split_job_id
from tickwork.core.instants import DAY_MS, LATEST_INSTANT_MS
from tickwork.flows.audit import history
from tickwork.flows.audit.history import EndsOf, Filter
from tickwork.flows.runs import timers
from tickwork.ports import Ports


def create_timer(call: Call[TimerIn, NoQuery]) -> tuple[int, TimerShown]:
    """Create a timer.

    With a `client_key` the same request again returns the first timer, and another one with the same key is refused.
    """
    new = new_timer(call.body, call.ports.layout, call.ports.clock.now_ms(), call.traceparent)
    (created,) = timers.create_timers(call.ports, [new])
    return 201 if created.is_new else 200, timer_view(created.run)


def create_timers(call: Call[TimersIn, NoQuery]) -> tuple[int, TimersAnswer]:
    """Create up to a hundred timers. Refused as a whole when one is not valid."""
    now_ms = call.ports.clock.now_ms()
    bodies = call.body.timers
    new = []
    for index, one in enumerate(bodies):
        with fields_under(f"timers.{index}"):
            new.append(new_timer(one, call.ports.layout, now_ms, call.traceparent))
    _refuse_repeated_keys(bodies)
    with fields_under("timers" if len(new) > 1 else "timers.0"):
        created = timers.create_timers(call.ports, new)
    return 201, {"timers": [timer_view(one.run) for one in created]}


def get_timer(call: Call[NoBody, NoQuery]) -> tuple[int, TimerShown]:
    """A timer, which is also the record of its run."""
    run = timers.get_timer(call.ports, call.path["timer_id"])
    view = history.view_of(call.ports, run)
    return 200, timer_view(view.run, view.status)


def list_timers(call: Call[NoBody, TimersQuery]) -> tuple[int, TimersPage]:
    """A team's timers by fire time, the soonest first."""
    query, now_ms = call.query, call.ports.clock.now_ms()
    since_ms = now_ms if query.since is None else max(0, query.since)
    until_ms = since_ms + DAY_MS if query.until is None else query.until
    after = after_place(query.cursor)
    if isinstance(after, EndsOf):
        raise not_a_cursor()
    wanted = Filter(query.team, query.status, since_ms, min(until_ms, LATEST_INSTANT_MS))
    page = history.list_timers(call.ports, wanted, limit=query.limit, after=after)
    shown = [timer_view(one.run, one.status) for one in page.found]
    come = {"cursor": to_place(page.after), "bounded": page.bounded, "reached": reached(page.after)}
    return 200, cast("TimersPage", {"timers": shown, **come})


def cancel_timer(call: Call[NoBody, NoQuery]) -> tuple[int, TimerShown]:
    """Cancel a timer. Works until a worker has started it; again is a no-op."""
    return 200, timer_view(timers.cancel_timer(call.ports, call.path["timer_id"]))


def cancel_timers(call: Call[CancelIn, NoQuery]) -> tuple[int, CancelTimersAnswer]:
    """Cancel up to a hundred timers, each answered on its own."""
    return 200, {"timers": [_cancel_one(call.ports, one) for one in call.body.timer_ids]}


def _cancel_one(ports: Ports, timer_id: str) -> CancelledTimer | UncancelledTimer:
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


_AT = (
    PathPart(
        "timer_id",
        "The `timer_id` that creation returned",
        "payments:t~main~0001~1793318406~00000000000000000001",
        lambda text, _: split_job_id(text, "timer_id"),
    ),
)
_REFUSED = (AlreadyExists, BadSchedule, PayloadTooLarge)

ROUTES = (
    Route(
        "POST",
        "/timers",
        create_timer,
        TimerIn,
        NoQuery,
        TimerShown,
        {201: "It is created.", 200: "It was created before, by a request with the same `client_key`."},
        errors=_REFUSED,
    ),
    Route(
        "POST",
        "/timers:batch",
        create_timers,
        TimersIn,
        NoQuery,
        TimersAnswer,
        {201: "They are created, or were before by the same `client_key`."},
        errors=_REFUSED,
    ),
    Route("GET", "/timers", list_timers, NoBody, TimersQuery, TimersPage),
    Route("GET", "/timers/{timer_id}", get_timer, NoBody, NoQuery, TimerShown, at=_AT, errors=(NotFound,)),
    Route(
        "DELETE", "/timers/{timer_id}", cancel_timer, NoBody, NoQuery, TimerShown, at=_AT, errors=(NotFound, TooLate)
    ),
    Route("POST", "/timers:cancel", cancel_timers, CancelIn, NoQuery, CancelTimersAnswer),
)
