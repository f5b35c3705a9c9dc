"""From a timer as a client writes it to the timer to create."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from tickwork.api.fingerprints import fingerprints_of, schedule_meaning
from tickwork.api.masks import unmasked
from tickwork.api.timers.bodies import TimerIn
from tickwork.api.work import work_of
from tickwork.core.access.masking import MASK
from tickwork.core.access.pools import as_meant
from tickwork.core.errors import BadSchedule, CallerError, InvalidField
from tickwork.core.ids import check_slug
from tickwork.core.instants import LATEST_INSTANT_MS, SECOND_MS, ceil_to_second
from tickwork.core.ledger.work import Work
from tickwork.core.schedule import ScheduleRefused, first_due, parse_schedule, read_schedule, warnings_of
from tickwork.flows.runs.client_keys import Asked
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import PUSH_POOL, Layout

DELAY_S_MAX = 10**11

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def new_timer(body: TimerIn, layout: Layout, now_ms: int, traceparent: str | None = None) -> NewTimer:
    """A timer to create. A `traceparent` that is none is ignored, as the W3C's rule is."""
    check_slug(body.team, "team")
    fire_at_ms = _fire_at(body, now_ms)
    work = work_of(body, layout, None)
    if MASK in work.url or MASK in (work.payload or ""):  # it stands for nothing here: there is none before it
        unmasked({"target": {"url": body.target.url}, "payload": body.payload}, None)
    if traceparent is not None and _TRACEPARENT.fullmatch(traceparent):
        work = replace(work, traceparent=traceparent)
    group = body.group or ""
    if body.client_key is None:
        return NewTimer(body.team, fire_at_ms, work, group=group)
    asked = asked_of(body)
    return NewTimer(body.team, fire_at_ms, work, body.client_key, asked.fingerprint, asked.as_written, group=group)


def asked_of(body: TimerIn) -> Asked:
    """What tells this request from others with its client key. The same delay asked twice is the same request."""
    found = fingerprints_of(body, lambda given: _meaning(body, given))
    return Asked(body.team, body.client_key or "", found.meaning, found.words)


def _meaning(body: TimerIn, given: dict[str, Any]) -> dict[str, Any]:
    if body.target.pool:
        given = given | {"target": given["target"] | {"pool": as_meant(body.target.pool, body.team)}}
    if body.at is None:
        return given
    at = schedule_meaning(_at_spec(body))
    if at.get("zone") == "UTC" and not str(at["at"]).endswith("Z"):
        at = {"at": f"{at['at']}Z"}
    if str(at["at"]).endswith("Z"):
        at = {"at": at["at"]}  # an instant is the same everywhere
    return {name: value for name, value in given.items() if name != "zone"} | {"at": at}


def _at_spec(body: TimerIn) -> dict[str, Any]:
    return {"at": body.at} | ({"zone": body.zone} if body.zone else {})


def has_passed(error: CallerError) -> bool:
    """Whether a refusal is about the time that it is, and not about the request: it was one to accept before."""
    return isinstance(error, ScheduleRefused) and error.reason == "at_in_past"


def timer_warnings(body: TimerIn, now_ms: int) -> list[str]:
    """What may surprise in the time of a timer, as a job's answer tells it of its schedule."""
    if body.at is None:
        return []
    try:
        return list(warnings_of(read_schedule(_at_spec(body), now_ms=now_ms)))
    except BadSchedule:  # of a repeat: what an earlier version has accepted
        return []


def work_shown(body: TimerIn, layout: Layout) -> Work:
    """The work that a request asked for, to show it beside a timer whose record is gone. What this environment would
    not take any more (a pool of old) is shown by its names alone."""
    try:
        return work_of(body, layout, None)
    except CallerError:
        return Work(body.target.pool or PUSH_POOL, body.target.handler or PUSH_POOL)


def _fire_at(body: TimerIn, now_ms: int) -> int:
    """When a timer fires, on a whole second and never early."""
    field = "at" if body.delay_s is None else "delay_s"
    if body.delay_s is not None:
        due_ms: int | None = ceil_to_second(now_ms + round(min(body.delay_s, DELAY_S_MAX) * SECOND_MS))
    else:
        schedule = parse_schedule(_at_spec(body), now_ms=now_ms)
        due_ms = first_due(schedule, now_ms)
    if due_ms is None:
        raise InvalidField("it has passed", field=field, remedy="give a later time, or a delay")
    if due_ms >= LATEST_INSTANT_MS:
        raise InvalidField("it is too far ahead", field=field, remedy="stay before the year 2150")
    return due_ms
