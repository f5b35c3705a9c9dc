"""Overlap: what becomes of an occurrence that is due while another run of its job has not ended (F9).

Owns the value that a job keeps of it, and who counts as holding. What waits until the job is free is its `buffer`.
`holders` are the runs that were dispatched and may
not have ended, mostly one; `held_through_ms` says up to which nominal instant that is so. Where it is behind what the
job has passed (under `allow`, by an older version, after a deletion), what lies between has to be looked for. Refuses
to know how a holder is read. Decision 147; tests/protocol/overlap.py goes through every interleaving.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Spelling
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.records import HeldBy
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import Condition, Is, Item, Missing, any_of

ALLOW, SKIP, BUFFER_ONE, BUFFER_ALL = "allow", "skip", "buffer_one", "buffer_all"
CANCEL_OTHER = "cancel_other"
STRICT = (SKIP, BUFFER_ONE, BUFFER_ALL, CANCEL_OTHER)
"""Policies under which runs may not overlap. One that a newer version knows is taken for `allow` by this one: late
beats lost, and the newer one can tell."""

BUFFERED_MAX = 1_000
"""Of `buffer_all`: more wait only where a job is never through with them; what it then has is a queue."""
BUFFERED_USUAL = 100
"""Where a job with that policy does not say how many."""

OVERLAP, BUFFER_FULL, WAITED_TOO_LONG = "overlap", "buffer_full", "waited_too_long"
"""Why an occurrence was skipped, or (the first) waits."""
HELD_UP = (OVERLAP, BUFFER_FULL)
"""Of these reasons those that were because of another run, which the record names."""
REPLACED = "replaced"
"""Under `cancel_other`: a newer one is due. The record names that."""

HOLDERS_MAX = 20
"""Runs that a job names. Of more that have not ended the oldest are named, and the others are looked for again."""

WAITS = lifecycle.BUFFERED

_LIFE = "*"


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that was dispatched. `life`: how often it was replayed, for one that is replayed while it is the holder is
    another holder: who has seen it dead must not pass."""

    key: LedgerKey
    life: int = 0

    def __str__(self) -> str:
        return f"{self.key.ref}{_LIFE}{self.life}"


@dataclass(frozen=True, slots=True)
class Buffer:
    """What waits until its job is free, the oldest first: each names the one `behind` it, the last nobody."""

    first: LedgerKey
    last: LedgerKey
    count: int = 1

    @property
    def by(self) -> HeldBy:
        """The first, as what holds up all that is newer."""
        return {"run_id": self.first.run_id, "occurrence": self.first.occurrence, "status": WAITS}


@dataclass(frozen=True, slots=True)
class Holding:
    """What the holders of a job were read to be: those that have not ended, and the newest of them, to be named."""

    holders: tuple[Holder, ...] = ()
    by: HeldBy | None = None
    is_whole: bool = True
    """All are among `holders`."""


def written(holders: tuple[Holder, ...]) -> Item:
    """Holders as one text, so that a compare-and-set is one equality."""
    return {"holders": " ".join(map(str, holders))} if holders else {}


def _read(item: Item) -> tuple[Holder, ...]:
    found = (text.rpartition(_LIFE) for text in item["holders"].split(" "))
    return tuple(Holder(parse_ref(ref), int(life)) for ref, _, life in found)


HOLDERS = Spelling(("holders",), written, _read)


def buffered(buffer: Buffer | None) -> Item:
    """A buffer as attributes; none where nothing waits."""
    if buffer is None:
        return {}
    return {"buffer_first": buffer.first.ref, "buffer_last": buffer.last.ref, "buffer_count": buffer.count}


def _read_buffer(item: Item) -> Buffer:
    return Buffer(parse_ref(item["buffer_first"]), parse_ref(item["buffer_last"]), whole(item["buffer_count"]))


BUFFER_NAMES = ("buffer_first", "buffer_last", "buffer_count")
BUFFER = Spelling(BUFFER_NAMES, buffered, _read_buffer)


def as_read(holders: tuple[Holder, ...], held_through_ms: int, buffer: Buffer | None) -> tuple[Condition, ...]:
    """Nobody has put down other holders, nor has anything else come to wait, or waits no more, since they were read."""
    known: Condition = Is("held_through_ms", held_through_ms)
    if not held_through_ms:  # 0 stands where an older version has let go a run by hand of a job that has fired nothing
        known = any_of(Missing("held_through_ms"), known)
    text = written(holders).get("holders")
    held = Missing("holders") if text is None else Is("holders", text)
    waits: list[Condition] = [Is(name, value) for name, value in buffered(buffer).items()]
    waits = waits or [Missing("buffer_count")]
    return known, held, *waits


def holds(item: Mapping[str, Any] | None, now_ms: int) -> bool:
    """Whether a run holds its job: dispatched, and not ended. One that is buffered was not; one that is to be cancelled
    and whose lease has lapsed does not, for nobody begins it again; a record that is gone has ended; one that was asked
    for beside the others says so itself."""
    if item is None or item["status"] in (*lifecycle.ENDED, lifecycle.BUFFERED) or item.get("beside"):
        return False
    is_asked_to_stop = item["status"] == lifecycle.RUNNING and bool(item.get("cancel_requested"))
    return not (is_asked_to_stop and is_given_up(item["lease_until_ms"], now_ms))


def is_given_up(lease_until_ms: int, now_ms: int) -> bool:
    """Whether nobody holds that lease any more, by any clock."""
    return lease_until_ms + GIVEN_UP_AFTER_MS < now_ms


GIVEN_UP_AFTER_MS = 2_000
"""So far clocks may differ: who holds a lease by his own clock has stopped by then."""


def held_by(holder: Holder, item: Mapping[str, Any]) -> HeldBy:
    return {"run_id": holder.key.run_id, "occurrence": holder.key.occurrence, "status": str(item["status"])}
