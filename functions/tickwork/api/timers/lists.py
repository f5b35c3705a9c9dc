"""A page of a group's timers, as it is asked for and answered."""

from __future__ import annotations

from typing import cast

from tickwork.api.cursors import after_member, to_member
from tickwork.api.fields import NoBody
from tickwork.api.masks import sees_payloads
from tickwork.api.routing import Call
from tickwork.api.timers.answers import TimersPage
from tickwork.api.timers.bodies import TimersQuery
from tickwork.api.timers.views import timer_view
from tickwork.core.instants import LATEST_INSTANT_MS, iso_ms
from tickwork.flows.audit.group_lists import list_group
from tickwork.flows.audit.history import Filter


def group_page(call: Call[NoBody, TimersQuery]) -> TimersPage:
    """Those of the group that the query names."""
    query = call.query
    until_ms = LATEST_INSTANT_MS if query.until is None else min(query.until, LATEST_INSTANT_MS)
    wanted = Filter(query.team, query.status, max(0, query.since or 0), until_ms)
    page = list_group(call.ports, query.group or "", wanted, limit=query.limit, after=after_member(query.cursor))
    sees_payload = sees_payloads(call.ports, call.actor, query.team)
    shown = [timer_view(one.run, one.status, sees_payload=sees_payload) for one in page.found]
    come = {
        "cursor": to_member(page.after),
        "bounded": page.bounded,
        "reached": iso_ms(page.after.due_ms) if page.after else None,
    }
    return cast("TimersPage", {"timers": shown, **come})
