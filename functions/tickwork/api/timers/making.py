"""From a timer as a client writes it to the timer to create."""

from __future__ import annotations

import re
from dataclasses import replace

from tickwork.api.fingerprints import fingerprint_of
from tickwork.api.timers.bodies import TimerIn
from tickwork.api.work import work_of
from tickwork.core.errors import InvalidField
from tickwork.core.ids import check_slug
from tickwork.core.instants import LATEST_INSTANT_MS, SECOND_MS, ceil_to_second
from tickwork.core.schedule import first_due, parse_schedule
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import Layout

DELAY_S_MAX = 10**11

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def new_timer(body: TimerIn, layout: Layout, now_ms: int, traceparent: str | None = None) -> NewTimer:
    """A timer to create. A `traceparent` that is none is ignored, as the W3C's rule is."""
    check_slug(body.team, "team")
    fire_at_ms = _fire_at(body, now_ms)
    work = work_of(body, layout, None)
    if traceparent is not None and _TRACEPARENT.fullmatch(traceparent):
        work = replace(work, traceparent=traceparent)
    return NewTimer(body.team, fire_at_ms, work, body.client_key, fingerprint_of(body))


def _fire_at(body: TimerIn, now_ms: int) -> int:
    """When a timer fires, on a whole second and never early."""
    field = "at" if body.delay_s is None else "delay_s"
    if body.delay_s is not None:
        due_ms: int | None = ceil_to_second(now_ms + round(min(body.delay_s, DELAY_S_MAX) * SECOND_MS))
    else:
        schedule = parse_schedule({"at": body.at} | ({"zone": body.zone} if body.zone else {}), now_ms=now_ms)
        due_ms = first_due(schedule, now_ms)
    if due_ms is None:
        raise InvalidField("it has passed", field=field, remedy="give a later time, or a delay")
    if due_ms >= LATEST_INSTANT_MS:
        raise InvalidField("it is too far ahead", field=field, remedy="stay before the year 2150")
    return due_ms
