"""What a client sends about placements."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tickwork.api.fields import Body, Query

type Lane = Literal["P0", "P1", "P2"]


class PlacementIn(Body):
    """The cell in which what is written anew is to lie from now on. What is pending stays where it is."""

    cell: Annotated[str, Field(min_length=1, max_length=20)]
    reason: Annotated[str, Field(max_length=200)] = ""


class AllPlacementIn(PlacementIn):
    """The same of all, or of one lane."""

    lane: Lane | None = None
    """Of what is in this lane alone; left out: of all."""


class TakenBackQuery(Query):
    """Why it is taken back."""

    reason: Annotated[str, Field(max_length=200)] = ""


class AllTakenBackQuery(TakenBackQuery):
    """The same of all, or of one lane."""

    lane: Lane | None = None
    """The lane's placement; left out: that of all."""
