"""The DynamoDB store: every call to DynamoDB is made here.

Owns the requests; `expressions`, `attributes` and `failures` render and read them. Knows nothing of timers, jobs or
leases. No write goes out without the condition it names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as ConnectionFailed

from tickwork.core.errors import OutcomeUnknown, Throttled
from tickwork.core.ledger.tables import Index, Table
from tickwork.core.ledger.writes import Anyway, Check, Committed, Delete, Item, Put, Refused, Update, Write
from tickwork.ports import Page
from tickwork.store.attributes import from_attributes, to_attributes
from tickwork.store.expressions import Expression
from tickwork.store.failures import refused, translated
from tickwork.store.queries import index_request, range_request

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BATCH_GET_MAX = 100
BATCH_GET_ROUNDS_MAX = 8
"""Rounds for keys that DynamoDB left unprocessed, before it counts as throttling."""


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
        self,
        table: Table,
        partition: str,
        first: str,
        last: str,
        *,
        limit: int,
        after: str | None = None,
        descending: bool = False,
    ) -> Page:
        named = {"TableName": self.table_name(table)}
        request = named | range_request(table, partition, first, last, limit=limit, after=after, descending=descending)
        answer = self._call(self._client.query, **request)
        items = tuple(from_attributes(item) for item in answer["Items"])
        more = answer.get("LastEvaluatedKey")
        return Page(items, None if more is None or table.sort_key is None else str(more[table.sort_key]["S"]))

    def query_index(
        self,
        table: Table,
        index: Index,
        partition: str,
        *,
        limit: int,
        after: Item | None,
        descending: bool,
        between: tuple[int, int] | None = None,
    ) -> tuple[list[Item], Item | None]:
        named = {"TableName": self.table_name(table)}
        request = named | index_request(
            index, partition, limit=limit, after=after, descending=descending, between=between
        )
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
                raise translated(error) from error
            return refused(error)
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
                raise translated(error) from error
            standing: Any = error.response.get("Item")
            return Refused({0: from_attributes(standing) if standing else None})
        except (ConnectionFailed, HTTPClientError) as error:
            raise OutcomeUnknown(str(error)) from error
        return Committed(from_attributes(answer["Attributes"]) if isinstance(write, Update) else None)

    def _render(self, write: Write) -> dict[str, Any]:
        expression = Expression()
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
            failure = translated(error)
            raise (Throttled(str(error)) if isinstance(failure, OutcomeUnknown) else failure) from error
        except (ConnectionFailed, HTTPClientError) as error:
            raise Throttled(str(error)) from error


_VERB = {Put: "Put", Update: "Update", Delete: "Delete", Check: "ConditionCheck"}
