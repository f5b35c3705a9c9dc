"""The DynamoDB store: renders writes to expressions, items to attribute values, and its errors to ours.

Owns every call to DynamoDB. Knows nothing of timers, jobs or leases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as ConnectionFailed

from tickwork.core.errors import Conflict, InvariantViolated, OutcomeUnknown, Throttled
from tickwork.core.ledger.tables import Index, Table
from tickwork.core.ledger.writes import (
    Absent,
    AllOf,
    AnyOf,
    Anyway,
    Below,
    Check,
    Committed,
    Condition,
    Delete,
    Is,
    Item,
    Missing,
    Put,
    Refused,
    Update,
    Write,
)
from tickwork.ports import Page

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BATCH_GET_MAX = 100
BATCH_GET_ROUNDS_MAX = 8
"""Rounds for keys that DynamoDB left unprocessed, before it counts as throttling."""

_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "LimitExceededException",
}
_UNKNOWN = {
    "InternalServerError",
    "ServiceUnavailable",
    "RequestTimeout",
    "InternalFailure",
    "500",
    "503",
    "504",
}
_TRANSIENT_REASONS = {"TransactionConflict": Conflict, "ThrottlingError": Throttled}
_TRANSIENT_REASONS["ProvisionedThroughputExceeded"] = Throttled


class DynamoStore:
    """A `ports.Store` over a boto3 client. `prefix` begins every table's name; `token` makes client request tokens."""

    def __init__(self, client: DynamoDBClient, prefix: str, token: Callable[[], str]) -> None:
        self._client = client
        self._prefix = prefix
        self._token = token

    def table_name(self, table: Table) -> str:
        return f"{self._prefix}-{table.name}"

    # --- reads ------------------------------------------------------------------------------------------------

    def get(self, table: Table, key: Item) -> Item | None:
        answer = self._call(
            self._client.get_item,
            TableName=self.table_name(table),
            Key=to_attributes(key),
            ConsistentRead=True,
        )
        return from_attributes(answer["Item"]) if "Item" in answer else None

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        found: dict[tuple[str, str], Item] = {}
        for begin in range(0, len(keys), BATCH_GET_MAX):
            for item in self._get_batch(table, keys[begin : begin + BATCH_GET_MAX]):
                found[table.key_of(item)] = item
        return [found.get(table.key_of(key)) for key in keys]

    def _get_batch(self, table: Table, keys: Sequence[Item]) -> list[Item]:
        name = self.table_name(table)
        wanted: Any = {name: {"Keys": [to_attributes(key) for key in keys], "ConsistentRead": True}}
        items: list[Item] = []
        for _ in range(BATCH_GET_ROUNDS_MAX):
            answer = self._call(self._client.batch_get_item, RequestItems=wanted)
            items += [from_attributes(item) for item in answer["Responses"].get(name, [])]
            wanted = answer.get("UnprocessedKeys")
            if not wanted:
                return items
        raise Throttled(f"{name}: keys were left unprocessed {BATCH_GET_ROUNDS_MAX} times")

    def query(
        self, table: Table, partition: str, first: str, last: str, *, limit: int, after: str | None = None
    ) -> Page:
        request: dict[str, Any] = {
            "TableName": self.table_name(table),
            "KeyConditionExpression": "#p = :p AND #s BETWEEN :first AND :last",
            "ExpressionAttributeNames": {"#p": table.partition_key, "#s": table.sort_key},
            "ExpressionAttributeValues": to_attributes({":p": partition, ":first": first, ":last": last}),
            "ConsistentRead": True,
            "Limit": limit,
        }
        if after is not None:
            assert table.sort_key is not None, f"{table.name} has no sort key to page by"
            request["ExclusiveStartKey"] = to_attributes({table.partition_key: partition, table.sort_key: after})
        answer = self._call(self._client.query, **request)
        items = tuple(from_attributes(item) for item in answer["Items"])
        more = answer.get("LastEvaluatedKey")
        return Page(items, None if more is None or table.sort_key is None else str(more[table.sort_key]["S"]))

    def query_index(
        self, table: Table, index: Index, partition: str, *, limit: int, after: Item | None, descending: bool
    ) -> tuple[list[Item], Item | None]:
        request: dict[str, Any] = {
            "TableName": self.table_name(table),
            "IndexName": index.name,
            "KeyConditionExpression": "#p = :p",
            "ExpressionAttributeNames": {"#p": index.partition_key},
            "ExpressionAttributeValues": to_attributes({":p": partition}),
            "ScanIndexForward": not descending,
            "Limit": limit,
        }
        if after is not None:
            request["ExclusiveStartKey"] = to_attributes(after)
        answer = self._call(self._client.query, **request)
        more = answer.get("LastEvaluatedKey")
        return [from_attributes(item) for item in answer["Items"]], from_attributes(more) if more else None

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        request: dict[str, Any] = {"TableName": self.table_name(table), "Limit": limit}
        if after is not None:
            partition, sort = table.key_of(after)
            names = {table.partition_key: partition} | ({table.sort_key: sort} if table.sort_key else {})
            request["ExclusiveStartKey"] = to_attributes(names)
        answer = self._call(self._client.scan, **request)
        more = answer.get("LastEvaluatedKey")
        return [from_attributes(item) for item in answer["Items"]], from_attributes(more) if more else None

    # --- writes -----------------------------------------------------------------------------------------------

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        if len(writes) == 1:
            return self._commit_one(writes[0])
        items = [{_VERB[type(write)]: self._render(write)} for write in writes]
        try:
            self._client.transact_write_items(TransactItems=items, ClientRequestToken=self._token())  # type: ignore[arg-type]
        except ClientError as error:
            if error.response["Error"]["Code"] != "TransactionCanceledException":
                raise _translated(error) from error
            return _refused(error)
        except (ConnectionFailed, HTTPClientError) as error:
            raise OutcomeUnknown(str(error)) from error
        return Committed()

    def _commit_one(self, write: Write) -> Committed | Refused:
        rendered = self._render(write)
        call: Any = {
            Put: self._client.put_item,
            Update: self._client.update_item,
            Delete: self._client.delete_item,
        }
        if isinstance(write, Update):
            rendered["ReturnValues"] = "ALL_NEW"
        try:
            answer = call[type(write)](**rendered)
        except ClientError as error:
            if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
                raise _translated(error) from error
            standing: Any = error.response.get("Item")
            return Refused({0: from_attributes(standing) if standing else None})
        except (ConnectionFailed, HTTPClientError) as error:
            raise OutcomeUnknown(str(error)) from error
        return Committed(from_attributes(answer["Attributes"]) if isinstance(write, Update) else None)

    def _render(self, write: Write) -> dict[str, Any]:
        expression = _Expression()
        request: dict[str, Any] = {"TableName": self.table_name(write.table)}
        if isinstance(write, Put):
            request["Item"] = to_attributes(write.item)
        else:
            request["Key"] = to_attributes(write.key)
        if isinstance(write, Update):
            request["UpdateExpression"] = expression.update(write)
        if not isinstance(write.condition, Anyway):
            request["ConditionExpression"] = expression.condition(write.condition, write.table)
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        return request | expression.parameters()

    def _call(self, method: Callable[..., Any], **request: Any) -> Any:
        """A read: repeating it is always safe, so an unknown outcome is no special case."""
        try:
            return method(**request)
        except ClientError as error:
            failure = _translated(error)
            raise (Throttled(str(error)) if isinstance(failure, OutcomeUnknown) else failure) from error
        except (ConnectionFailed, HTTPClientError) as error:
            raise Throttled(str(error)) from error


