"""Seals: which entries a team's audit had gained by a time, so that a stream which is removed as a whole is missed.

A seal lists entries with their hashes, and names the seal before it; how far a team is sealed, and by which seal,
stands in the team's row. So a seal that is changed or taken away is missed too, while it should be there. Refuses to
know what entries say. Protects: a seal lives as long as the last entry that it lists, and a while longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from tickwork.core.access.entries import Head, digest_of, number_in
from tickwork.core.instants import DAY_MS, HOUR_MS, SECOND_MS
from tickwork.core.ledger.items import Record, Unreadable, always, read_by
from tickwork.core.ledger.keys import entry_stream, seal_place
from tickwork.core.ledger.tables import AUDIT, PASSES
from tickwork.core.ledger.values import mapping, text, whole
from tickwork.core.ledger.writes import Absent, AllOf, AnyOf, Condition, Is, Item, Missing, Put, Update

ENTRIES_PER_SEAL = 100
"""As many as one batch read takes; some 17 KB."""
SETTLED_AFTER_MS = HOUR_MS
"""Entries are sealed when they are older than this: by then each change that was under way has been made or not, and
the index by which they are found has them."""
KEPT_AFTER_S = 7 * 86_400
"""How much longer than its entries a seal is kept: what has expired goes when the table comes to it."""
NO_RESULT = "-"


def sealed_until(now_ms: int) -> int:
    """Up to when entries are to be sealed by now: whole days, of UTC."""
    return (now_ms - SETTLED_AFTER_MS) // DAY_MS * DAY_MS


@dataclass(frozen=True, slots=True)
class Line:
    """An entry as a seal lists it."""

    stream: str
    place: str
    until_s: int
    hash: str
    result_hash: str = NO_RESULT

    @classmethod
    def of(cls, item: Item) -> Self:
        """Of an entry as it is stored, also one that only a newer version can read."""
        digest, result_hash = _word(item.get("hash"), "?"), _word(item.get("result_hash"), NO_RESULT)
        until_s = number_in(item, "expires_at_s")
        return cls(str(item["stream"]), str(item["place"]), until_s, digest, result_hash)

    def as_text(self) -> str:
        return f"{self.stream} {self.place} {self.until_s} {self.hash} {self.result_hash}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """ValueError for what is none."""
        stream, place, until_s, digest, result_hash = text.split(" ")
        return cls(stream, place, int(until_s), digest, result_hash)

    @property
    def key(self) -> Item:
        return {"stream": self.stream, "place": self.place}


def _word(found: object, missing: str) -> str:
    """One word of a line; what somebody has garbled is listed as not being there, which it then is not."""
    return found if isinstance(found, str) and found and not any(map(str.isspace, found)) else missing


@dataclass(frozen=True, slots=True)
class Seal(Record):
    """What was gained from one instant to another; where that is much, several seals share the span."""

    stream: str = always("")
    place: str = always("")
    from_ms: int = always(0)
    through_ms: int = always(0)
    sealed_at_ms: int = always(0)
    follows: str = ""
    """The head of the seals before; empty: it is the first."""
    lines: tuple[str, ...] = ()
    hash: str = always("")
    expires_at_s: int = read_by(whole, 0)

    @property
    def number(self) -> int:
        return int(self.place.split("#")[1])

    @property
    def head(self) -> Head:
        return Head(0, self.number, self.expires_at_s, self.hash)


@dataclass(frozen=True, slots=True)
class Sealed:
    """How far a team's audit is sealed: all before `through_ms`, and of what follows all up to `after`."""

    team: str
    cell: str
    through_ms: int = 0
    head: str = ""
    after: Mapping[str, Any] | None = None

    @property
    def key(self) -> Item:
        return {"pass": f"{self.cell}#sealed", "place": self.team}

    @classmethod
    def from_item(cls, item: Item) -> Self:
        """Unreadable when it is no such row: somebody has garbled it."""
        team, cell = str(item["place"]), str(item["pass"]).partition("#")[0]
        try:
            after = item.get("after")
            through_ms, head = whole(item.get("sealed_ms")), text(item.get("seal_head", ""))
            return cls(team, cell, through_ms, head, None if after is None else mapping(after))
        except ValueError as error:
            raise Unreadable(f"how far team {team} is sealed: {error}") from error

    def first_row(self) -> Put:
        """The write of a team of which nothing is sealed yet."""
        return Put(PASSES, self.key | {"sealed_ms": 0, "seal_head": ""}, Absent())


def move_sealed(sealed: Sealed, to: Sealed) -> Update:
    """The write that says how far a team is sealed now. Refused where another run has moved it."""
    no_head = AnyOf((Missing("seal_head"), Is("seal_head", "")))
    as_read: Condition = Is("seal_head", sealed.head) if sealed.head else no_head
    unmoved = AllOf((Is("sealed_ms", sealed.through_ms), as_read))
    changes: Item = {"sealed_ms": to.through_ms, "seal_head": to.head} | ({"after": to.after} if to.after else {})
    return Update(PASSES, sealed.key, unmoved, set=changes, remove=() if to.after else ("after",))


def seal_stream(team: str) -> str:
    return entry_stream(team, "seal", "entries")


def next_seal(sealed: Sealed, entries: Sequence[Item], through_ms: int, now_ms: int) -> Seal:
    """The seal of these entries, as they are stored, which are the next of a team."""
    before = Head.parse(sealed.head)
    lines = [Line.of(item) for item in entries]
    until_s = max((line.until_s for line in lines), default=now_ms // SECOND_MS) + KEPT_AFTER_S
    number = before.number + 1 if before else 1
    seal = Seal(
        stream=seal_stream(sealed.team),
        place=seal_place(number, ""),
        from_ms=sealed.through_ms,
        through_ms=through_ms,
        sealed_at_ms=now_ms,
        follows=sealed.head,
        lines=tuple(line.as_text() for line in lines),
        expires_at_s=until_s,
    )
    digest = digest_of(seal.to_item())
    return replace(seal, place=seal_place(number, digest), hash=digest)


def seal_head(item: Mapping[str, Any]) -> Head:
    """The head that a seal is, as it is stored."""
    number = str(item["place"]).partition("#")[2].partition("#")[0]
    is_one = number.isascii() and number.isdigit()
    return Head(0, int(number) if is_one else 0, number_in(item, "expires_at_s"), str(item.get("hash", "")))


def put_seal(seal: Seal) -> Put:
    return Put(AUDIT, seal.to_item(), Absent())
