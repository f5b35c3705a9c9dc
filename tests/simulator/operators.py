"""People of the platform's team: they say where what is new is to lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulator.clients import request
from tickwork.core.access.actors import Actor
from tickwork.core.errors import InvalidField
from tickwork.flows.access import placements

if TYPE_CHECKING:
    from tests.simulator.celled import PlacementPlan
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_OPERATOR = Actor("ops", "platform", "platform")


def place(world: World, plan: PlacementPlan) -> None:
    """Somebody of the platform's team says where what is new is to lie."""

    def call(process: Process) -> None:
        try:
            if plan.cell:
                placements.place(process.ports, plan.of, plan.cell, _OPERATOR, "room")
            else:
                placements.take_back(process.ports, plan.of, _OPERATOR, "")
        except InvalidField:
            world.seen["placement refused"] += 1
            return
        world.seen["placed" if plan.cell else "placement taken back"] += 1

    request(world, call, again=True)
