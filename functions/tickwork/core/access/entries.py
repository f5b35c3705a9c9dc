"""Entries of the audit: who changed what, when, from where and how; in chains, so that none is changed or taken away
unseen.

A stream is about one thing (a job, a calendar, a key) or about one call on many. The item of a thing carries its
`Head`: which entry of its stream is the last, and the hash of that. An entry says which one it follows. Owns what is
hashed, and how a chain goes on. Refuses to know what the things are. Protects: an entry can be written in the
transaction of its change, whatever has become of the stream.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from tickwork.core.access.acting import Acting
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.items import Record, always, read_by
from tickwork.core.ledger.keys import entry_place, entry_stream
from tickwork.core.ledger.tables import AUDIT
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import Absent, AllOf, Is, Item, Missing, Put, Update

CALL = "call"
"""The kind of a stream that is about one call on many things: the item of none of them carries its head."""

_DIGITS = re.compile(r"[0-9]{1,13}")
"""An instant of a head, or its number: what is longer has no place among the others."""
_UNHASHED = frozenset({"hash", "place", "expires_at_s", "result", "result_at_ms", "result_hash"})
"""What is no part of what an entry says: the hash itself, how long it is kept, and what is added when the call is
over. Its place is, but for the piece of the hash in it."""


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry of a stream: which of its chain, until when it is kept, and its hash."""

    begun_ms: int
    number: int
    until_s: int
    hash: str

    @property
    def place(self) -> str:
        return entry_place(self.begun_ms, self.number, self.hash)

    def as_text(self) -> str:
        """As the item carries it: it is rewritten at each step of a job, and pays by its size."""
        return f"{self.begun_ms}.{self.number}.{self.until_s}.{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """None for what is none that this version can read."""
        parts = text.split(".")
        if len(parts) != 4 or not parts[3] or not all(map(_DIGITS.fullmatch, parts[:3])):
            return None
        return cls(int(parts[0]), int(parts[1]), int(parts[2]), parts[3])


@dataclass(frozen=True, slots=True)
class Entry(Record):
    """One change. `changes`: field by field, before and after (`diffs`). `facts`: what else is to be known, as a
    reason. `follows`: the head that the thing had before; empty: its stream begins here."""

    stream: str = always("")
    place: str = always("")
    team: str = always("")
    at_ms: int = always(0)
    action: str = always("")
    actor: str = always("")
    role: str = ""
    address: str = ""
    agent: str = ""
    request_id: str = ""
    version_before: int = 0
    version: int = 0
    """Of the thing, after the change; 0: it has none. Where the next entry does not go on from it, something has
    changed the thing without an entry."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    follows: str = ""
    hash: str = always("")
    expires_at_s: int = read_by(whole, 0)
    result: Mapping[str, Any] = field(default_factory=dict)
    """Of a call on many things: what came of it. Without it nobody has heard the end of the call."""
    result_at_ms: int = 0
    result_hash: str = ""

    @property
    def kind(self) -> str:
        return kind_of(self.stream)

    @property
    def head(self) -> Head:
        begun_ms, number, _ = self.place.split("#")
        return Head(int(begun_ms), int(number), self.expires_at_s, self.hash)

    def key(self) -> Item:
        return {"stream": self.stream, "place": self.place}


@dataclass(frozen=True, slots=True)
class Change:
    """What is to be told of a change. `head`: what the thing carries, as it was read."""

    team: str
    kind: str
    name: str
    action: str
    head: str = ""
    version_before: int = 0
    version: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


def entry_of(change: Change, acting: Acting, now_ms: int, kept_s: int) -> Entry:
    """The next entry of a thing's stream. Where its head is none that can be read, or there is none, a chain begins."""
    before = Head.parse(change.head)
    begun_ms, number = (before.begun_ms, before.number + 1) if before else (now_ms, 1)
    entry = Entry(
        stream=entry_stream(change.team, change.kind, change.name),
        place=entry_place(begun_ms, number, ""),
        team=change.team,
        at_ms=now_ms,
        action=change.action,
        actor=acting.actor,
        role=acting.role,
        address=acting.address,
        agent=acting.agent,
        request_id=acting.request_id,
        version_before=change.version_before,
        version=change.version,
        changes=change.changes,
        facts=change.facts,
        follows=change.head,
        expires_at_s=now_ms // SECOND_MS + kept_s,
    )
    digest = digest_of(entry.to_item())
    return replace(entry, place=entry_place(begun_ms, number, digest), hash=digest)


def kind_of(stream: str) -> str:
    """Of what kind the thing is that a stream is about; empty for a stream that nobody has named so."""
    return stream.partition(":")[2].partition(":")[0]


def number_in(item: Mapping[str, Any], name: str) -> int:
    """A number of an item as it is stored; 0 where there is none, whatever stands there. What reads audits must not
    stop at what somebody has garbled: that it is not as it was written shows by its hash."""
    value = item.get(name)
    return value if value.__class__ is int else 0


def put_entry(entry: Entry) -> Put:
    return Put(AUDIT, entry.to_item(), Absent())


def digest_of(item: Mapping[str, Any]) -> str:
    """The hash of an entry as it is stored: of all that it says, also of what only a newer version knows."""
    said = {name: value for name, value in item.items() if name not in _UNHASHED}
    return _sha256({**said, "place": str(item["place"]).rpartition("#")[0]})


def result_of(entry: Entry, result: Mapping[str, Any], now_ms: int) -> Update:
    """The write that says what came of a call. It is said once: a second one with the same words is a no-op."""
    said = {"result": dict(result), "result_at_ms": now_ms, "result_hash": result_digest(entry.hash, result, now_ms)}
    unsaid = AllOf((Is("hash", entry.hash), Missing("result_hash")))
    return Update(AUDIT, entry.key(), unsaid, set=said)


def result_digest(entry_hash: str, result: Mapping[str, Any], at_ms: int) -> str:
    return _sha256({"entry": entry_hash, "result": dict(result), "at_ms": at_ms})


def _sha256(content: object) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
