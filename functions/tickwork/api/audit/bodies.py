"""What a client asks of the audit."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

from tickwork.api.fields import InstantMs, Query, Team, TeamPage
from tickwork.core.errors import InvalidField

_OBJECT = re.compile(r"[a-z]{1,20}:[a-z0-9][a-z0-9._-]{0,62}", re.ASCII)


def _object(text: str) -> str:
    if text and (not _OBJECT.fullmatch(text) or text.startswith("seal:")):
        raise InvalidField(
            f"{text[:80]!r} names nothing of a team",
            field="object",
            remedy="write kind:name, as in job:nightly, calendar:holidays or key:0123456789abcdef",
        )
    return text


type ObjectName = Annotated[str, BeforeValidator(_object)]


class AuditQuery(TeamPage):
    """Which entries."""

    object: ObjectName = ""
    """What was changed, as `kind:name`: `job:nightly`, `calendar:holidays`, `key:0123456789abcdef`."""
    actor: Annotated[str, Field(max_length=200)] = ""
    """Who did it, as entries show it; `iam:Role` stands for all its sessions."""
    since: InstantMs | None = None
    """From then on."""
    until: InstantMs | None = None
    """Before then."""


class VerifyQuery(Query):
    """Whose audit to verify."""

    team: Team
    """Whose."""
    cursor: str | None = None
    """Where the last page ended."""
