"""Checks on the walk over the definitions (F16): the place that it keeps is the one that it has come to, and it keeps
one whenever it leaves some for the next run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import PASSES
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process


@dataclass(slots=True)
class _Walk:
    """The places that a process has come to, the last of them (None: the end), and whether it has kept just that."""

    places: list[Item] = field(default_factory=list)
    place: Item | None = None
    is_kept: bool = False


class WalkChecks:
    def __init__(self, world: World) -> None:
        self._world = world
        self._walks: dict[Process, _Walk] = {}

    def scanned(self, process: Process, more: Item | None) -> None:
        """A process has read some definitions, and there are more behind that place."""
        if process.kind == "reconciler":
            walk = self._walks.setdefault(process, _Walk())
            walk.place, walk.is_kept = more, False
            walk.places += [more] if more is not None else []

    def place_changed(self, process: Process, after: Item | None) -> None:
        """Somebody keeps a place for the next run."""
        if after is None or "after" not in after:
            return
        walk = self._walks.get(process)
        if walk is None or after["after"] not in walk.places:  # a write may come late, when it is further on
            what = f"{process.name} has not come to {after['after']}, where the next walk begins"
            raise Violation("every-end-recorded", what)
        walk.is_kept = walk.place == after["after"]

    def ended(self, process: Process) -> None:
        """A run of the reconciler is over, and says so."""
        walk = self._walks.get(process)
        if walk is None or walk.place is None or walk.is_kept or process.met_failure:
            return
        kept = [row["after"] for row in self._world.tables.items(PASSES) if "after" in row]
        if walk.place not in kept:
            what = f"{process.name} ended its walk at {walk.place}, and the next begins at {kept}"
            raise Violation("every-end-recorded", what)
