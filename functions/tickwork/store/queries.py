"""The requests of the two kinds of query: a range of a partition, and an index. Pure; the store sends them."""

from __future__ import annotations

from typing import Any

from tickwork.core.ledger.tables import Index, Table
from tickwork.core.ledger.writes import Item
from tickwork.store.attributes import to_attributes


def range_request(
    table: Table, partition: str, first: str, last: str, *, limit: int, after: str | None, descending: bool
) -> dict[str, Any]:
    """A consistent query of first <= sort key <= last, in either direction, from a key on."""
    request: dict[str, Any] = {
        "KeyConditionExpression": "#p = :p AND #s BETWEEN :first AND :last",
        "ExpressionAttributeNames": {"#p": table.partition_key, "#s": table.sort_key},
        "ExpressionAttributeValues": to_attributes({":p": partition, ":first": first, ":last": last}),
        "ConsistentRead": True,
        "Limit": limit,
    }
    if descending:
        request["ScanIndexForward"] = False
    if after is not None:
        assert table.sort_key is not None, f"{table.name} has no sort key to page by"
        request["ExclusiveStartKey"] = to_attributes({table.partition_key: partition, table.sort_key: after})
    return request


def index_request(
    index: Index,
    partition: str,
    *,
    limit: int,
    after: Item | None,
    descending: bool,
    between: tuple[int, int] | None,
) -> dict[str, Any]:
    """A query of one partition of an index, in either direction, from a position on, between two numbers."""
    request: dict[str, Any] = {
        "IndexName": index.name,
        "KeyConditionExpression": "#p = :p",
        "ExpressionAttributeNames": {"#p": index.partition_key},
        "ExpressionAttributeValues": to_attributes({":p": partition}),
        "ScanIndexForward": not descending,
        "Limit": limit,
    }
    if between is not None:
        request["KeyConditionExpression"] += " AND #s BETWEEN :low AND :high"
        request["ExpressionAttributeNames"]["#s"] = index.sort_key
        request["ExpressionAttributeValues"] |= to_attributes({":low": between[0], ":high": between[1]})
    if after is not None:
        request["ExclusiveStartKey"] = to_attributes(after)
    return request
