"""API keys as answers show them."""

from __future__ import annotations

from typing import TypedDict

from tickwork.api.answers import Moment


class KeyShown(TypedDict):
    """A key, without what opens anything."""

    key_id: str
    team: str
    role: str
    name: str
    pools: list[str]
    status: str
    """`valid`, `expired` or `revoked`."""
    created_at: Moment
    created_by: str
    expires_at: Moment
    last_used_at: Moment | None
    """To the hour; null: never."""
    revoked_at: Moment | None
    revoked_by: str | None
    warning: str | None
    """What its owner has to do soon: from 14 days before it expires."""


class NewKey(KeyShown):
    """A key that has just been made."""

    key: str
    """The key itself. It is shown this once, and stored nowhere."""


class RevokedKeyShown(KeyShown):
    """A key that opens nothing any more, within a minute everywhere."""

    changed: bool
    """Whether it was this request that revoked it."""


class KeysAnswer(TypedDict):
    keys: list[KeyShown]
    """All of the team, newest first, with those that ended in the last 90 days."""
