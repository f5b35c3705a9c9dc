"""Checks on the walk over the definitions (F16): the place that it keeps is the one that it has come to, and it keeps
one whenever it leaves some for the next run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import PASSES
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process


@dataclass(slots=True)
class _Walk:
    """Where a process has come to (None: to the end), and whether it has kept just that."""

    place: Item | None = None
    is_kept: bool = False


class WalkChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._walks: dict[Process, _Walk] = {}

    def scanned(self, process: Process, more: Item | None) -> None:
        """A process has read some definitions, and there are more behind that place."""
        if process.kind == "reconciler":
            self._walks[process] = _Walk(more)

    def place_changed(self, process: Process, after: Item | None) -> None:
        """Somebody keeps a place for the next run."""
        if after is None or "after" not in after:
            return
        walk = self._walks.get(process)
        if walk is None or walk.place != after["after"]:
            what = f"{process.name} has come to {walk and walk.place}, and the next walk begins at {after['after']}"
            raise Violation("every-end-recorded", what)
        walk.is_kept = True

    def ended(self, process: Process) -> None:
        """A run of the reconciler is over, and says so."""
        walk = self._walks.get(process)
        if walk is None or walk.place is None or walk.is_kept or process.met_failure:
            return
        kept = [row["after"] for row in self._world.tables.items(PASSES) if "after" in row]
        if walk.place not in kept:
            what = f"{process.name} ended its walk at {walk.place}, and the next begins at {kept}"
            raise Violation("every-end-recorded", what)
