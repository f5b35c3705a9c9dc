"""Where things lie in a world of one or of several cells. Written out again, not asked of the code that is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import SET_ASIDE
from tickwork.core.ledger.writes import Item

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process


def slice_counts(world: World) -> dict[str, int]:
    """Each cell of the world with the number of its slices."""
    return {world.cell: world.shape.slices} | {cell.name: cell.slices for cell in world.shape.cells}


def slice_ids(process: Process, world: World) -> list[str]:
    """The slices that a process is deployed with."""
    known = {world.cell, *(cell.name for cell in process.ports.layout.others)}
    return [f"{cell}#{n:04d}" for cell, count in slice_counts(world).items() if cell in known for n in range(count)]


def slice_of(world: World, pk: str) -> str:
    """The slice of an item, by its partition key or its ref."""
    cell, shard, *_ = pk.split("#")
    return f"{cell}#{int(shard) % slice_counts(world)[cell]:04d}"


def is_left_to_team(world: World, pk: str, sk: str) -> bool:
    """Whether the row of its team covers the second of an item."""
    second, team, *_ = sk.split("#")
    row = world.tables.standing(SET_ASIDE, {"slice": slice_of(world, pk), "who": f"team#{team}"})
    return row is not None and row["begin"] <= int(second) <= row["until"]


def shards_of(process: Process, slice_id: str) -> set[str]:
    """The beginnings of the partition keys of a slice, by the layout of a process."""
    cell, _, number = slice_id.partition("#")
    layout = process.ports.layout
    if cell == layout.cell:
        count, slices = max(layout.shards, layout.shards_before), layout.slices
    else:
        count, slices = next(((one.shards, one.slices) for one in layout.others if one.name == cell), (0, 1))
    return {f"{cell}#{shard:04d}" for shard in range(int(number), count, slices)}


def next_place(world: World, job: Item) -> tuple[str, int]:
    """(cell, shard) of a job's next occurrence."""
    place = job["next_shard"]
    cell, sign, shard = str(place).partition("#")
    return (cell, int(shard)) if sign else (world.cell, int(place))


def next_pk(world: World, job: Item) -> str:
    """The partition key of a job's next occurrence."""
    cell, shard = next_place(world, job)
    return f"{cell}#{shard:04d}#{job['next_fire_at_ms'] // 60_000:08d}"
