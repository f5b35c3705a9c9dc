"""A meter on boto3 clients: counts what each call will be billed, from its parameters and its answer.

Listens to botocore's events, so the code under measurement is the production code, unchanged. What a write costs
depends on the item before and after it, which neither the call nor the answer shows in full: `peek` reads it
unmetered, by another client. Retries that botocore makes by itself are not counted (a throttled one is not billed).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.meter import units
from benchmarks.meter.bill import Bill
from benchmarks.meter.units import Attributes
from tickwork.core.ledger.tables import Table

type Peek = Callable[[str, Attributes], Attributes | None]
"""(table name, key) to the item as it stands."""

_MARK = "tickwork-meter"
_WRITES = {"PutItem": "Put", "UpdateItem": "Update", "DeleteItem": "Delete"}


class Unmeterable(Exception):
    """A call whose price this meter cannot tell."""


def peek_with(client: Any) -> Peek:
    """A peek by a client of its own (which must not be metered)."""

    def peek(table_name: str, key: Attributes) -> Attributes | None:
        item: Attributes | None = client.get_item(TableName=table_name, Key=key, ConsistentRead=True).get("Item")
        return item

    return peek


class Meter:
    """Counts the calls of the clients it is attached to into a bill. `tables` by their full names."""

    def __init__(self, bill: Bill, tables: Mapping[str, Table], peek: Peek) -> None:
        self._bill, self._tables, self._peek = bill, tables, peek

    def attach(self, client: Any) -> None:
        service = client.meta.service_model.service_name
        client.meta.events.register_first(f"before-parameter-build.{service}", self._before)
        client.meta.events.register_last(f"after-call.{service}", getattr(self, f"_after_{service}"))

    def _before(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: object) -> None:
        targets = [
            (verb, write, self._peek(write["TableName"], self._key(verb, write)))
            for verb, write in _targets(model.name, params)
        ]
        context[_MARK] = (params, targets)

    def _key(self, verb: str, write: Mapping[str, Any]) -> Attributes:
        if verb != "Put":
            key: Attributes = write["Key"]
            return key
        table, item = self._tables[write["TableName"]], write["Item"]
        return {name: item[name] for name in (table.partition_key, table.sort_key) if name}

    # --- DynamoDB ---------------------------------------------------------------------------------------------

    def _after_dynamodb(self, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: object) -> None:
        params, targets = context[_MARK]
        if targets:
            self._charge_writes(model.name, targets)
        elif "Error" in parsed:
            self._bill.add(model.name)  # a read that was refused or throttled is not billed
        else:
            self._charge_read(model.name, params, parsed)

    def _charge_writes(self, name: str, targets: list[tuple[str, Mapping[str, Any], Attributes | None]]) -> None:
        """Also of refused writes: a condition that fails is billed like the write it prevented, on the item there."""
        total = 0
        for verb, write, before in targets:
            table = self._tables[write["TableName"]]
            after = self._peek(write["TableName"], self._key(verb, write))
            if verb == "ConditionCheck":
                total += units.check_units(before)
                continue
            total += units.write_units(before, after, in_transaction=name == "TransactWriteItems")
            total += sum(units.index_units(table, index, before, after) for index in table.indexes)
        self._bill.add(name, dynamodb_write_units=total)

    def _charge_read(self, name: str, params: Mapping[str, Any], parsed: Mapping[str, Any]) -> None:
        if "FilterExpression" in params or params.get("Select") == "COUNT":
            raise Unmeterable(f"{name} reads more than it returns")
        consistent = bool(params.get("ConsistentRead"))
        if name == "GetItem":
            read = units.read_units([units.item_size(parsed.get("Item"))], consistent=consistent)
        elif name in ("Query", "Scan"):
            # With a projection the whole item is read and billed all the same.
            sizes = [self._read_size(params, item) for item in parsed["Items"]]
            read = units.read_units(sizes, consistent=consistent)
        elif name == "BatchGetItem":
            read = sum(
                _batch_units(asked, parsed["Responses"].get(t, [])) for t, asked in params["RequestItems"].items()
            )
        else:
            raise Unmeterable(name)
        self._bill.add(name, dynamodb_read_units=read)

    def _read_size(self, params: Mapping[str, Any], item: Attributes) -> int:
        if "ProjectionExpression" not in params or "IndexName" in params:
            return units.item_size(item)
        table = self._tables[params["TableName"]]
        key = {name: item[name] for name in (table.partition_key, table.sort_key) if name}
        return units.item_size(self._peek(params["TableName"], key))

    # --- SQS and Lambda ---------------------------------------------------------------------------------------

    def _after_sqs(self, parsed: dict[str, Any], model: Any, context: dict[str, Any], **_: object) -> None:
        params, _targets = context[_MARK]
        sent = [params, *params.get("Entries", [])]
        received = parsed.get("Messages", [])
        size = sum(len(one.get("MessageBody", "").encode()) for one in sent)
        size += sum(len(one.get("Body", "").encode()) for one in received)
        fair = sum(1 for one in sent if "MessageGroupId" in one)
        self._bill.add(model.name, sqs_requests=units.sqs_requests(size), sqs_fair_messages=fair)

    def _after_lambda(self, model: Any, context: dict[str, Any], **_: object) -> None:
        params, _targets = context[_MARK]
        if model.name == "Invoke":
            is_async = params.get("InvocationType") == "Event"
            size = len(params.get("Payload", b""))
            self._bill.add(model.name, lambda_requests=units.lambda_requests(size, is_async=is_async))


def _targets(name: str, params: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """(verb, write) of each item that a call writes or checks."""
    if name in _WRITES:
        return [(_WRITES[name], params)]
    if name == "TransactWriteItems":
        return [(verb, write) for one in params["TransactItems"] for verb, write in one.items()]
    if name == "BatchWriteItem":
        return [
            (verb.removesuffix("Request"), {"TableName": table, **write})
            for table, requests in params["RequestItems"].items()
            for one in requests
            for verb, write in one.items()
        ]
    return []


def _batch_units(asked: Mapping[str, Any], found: list[Attributes]) -> float:
    missing = len(asked["Keys"]) - len(found)
    sizes = [units.item_size(item) for item in found] + [0] * missing
    return units.batch_read_units(sizes, consistent=bool(asked.get("ConsistentRead")))
