"""Worlds of several cells: teams, or all of them, are placed in another one while everything runs, and back again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.cells import ALL, CellShape, of_lane, of_team
from tickwork.core.ledger.lanes import P2

if TYPE_CHECKING:
    from tests.simulator.shape import Shape
    from tickwork.core.ledger.work import Work
    from tickwork.ports import Layout

CELLS, _CELLS_SHARE = "cells", 0.25
"""Drawn apart, so that all other seeds keep their histories."""
_ROLLED_OUT = 0.5
"""Of these worlds begin with a deployment that knows of no cells; nobody is placed before it is replaced. Processes of
it that were paused go on beside it."""
_AFTER_ROLLOUT_MS = 1_000
_BULK = 0.3
_BOUND_SHARE, BOUNDS_PER_S = 0.5, (1, 2, 5)
"""In so many of these worlds a cell may dispatch only so much in a second."""


@dataclass(frozen=True, slots=True)
class PlacementPlan:
    """From an instant on what is new of a team, or of all, lies in a cell; where that is empty, in none of its own."""

    at_ms: int
    of: str
    cell: str


def with_cells(rng: Random, shape: Shape, teams: tuple[str, ...]) -> Shape:
    """In some seeds there are one or two more cells, and somebody moves between them."""
    if rng.random() >= _CELLS_SHARE:
        return shape
    cells = tuple(_cell(rng, name) for name in ("side", "wide")[: rng.choice((1, 1, 2))])
    names = (*(cell.name for cell in cells), "sim", "")
    end_ms = shape.start_ms + shape.safety_ms
    first, second = (_with(layout, cells) for layout in shape.layouts)
    from_ms = shape.start_ms
    if rng.random() < _ROLLED_OUT:
        first, from_ms = shape.layouts[0], min(shape.relayout_at_ms + _AFTER_ROLLOUT_MS, end_ms - SECOND_MS)
    whose = (ALL, of_lane(P2), *map(of_team, teams))
    plans = [
        PlacementPlan(rng.randrange(from_ms, end_ms), rng.choice(whose), rng.choice(names))
        for _ in range(rng.choice((1, 2, 4, 7)))
    ]
    plans[0] = replace(plans[0], at_ms=from_ms + rng.randrange(max(1, (end_ms - from_ms) // 2)), cell=cells[0].name)
    shape = _with_bulk(rng, shape)
    if rng.random() < _BOUND_SHARE:
        bound = rng.choice(BOUNDS_PER_S)
        first, second = (replace(layout, cell_dispatch_per_s=bound) for layout in (first, second))
    return replace(
        shape, cells=cells, layouts=(first, second), placements=tuple(plans), elements=shape.elements | {CELLS}
    )


def _with_bulk(rng: Random, shape: Shape) -> Shape:
    """Some of the work is in a lane that may be placed by itself. (Which queue it goes to is said by its pool.)"""
    timers = tuple(replace(one, work=_lane(rng, one.work)) for one in shape.timers)
    jobs = tuple(replace(one, work=_lane(rng, one.work)) for one in shape.jobs)
    return replace(shape, timers=timers, jobs=jobs)


def _lane(rng: Random, work: Work) -> Work:
    return replace(work, lane=P2) if rng.random() < _BULK else work


def _cell(rng: Random, name: str) -> CellShape:
    slices = rng.choice((1, 1, 2))
    return CellShape(name, slices * rng.choice((1, 2)), slices)


def _with(layout: Layout, cells: tuple[CellShape, ...]) -> Layout:
    return replace(layout, others=cells)
