"""What a client sends about API keys."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tickwork.api.fields import Body, Query, Team, Text
from tickwork.core.access.api_keys import LIFE_DAYS_DEFAULT, LIFE_DAYS_MAX

type Days = Annotated[int, Field(ge=1, le=LIFE_DAYS_MAX)]


class KeyIn(Body):
    """A key to make."""

    team: Text
    """Whose. A key belongs to a team, so that nobody who leaves takes it along; `platform` reaches every team."""
    role: Literal["viewer", "worker", "operator", "owner", "platform"]
    name: Annotated[str, Field(max_length=80)] = ""
    """What it is for, as lists show it."""
    pools: list[Text] = Field(default=[], max_length=20)
    """Of a worker's key: the pools it may lease from."""
    expires_in_days: Days = LIFE_DAYS_DEFAULT


class RotateIn(Body):
    """A key to take the place of another one, with its team, role and pools."""

    expires_in_days: Days = LIFE_DAYS_DEFAULT


class KeysQuery(Query):
    """Whose keys."""

    team: Team
    """Whose."""
