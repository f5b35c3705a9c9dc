"""Items as DynamoDB's attribute values, and back: only the types an `Item` may hold, and integers stay integers.

Owns that mapping. Knows no table and makes no call. What cannot be stored raises, so nothing is changed silently.
"""

from __future__ import annotations

from typing import Any

from tickwork.core.errors import InvariantViolated
from tickwork.core.ledger.writes import Item


def to_attribute(value: object) -> dict[str, Any]:
    match value:
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int():
            return {"N": str(value)}
        case None:
            return {"NULL": True}
        case dict():
            return {"M": {str(name): to_attribute(inner) for name, inner in value.items()}}
        case list() | tuple():
            return {"L": [to_attribute(inner) for inner in value]}
    raise InvariantViolated(f"{type(value).__name__} cannot be stored")


def to_attributes(item: Item) -> dict[str, Any]:
    return {name: to_attribute(value) for name, value in item.items()}


def from_attribute(attribute: dict[str, Any]) -> Any:
    ((kind, value),) = attribute.items()
    if kind == "S":  # most of them
        return value
    match kind:
        case "BOOL":
            return value
        case "N":
            return int(value) if value.lstrip("-").isdigit() else float(value)
        case "M":
            return {name: from_attribute(inner) for name, inner in value.items()}
        case "L":
            return [from_attribute(inner) for inner in value]
        case "NULL":
            return None
    raise InvariantViolated(f"an attribute of type {kind} is not one of ours")


def from_attributes(item: dict[str, Any]) -> Item:
    return {name: from_attribute(value) for name, value in item.items()}
