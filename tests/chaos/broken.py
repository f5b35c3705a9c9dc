"""Parts that stay broken for a stretch of a chaos run, beside all its other faults: a pool's queue, a table, a shard.

Owns the proxy's rules of such a part, and which runs it touches. Refuses to know how late a run may be (`lags.py`). A
rule fails every call that meets the part, and no other: what else is late then was held up by tickwork.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.queues import ready_queue
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import LEASES, TABLES_BY_NAME, TIMERS
from tickwork.settings import Settings

DENIED: Final = {"code": "AccessDenied", "status": 403, "message": "injected: the part is broken"}
THROTTLED: Final = {"code": "ProvisionedThroughputExceededException", "message": "injected: the part is broken"}
CANCELLED: Final = {
    "code": "TransactionCanceledException",
    "fields": {"CancellationReasons": [{"Code": "ThrottlingError", "Message": "injected: the part is broken"}]},
}
"""What a transaction says when one of its items is throttled."""

_KEYED: Final = {
    "GetItem": "Key.pk.S",
    "UpdateItem": "Key.pk.S",
    "DeleteItem": "Key.pk.S",
    "PutItem": "Item.pk.S",
    "Query": 'ExpressionAttributeValues.":p".S',
}
"""Where a call to one table says which partition it means."""
_IN_TRANSACTION: Final = "TransactItems[].[Put.Item.pk.S, Update.Key.pk.S, Delete.Key.pk.S, ConditionCheck.Key.pk.S][]"
_IN_BATCH: Final = "values(RequestItems)[].Keys[].pk.S"


@dataclass(frozen=True, slots=True)
class Broken:
    """A part that is broken: `kind` is pool, table or shard."""

    kind: str
    name: str

    @classmethod
    def read(cls, text: str) -> Broken:
        """`pool:bulk`, `table:jobs`, `shard:1`. ValueError for anything else, and for a table without which nothing of
        a slice can go on."""
        if not re.fullmatch(r"pool:[a-z0-9-]+|shard:\d{1,4}|table:[a-z_]+", text):
            raise ValueError(f"{text!r} is none of pool:NAME, table:NAME, shard:NUMBER")
        kind, _, name = text.partition(":")
        if kind == "table" and (name not in TABLES_BY_NAME or name in (TIMERS.name, LEASES.name)):
            raise ValueError(f"table:{name}: name a table other than {TIMERS.name} and {LEASES.name}")
        return cls(kind, name)

    def rules(self, settings: Settings) -> list[dict[str, Any]]:
        """What the proxy is told. It takes the first rule that matches, so these come before all others."""
        if self.kind == "pool":
            queue = f"{settings.prefix}-{ready_queue(self.name)}"
            named = "not_null(QueueUrl, QueueName, '')"
            return [{"service": "sqs", "body": f"ends_with({named}, '{queue}')", "error": DENIED}]
        if self.kind == "table":
            return _table_rules(f"{settings.prefix}-{self.name}")
        return _partition_rules(f"{settings.prefix}-{TIMERS.name}", f"{settings.cell}#{int(self.name):04d}#")

    def touches(self, run: Run) -> bool:
        """Whether a run may be late by it. Of the tables only what a part of the runs needs can be told apart."""
        if self.kind == "pool":
            return _pool_of(run) == self.name
        if self.kind == "shard":
            return run.key.shard == int(self.name)
        return run.is_recurring

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def touched(run: Run, parts: Sequence[Broken]) -> bool:
    return any(part.touches(run) for part in parts)


def neighbours(key: LedgerKey, parts: Sequence[Broken], slices: int) -> bool:
    """Whether a broken shard lies in the same slice: who would be held up first."""
    return any(part.kind == "shard" and key.shard % slices == int(part.name) % slices for part in parts)


def _pool_of(run: Run) -> str:
    """Of a recurring run by its job's name: the clients give it the pool's."""
    return run.work.pool if run.work is not None else run.key.name.partition("-")[0]


def _table_rules(table: str) -> list[dict[str, Any]]:
    in_one = {"service": "dynamodb", "body": f"TableName == '{table}'", "error": THROTTLED}
    in_batch = {
        "service": "dynamodb",
        "operation": "BatchGetItem",
        "body": f"contains(keys(RequestItems), '{table}')",
        "error": THROTTLED,
    }
    in_transaction = {
        "service": "dynamodb",
        "operation": "TransactWriteItems",
        "body": f"TransactItems[].values(@)[].TableName | contains(@, '{table}')",
        "error": CANCELLED,
    }
    return [in_one, in_batch, in_transaction]


def _partition_rules(table: str, begin: str) -> list[dict[str, Any]]:
    """Of a call to several partitions all fails, where DynamoDB would leave some keys of a batch unprocessed only."""
    some = f"[?starts_with(@, '{begin}')] | [0]"
    rules: list[dict[str, Any]] = [
        {
            "service": "dynamodb",
            "operation": operation,
            "body": f"TableName == '{table}' && starts_with(not_null({place}, ''), '{begin}')",
            "error": THROTTLED,
        }
        for operation, place in _KEYED.items()
    ]
    batch = {"operation": "BatchGetItem", "body": f"{_IN_BATCH} | {some}", "error": THROTTLED}
    transaction = {"operation": "TransactWriteItems", "body": f"{_IN_TRANSACTION} | {some}", "error": CANCELLED}
    return [*rules, *({"service": "dynamodb", **one} for one in (batch, transaction))]
