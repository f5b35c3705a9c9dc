"""Entries of the audit as answers show them."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from tickwork.api.answers import Cursor, Moment, Reached


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


class FindingShown(TypedDict):
    """Something in an audit that is not as it was written."""

    kind: str
    """`edited`, `removed`, `forked`, `wrong_head`: the service leaves none of these behind by itself. `unrecorded`: a
    change without an entry, as an older version makes them. `unfinished`: a call whose result nobody has written."""
    is_broken: bool
    """Whether it is one of the first four."""
    object: str
    """Of what: `job:nightly`, `call:...`, or `seal:entries`."""
    entry: str
    """Which entry, or seal: its stream, and its place in that."""
    detail: str


class VerifyAnswer(TypedDict):
    """A page of a verification: follow the cursor to its end."""

    team: str
    findings: list[FindingShown]
    checked: dict[str, int]
    """How many `seals`, `entries` and `objects` this page has looked at."""
    sealed_through: Moment | None
    """Up to then all that the audit had gained is sealed; what is younger is held by its chains alone."""
    seal: str
    """The last seal, as the reconciler's log has it too."""
    cursor: Cursor
