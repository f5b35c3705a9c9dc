"""The circuit breaker of a push target: after some failures in a row it gets no pushes for a while, then one as a test.

While it is open, messages wait and no attempt is started: an outage of the target costs its runs no attempts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import items
from tickwork.core.ledger.items import Record
from tickwork.core.ledger.keys import resource_key
from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.writes import Is, Item, Missing, Update, all_of, any_of

TRIP_AFTER = 5
OPEN_S_FIRST, OPEN_S_MAX = 30, 600
PROBE_MS = 15 * SECOND_MS
"""How long the one that tries an open target has for it; then another may."""

_SLOT = "breaker"
"""Sorts behind every slot's number, so that no reading of slots sees it."""


@dataclass(frozen=True, slots=True)
class Breaker(Record):
    """Failures in a row, and until when the target is left alone."""

    WHOLE: ClassVar[bool] = True
    DERIVED: ClassVar[tuple[str, ...]] = ("resource", "slot")

    failures: int = 0
    open_until_ms: int = 0

    @classmethod
    def from_item(cls, item: Item | None) -> Self:
        """Of a target that nobody has counted failures of, too."""
        return cls() if item is None else items.read(cls, item)

    @property
    def is_tripped(self) -> bool:
        return self.failures >= TRIP_AFTER


def breaker_key(team: str, resource: str) -> Item:
    return {"resource": resource_key(team, resource), "slot": _SLOT}


def probe(key: Item, read: Breaker, now_ms: int) -> Update:
    """Try an open target whose time is over: one of all that want to may."""
    return _change(key, read, Breaker(read.failures, now_ms + PROBE_MS))


def failed(key: Item, read: Breaker, now_ms: int) -> Update:
    """One more failure. Refused means that another counted one meanwhile, which will do."""
    failures = read.failures + 1
    doublings = min(max(failures - TRIP_AFTER, 0), 10)
    open_ms = min(OPEN_S_FIRST << doublings, OPEN_S_MAX) * SECOND_MS
    return _change(key, read, Breaker(failures, now_ms + open_ms if failures >= TRIP_AFTER else 0))


def healed(key: Item, read: Breaker) -> Update:
    return _change(key, read, Breaker())


def _change(key: Item, read: Breaker, after: Breaker) -> Update:
    same = all_of(Is("failures", read.failures), Is("open_until_ms", read.open_until_ms))
    condition = any_of(Missing("failures"), same) if (read.failures, read.open_until_ms) == (0, 0) else same
    return Update(RESOURCES, key, condition, set=after.to_item())
