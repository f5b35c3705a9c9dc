"""Writes and their preconditions, as values. Both stores interpret the same ones.

There is no write without a condition: a caller who needs none must say so with `Anyway` and its reason.
`commit` of one write is a single conditional call; of several, one transaction. What a refusal says is in
`Refused`; a lost reply is the error `OutcomeUnknown`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tickwork.core.ledger.tables import Table

type Item = dict[str, Any]
"""Attribute names to str, int, bool, None, list or dict of the same. Never a float."""


@dataclass(frozen=True, slots=True)
class Absent:
    """The item does not exist."""


@dataclass(frozen=True, slots=True)
class Is:
    """The item exists and its attribute equals the value."""

    attribute: str
    value: str | int | bool


@dataclass(frozen=True, slots=True)
class Missing:
    """The attribute (or the whole item) is not there."""

    attribute: str


@dataclass(frozen=True, slots=True)
class Below:
    """The attribute is there and less than the value."""

    attribute: str
    value: int


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The attribute is there and not less than the value."""

    attribute: str
    value: int


@dataclass(frozen=True, slots=True)
class AllOf:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Anyway:
    """No condition, and why none is needed."""

    reason: str


type Condition = Absent | Is | Missing | Below | AtLeast | AllOf | AnyOf | Anyway


def all_of(*conditions: Condition) -> AllOf:
    return AllOf(conditions)


def any_of(*conditions: Condition) -> AnyOf:
    return AnyOf(conditions)


@dataclass(frozen=True, slots=True)
class Put:
    """Write the whole item."""

    table: Table
    item: Item
    condition: Condition


@dataclass(frozen=True, slots=True)
class Update:
    """Change some attributes of the item at `key`. `append` adds to the end of a list (made if missing), `add` to a
    whole number (0 if missing): repeated after a lost reply, it adds twice."""

    table: Table
    key: Item
    condition: Condition
    set: Mapping[str, Any] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    append: Mapping[str, Any] = field(default_factory=dict)
    add: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    table: Table
    key: Item
    condition: Condition


@dataclass(frozen=True, slots=True)
class Check:
    """Writes nothing; the whole transaction stands or falls with the condition."""

    table: Table
    key: Item
    condition: Condition


type Write = Put | Update | Delete | Check

TRANSACTION_WRITES_MAX = 100


@dataclass(frozen=True, slots=True)
class Committed:
    """All writes took effect. `item` is the item after a single `Update`, else None."""

    item: Item | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written. `failed` maps the index of each refused write to the item as it stands (None if absent).

    A refusal may be our own earlier success whose reply was lost and which the client library repeated:
    look at the item before believing otherwise.
    """

    failed: Mapping[int, Item | None]

    @property
    def only(self) -> Item | None:
        """The item that refused a single write."""
        return self.failed[0]
