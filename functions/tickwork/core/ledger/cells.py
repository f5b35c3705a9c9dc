"""Cells: sets of slices that share nothing, so that what is in one holds up nothing of another.

Owns how an environment's further cells are spelled, whose new items lie in which (a placement), and how a job says
where its next occurrence lies. The *home* cell is the one that every process knows, and that old versions know alone;
what belongs to the environment as a whole lies under its name. Refuses to know how slices are served. Protects one-run:
a version that knows of no cells takes a job whose next occurrence is in another one for unreadable, and leaves it,
where it would else write that occurrence once more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from tickwork.core.ids import shard_of
from tickwork.core.ledger import items
from tickwork.core.ledger.items import Record, always
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import Item

CELLS_MAX = 16
"""Further cells of an environment. Each slice of each costs a window a minute, also when nothing is due in it."""
_SHARDS_MAX, _SLICES_MAX = 9_999, 1_024

_SHAPE = re.compile(r"([a-z0-9-]{1,20}):(\d{1,4})/(\d{1,4})", re.ASCII)
_PLACE = re.compile(r"([a-z0-9-]{1,20})#(\d{4})", re.ASCII)


@dataclass(frozen=True, slots=True)
class CellShape:
    """A cell, its shards, and the slices that serve them. Neither number of a further cell ever changes: what is to
    have others is placed in a new cell."""

    name: str
    shards: int
    slices: int
    shards_before: int = 0
    """Of the home cell: its old number of shards, while that changes."""


def parse_cells(text: str, home: str = "") -> tuple[CellShape, ...]:
    """`name:shards/slices,...`, the further cells of an environment; ValueError when it is anything else."""
    found: list[CellShape] = []
    for one in text.split(",") if text else []:
        match = _SHAPE.fullmatch(one)
        if match is None:
            raise ValueError(f"{one[:60]!r} is no cell: write name:shards/slices, as in bulk:4/2")
        shape = CellShape(match[1], int(match[2]), int(match[3]))
        if not 1 <= shape.slices <= min(shape.shards, _SLICES_MAX) or shape.shards > _SHARDS_MAX:
            raise ValueError(f"{one[:60]!r}: it needs at least a slice, and as many shards as slices")
        found.append(shape)
    if len({home, *(shape.name for shape in found)}) <= len(found):
        raise ValueError("two cells have one name")
    if len(found) > CELLS_MAX:
        raise ValueError(f"more than {CELLS_MAX} cells")
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Spread:
    """Where what is written anew of somebody lies: the cell ('': home) and how many shards that has."""

    home: str
    cell: str
    shards: int

    @property
    def name(self) -> str:
        return self.cell or self.home

    def shard_of(self, identity: str) -> int:
        return shard_of(identity, self.shards)


# --- where a job's next occurrence lies, as the job has it ------------------------------------------------------


def written_place(cell: str, shard: int) -> int | str:
    """A shard of the home cell as the number that it has always been; of another one, with its name."""
    return f"{cell}#{shard:04d}" if cell else shard


def read_place(value: Any) -> tuple[str, int]:
    """(cell, shard); ValueError for what is neither."""
    match = _PLACE.fullmatch(value) if isinstance(value, str) else None
    return (match[1], int(match[2])) if match else ("", whole(value))


# --- whose new items lie in which cell --------------------------------------------------------------------------

PLACEMENTS = "@cells"
"""Partition of the table `teams`: `team#name`, `lane#P2`, or `all#`."""

ALL = "all"
"""Everything that has no placement of its own, neither by its team nor by its lane."""


@dataclass(frozen=True, slots=True)
class Placement(Record):
    """That what is written anew of somebody lies in a cell from now on. What lies elsewhere stays, and is served
    there. One that was taken back keeps its row, for its audit."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell", "team")

    of: str = always("")
    """`team:name`, `lane:P2`, or `all`."""
    placed_in: str = ""
    """Empty: it was taken back."""
    version: int = always(1)
    placed_at_ms: int = 0
    placed_by: str = ""
    reason: str = ""
    before: str = ""
    """The cell before this one ('': home, or the one of all)."""
    audit_head: str = ""
    """The last entry of its audit."""

    def to_item(self) -> Item:
        return items.written(self) | placement_key(self.of)


def of_team(team: str) -> str:
    return f"team:{team}"


def of_lane(lane: str) -> str:
    return f"lane:{lane}"


def placement_key(of: str) -> Item:
    kind, _, name = of.partition(":")
    return {"cell": PLACEMENTS, "team": f"{kind}#{name}"}


def placed_in(item: Item | None) -> str:
    """The cell that a row names; '' where there is none, or none that this version can read."""
    name = item.get("placed_in") if item else None
    return name if isinstance(name, str) else ""
