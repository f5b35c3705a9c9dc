"""Entries of the audit as answers show them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from tickwork.api.answers import Moment, Reached


class FieldChanged(TypedDict):
    """A field that a change has changed; null: it said nothing. Of a list: what went, and what came."""

    field: str
    before: Any
    after: Any


class EntryShown(TypedDict):
    """One change, or one call on many things."""

    entry: str
    """Which it is: its stream, and its place in that."""
    team: str
    object: str
    """What was changed: `job:nightly`, `calendar:holidays`, `key:0123456789abcdef`; or `call:...`, of many things."""
    action: str
    at: Moment
    actor: str
    """Who called: of this very request."""
    role: NotRequired[str]
    address: NotRequired[str]
    """From where, as the door has seen it."""
    agent: NotRequired[str]
    """What the client calls itself."""
    request_id: NotRequired[str]
    version_before: NotRequired[int]
    version: NotRequired[int]
    """Of the object, after the change."""
    changes: list[FieldChanged]
    facts: NotRequired[dict[str, Any]]
    """What else is to be known, as a reason, or what a call asked for."""
    result: NotRequired[dict[str, Any] | None]
    """Of a call on many things: what came of it. null: its end is not known, it may have done all or a part of it."""
    result_at: NotRequired[Moment]
    hash: str
    """Of all that the entry says. The next one of the object names it."""


class EntriesPage(Reached):
    """Entries, newest first."""

    entries: list[EntryShown]
