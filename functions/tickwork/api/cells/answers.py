"""Cells and placements as answers show them."""

from __future__ import annotations

from typing import TypedDict

from tickwork.api.answers import Moment


class CellShown(TypedDict):
    """A cell: slices that share nothing with those of the others."""

    cell: str
    home: bool
    """What nobody has placed lies there."""
    shards: int
    slices: int


class PlacementShown(TypedDict):
    """Where what is written anew of somebody lies."""

    of: str
    """`team:name`, `lane:P2`, or `all`: everything that has none of its own."""
    cell: str | None
    """null: it was taken back."""
    before: str | None
    """The cell that was named before."""
    reason: str
    placed_at: Moment | None
    """null: it never was."""
    placed_by: str


class CellsShown(TypedDict):
    """The cells of the environment, and what is placed in them."""

    cells: list[CellShown]
    placements: list[PlacementShown]
