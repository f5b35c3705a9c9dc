"""Cells: which there are, and whose new items lie in which."""

from __future__ import annotations

from tickwork.api.cells.answers import CellsShown, PlacementShown
from tickwork.api.cells.bodies import AllPlacementIn, AllTakenBackQuery, PlacementIn, TakenBackQuery
from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.routing import Call, PathPart, Route
from tickwork.core.errors import NotFound
from tickwork.core.ids import check_slug
from tickwork.core.instants import iso_ms
from tickwork.core.ledger.cells import ALL, Placement, of_lane, of_team
from tickwork.core.ledger.lanes import LANES
from tickwork.flows.access import placements, registry


def list_cells(call: Call[NoBody, NoQuery]) -> tuple[int, CellsShown]:
    """The cells of the environment, the home cell first, and the placements in force: to a team not those of others."""
    layout = call.ports.layout
    placed = placements.list_placements(call.ports)
    if call.actor.is_walled:
        own = {ALL, *map(of_lane, LANES), *map(of_team, call.actor.teams)}
        placed = [one for one in placed if one.of in own]
    return 200, {
        "cells": [
            {"cell": one.name, "home": one.name == layout.home, "shards": one.shards, "slices": one.slices}
            for one in layout.shapes
        ],
        "placements": [_view(one) for one in placed],
    }


def put_team_placement(call: Call[PlacementIn, NoQuery]) -> tuple[int, PlacementShown]:
    """Have what is written anew of a team lie in a cell from now on.

    Processes go by it within half a minute. What is pending stays, and is served where it is; a recurring job goes over
    with its next occurrence. Again is a no-op.
    """
    registry.check_heard_of(call.ports, call.path["team"])
    return _place(call, of_team(call.path["team"]))


def delete_team_placement(call: Call[NoBody, TakenBackQuery]) -> tuple[int, PlacementShown]:
    """Take a team's placement back: what is written anew of it lies where everybody's does. Again is a no-op."""
    return _take_back(call, of_team(call.path["team"]))


def put_placement(call: Call[AllPlacementIn, NoQuery]) -> tuple[int, PlacementShown]:
    """Have all that is written anew, or all of a lane, lie in a cell from now on, but what is placed by its team.

    A lane's placement goes before that of all. So bulk gets slices of its own; and a cell of other numbers takes the
    place of the one before it. Again is a no-op.
    """
    return _place(call, of_lane(call.body.lane) if call.body.lane else ALL)


def delete_placement(call: Call[NoBody, AllTakenBackQuery]) -> tuple[int, PlacementShown]:
    """Take that back: what is written anew lies where it would without. Again is a no-op."""
    return _take_back(call, of_lane(call.query.lane) if call.query.lane else ALL)


def _place(call: Call[AllPlacementIn, NoQuery] | Call[PlacementIn, NoQuery], of: str) -> tuple[int, PlacementShown]:
    return 200, _view(placements.place(call.ports, of, call.body.cell, call.actor, call.body.reason))


def _take_back(
    call: Call[NoBody, AllTakenBackQuery] | Call[NoBody, TakenBackQuery], of: str
) -> tuple[int, PlacementShown]:
    return 200, _view(placements.take_back(call.ports, of, call.actor, call.query.reason))


def _view(placed: Placement) -> PlacementShown:
    return {
        "of": placed.of,
        "cell": placed.placed_in or None,
        "before": placed.before or None,
        "reason": placed.reason,
        "placed_at": iso_ms(placed.placed_at_ms) if placed.placed_at_ms else None,
        "placed_by": placed.placed_by,
    }


_AT = (PathPart("team", "A team by its name", "payments", lambda text, _: check_slug(text, "team")),)
ROUTES = (
    Route("GET", "/cells", list_cells, NoBody, NoQuery, CellsShown),
    Route("PUT", "/placement", put_placement, AllPlacementIn, NoQuery, PlacementShown),
    Route("DELETE", "/placement", delete_placement, NoBody, AllTakenBackQuery, PlacementShown),
    Route(
        "PUT",
        "/teams/{team}/placement",
        put_team_placement,
        PlacementIn,
        NoQuery,
        PlacementShown,
        at=_AT,
        errors=(NotFound,),
    ),
    Route("DELETE", "/teams/{team}/placement", delete_team_placement, NoBody, TakenBackQuery, PlacementShown, at=_AT),
)
