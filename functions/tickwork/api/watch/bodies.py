"""What a client sends about incidents."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tickwork.api.fields import Body, Text


class AcknowledgeIn(Body):
    """That somebody has heard of an incident. Nobody is told again until it is over."""

    kind: Literal["silent", "unreadable"] = "silent"
    reason: Annotated[str, Field(min_length=1, max_length=160)]
    """What he has heard, or is doing."""
    by: Annotated[str, Field(min_length=1, max_length=80)] | None = None
    """A note, kept behind the actor whom the credential proves."""
    until: Text | None = None
    """Snooze it: from then on it is told again, as long as it goes on. Left out: not before it is over."""
