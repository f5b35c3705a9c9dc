"""What a client sends about placements."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tickwork.api.fields import Body, Query


class PlacementIn(Body):
    """The cell in which what is written anew is to lie from now on. What is pending stays where it is."""

    cell: Annotated[str, Field(min_length=1, max_length=20)]
    reason: Annotated[str, Field(max_length=200)] = ""


class TakenBackQuery(Query):
    """Why it is taken back."""

    reason: Annotated[str, Field(max_length=200)] = ""