_VERB = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}


class _Expression:
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
        return " ".join(
            part for part in (sets and f"SET {', '.join(sets)}", removes and f"REMOVE {', '.join(removes)}") if part
        )

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


def _refused(error: ClientError) -> Refused:
    """Take a cancelled transaction apart by its reasons. A transient one outweighs refusals: nothing is known yet
    of what the conditions would have said."""
    reasons: Any = error.response.get("CancellationReasons", [])
    for reason in reasons:
        transient = _TRANSIENT_REASONS.get(reason.get("Code", "None"))
        if transient is not None:
            raise transient(reason.get("Message", reason["Code"])) from error
    failed = {
        index: from_attributes(reason["Item"]) if reason.get("Item") else None
        for index, reason in enumerate(reasons)
        if reason.get("Code") == "ConditionalCheckFailed"
    }
    others = [reason for reason in reasons if reason.get("Code") not in (None, "None", "ConditionalCheckFailed")]
    if others or not failed:
        raise InvariantViolated(f"a transaction was refused for a reason of ours: {others or error}") from error
    return Refused(failed)


def _translated(error: ClientError) -> Exception:
    code = error.response["Error"]["Code"]
    status = error.response["ResponseMetadata"].get("HTTPStatusCode", 0)
    if code in _THROTTLED:
        return Throttled(str(error))
    if code in ("TransactionConflictException", "TransactionInProgressException"):
        return Conflict(str(error))
    if code in _UNKNOWN or status >= 500:
        return OutcomeUnknown(str(error))
    return InvariantViolated(f"DynamoDB refused a request of ours: {error}")


# --- attribute values: only the types an `Item` may hold, and integers stay integers --------------------------


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
