"""What a client sends about groups."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tickwork.api.fields import Body, GroupName, Query, Team, Text


class GroupCancelIn(Body):
    """Cancel what bears a label and has not started."""

    team: Text
    group: GroupName
    reason: Annotated[str, Field(min_length=1, max_length=120)]
    """Why; each of what it ends shows it."""
    by: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """A note, kept behind the actor whom the credential proves."""


class GroupQuery(Query):
    """Which group."""

    team: Team
    group: GroupName
