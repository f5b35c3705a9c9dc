"""Conditions and updates, written as DynamoDB's expressions: an interpreter of `core/ledger/writes.py`.

Owns the texts and their placeholders. Makes no call. A value never stands in a text: each name and each value has a
placeholder of its own, so that no name is a reserved word.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tickwork.core.errors import InvariantViolated
from tickwork.core.ledger.tables import Table
from tickwork.core.ledger.writes import Absent, AllOf, AnyOf, Anyway, AtLeast, Below, Condition, Is, Missing, Update
from tickwork.store.attributes import to_attribute


class Expression:
    """Collects the placeholders of one request while its expressions are written."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def parameters(self) -> dict[str, Any]:
        names = {"ExpressionAttributeNames": {mark: name for name, mark in self._names.items()}}
        values = {"ExpressionAttributeValues": self._values}
        return (names if self._names else {}) | (values if self._values else {})

    def update(self, write: Update) -> str:
        sets = [f"{self._name(name)} = {self._value(value)}" for name, value in write.set.items()]
        for name, more in write.append.items():
            mark = self._name(name)
            sets.append(f"{mark} = list_append(if_not_exists({mark}, {self._value([])}), {self._value(more)})")
        removes = [self._name(name) for name in write.remove]
        adds = [f"{self._name(name)} {self._value(number)}" for name, number in write.add.items()]
        clauses = (("SET", sets), ("REMOVE", removes), ("ADD", adds))
        return " ".join(f"{verb} {', '.join(parts)}" for verb, parts in clauses if parts)

    def condition(self, condition: Condition, table: Table) -> str:
        match condition:
            case Absent():
                return f"attribute_not_exists({self._name(table.partition_key)})"
            case Is(attribute, value):
                return f"{self._name(attribute)} = {self._value(value)}"
            case Missing(attribute):
                return f"attribute_not_exists({self._name(attribute)})"
            case Below(attribute, value):
                return f"{self._name(attribute)} < {self._value(value)}"
            case AtLeast(attribute, value):
                return f"{self._name(attribute)} >= {self._value(value)}"
            case AllOf(conditions):
                return self._joined(" AND ", conditions, table)
            case AnyOf(conditions):
                return self._joined(" OR ", conditions, table)
            case Anyway():
                raise InvariantViolated("`Anyway` stands alone")

    def _joined(self, word: str, conditions: Sequence[Condition], table: Table) -> str:
        return "(" + word.join(self.condition(one, table) for one in conditions) + ")"

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, f"#n{len(self._names)}")

    def _value(self, value: object) -> str:
        mark = f":v{len(self._values)}"
        self._values[mark] = to_attribute(value)
        return mark
