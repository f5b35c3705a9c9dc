"""Groups: cancel one, look at one. Listed and paused they are with what they hold (`timers`, `jobs`, `pauses`)."""

from __future__ import annotations

from typing import Any, cast

from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.groups.answers import GroupShown
from tickwork.api.groups.bodies import GroupCancelIn, GroupQuery
from tickwork.api.paused_view import scope_pause_view
from tickwork.api.routing import Call, Route
from tickwork.core.errors import NotFound
from tickwork.core.ids import check_slug
from tickwork.core.instants import iso_ms
from tickwork.core.jobs.scopes import GROUP, Scope
from tickwork.core.ledger.epochs import Group, Label
from tickwork.flows.access import registry
from tickwork.flows.jobs import cancelling_groups
from tickwork.flows.ledger.paused import shown_paused
from tickwork.ports import Ports


def cancel_group(call: Call[GroupCancelIn, NoQuery]) -> tuple[int, GroupShown]:
    """Cancel everything of a group that has not started: its timers, its jobs, and what waits for a retry.

    However much that is, it takes one write. Nothing of it starts from the answer on; what runs goes on. What is
    created, or registered again, after the answer is part of the group as it is then. Again cancels that, too.
    """
    body = call.body
    team = check_slug(body.team, "team")
    registry.check_heard_of(call.ports, team)
    group = cancelling_groups.cancel_group(call.ports, Label(team, body.group), call.actor.signs(body.by), body.reason)
    return 200, _view(call.ports, group)


def get_group(call: Call[NoBody, GroupQuery]) -> tuple[int, GroupShown]:
    """A group: how often it was cancelled, by whom and why the last time, and whether it is paused."""
    query = call.query
    return 200, _view(call.ports, cancelling_groups.get_group(call.ports, Label(query.team, query.group)))


def _view(ports: Ports, group: Group) -> GroupShown:
    label = group.label
    scope = Scope(label.team, GROUP, label.name)
    paused = next((one for one in shown_paused(ports).scopes if one.scope == scope), None)
    shown: dict[str, Any] = {
        "team": label.team,
        "group": label.name,
        "epoch": group.epoch,
        "cancelled": None,
        "paused": None if paused is None else scope_pause_view(paused, ports.clock.now_ms()),
    }
    if group.epoch:
        shown["cancelled"] = {"by": group.by, "reason": group.reason, "at": iso_ms(group.cancelled_at_ms)}
    return cast("GroupShown", shown)


ROUTES = (
    Route("POST", "/groups:cancel", cancel_group, GroupCancelIn, NoQuery, GroupShown, errors=(NotFound,)),
    Route("GET", "/groups", get_group, NoBody, GroupQuery, GroupShown),
)
