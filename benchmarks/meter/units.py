"""The rules by which DynamoDB, SQS and Lambda count, as plain functions over plain values.

Sources: the Amazon DynamoDB developer guide ("item sizes and formats", "read and write operations", "transactions:
capacity management", "global secondary indexes: provisioned throughput"), the SQS and Lambda pricing pages. Where the
guide is silent the case is marked, and the dearer reading is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tickwork.core.ledger.tables import Index, Table

type Attributes = Mapping[str, Mapping[str, Any]]
"""An item as DynamoDB's JSON spells it: `{"pk": {"S": "..."}, ...}`."""

WRITE_UNIT_BYTES = 1_024
READ_UNIT_BYTES = 4_096
TRANSACTION_FACTOR = 2
"""Each item of a transaction is prepared and committed: two units where a plain call takes one."""
SQS_CHUNK_BYTES = 65_536
LAMBDA_FIRST_BYTES, LAMBDA_CHUNK_BYTES = 262_144, 65_536
"""An asynchronous invocation is one request up to 256 KB of payload, and one more for each 64 KB beyond."""


# --- sizes ----------------------------------------------------------------------------------------------------


def item_size(item: Attributes | None) -> int:
    """Bytes of an item as it is billed (100 bytes a stored item come on top, but only for storage)."""
    return 0 if item is None else sum(len(name.encode()) + value_size(value) for name, value in item.items())


def value_size(attribute: Mapping[str, Any]) -> int:
    ((kind, value),) = attribute.items()
    match kind:
        case "S":
            return len(value.encode())
        case "N":
            return number_size(value)
        case "B":
            return len(value)
        case "BOOL" | "NULL":
            return 1
        case "L":
            return 3 + sum(1 + value_size(inner) for inner in value)
        case "M":
            return 3 + sum(1 + len(name.encode()) + value_size(inner) for name, inner in value.items())
        case "SS":
            return sum(len(text.encode()) for text in value)
        case "NS":
            return sum(number_size(text) for text in value)
        case "BS":
            return sum(len(data) for data in value)
    raise ValueError(f"{kind} is no type of DynamoDB's")


def plain_size(item: Mapping[str, Any] | None) -> int:
    """`item_size` of an item before it is spelled as attributes: the same bytes, for less work."""
    return 0 if item is None else sum(len(name.encode()) + _plain_value_size(value) for name, value in item.items())


def _plain_value_size(value: Any) -> int:
    kind = value.__class__
    if kind is str:
        return len(value.encode())
    if kind is int:
        return number_size(str(value))
    if kind is dict:
        return 3 + sum(1 + len(name.encode()) + _plain_value_size(inner) for name, inner in value.items())
    if kind is list or kind is tuple:
        return 3 + sum(1 + _plain_value_size(inner) for inner in value)
    if kind is bool or value is None:
        return 1
    raise ValueError(f"{kind.__name__} cannot be stored")


def number_size(text: str) -> int:
    """One byte for two significant digits, and one more (a second one for a minus sign: seen, not documented)."""
    digits = text.lstrip("-").lower().partition("e")[0].replace(".", "").strip("0")
    return -(-max(1, len(digits)) // 2) + 1 + text.startswith("-")


# --- DynamoDB -------------------------------------------------------------------------------------------------


def write_units(before: Attributes | None, after: Attributes | None, *, in_transaction: bool = False) -> int:
    """Of one put, update or delete, or of one that a condition refused (then `after` is `before`): the larger of the
    item before and after it, by whole kilobytes, at least one."""
    return sized_write_units(max(item_size(before), item_size(after)), in_transaction=in_transaction)


def sized_write_units(size: int, *, in_transaction: bool) -> int:
    """The same, by the larger size."""
    units = max(1, -(-size // WRITE_UNIT_BYTES))
    return units * TRANSACTION_FACTOR if in_transaction else units


def check_units(item: Attributes | None) -> int:
    """Of a ConditionCheck in a transaction: counted as a write of the item (measured by others: 2 up to 1 KB)."""
    return write_units(item, item, in_transaction=True)


def index_units(table: Table, index: Index, before: Attributes | None, after: Attributes | None) -> int:
    """Write units of one index that projects keys only. Nothing when its entry stays as it is; a changed key is a
    removal and an insertion. An index follows a transaction by plain writes, so they do not count double."""
    old, new = _entry(table, index, before), _entry(table, index, after)
    if old == new:
        return 0
    return sum(max(1, -(-item_size(entry) // WRITE_UNIT_BYTES)) for entry in (old, new) if entry is not None)


def index_entry_size(table: Table, index: Index, item: Attributes) -> int:
    """Bytes of an item's entry in an index that projects keys only."""
    return item_size(_entry(table, index, item))


def _entry(table: Table, index: Index, item: Attributes | None) -> Attributes | None:
    if item is None or index.partition_key not in item or index.sort_key not in item:
        return None
    names = (index.partition_key, index.sort_key, table.partition_key, table.sort_key)
    return {name: item[name] for name in names if name is not None}


def read_units(sizes: Sequence[int], *, consistent: bool) -> float:
    """Of one Query or Scan: the sum of what it read (before any filter or projection), by whole 4 KB, at least one;
    half of that when it is eventually consistent. A GetItem is a sequence of one."""
    units = max(1, -(-sum(sizes) // READ_UNIT_BYTES))
    return float(units) if consistent else units / 2


def batch_read_units(sizes: Sequence[int], *, consistent: bool) -> float:
    """Of a BatchGetItem: each key by itself, also one that finds nothing (size 0)."""
    return sum(read_units([size], consistent=consistent) for size in sizes)


# --- SQS and Lambda -------------------------------------------------------------------------------------------


def sqs_requests(payload_bytes: int) -> int:
    """Of one call of any kind, a batch or a single one: each 64 KB of payload is a request, an empty answer is one."""
    return max(1, -(-payload_bytes // SQS_CHUNK_BYTES))


def lambda_requests(payload_bytes: int, *, is_async: bool) -> int:
    """Of one invocation. Its duration is billed apart."""
    beyond = max(0, payload_bytes - LAMBDA_FIRST_BYTES) if is_async else 0
    return 1 + -(-beyond // LAMBDA_CHUNK_BYTES)
