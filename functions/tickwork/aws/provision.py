"""Tables and queues made by API calls, for the embedded endpoint and for tests. AWS gets them from `infra/`.

Both read the same table definitions and queue settings (`core/ledger/tables.py`, `core/ledger/queues.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tickwork.core.ledger.queues import LONG_POLL_S, TICKS, Queue, ready
from tickwork.core.ledger.tables import ALL_TABLES, Table
from tickwork.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient


def create_all(dynamodb: DynamoDBClient, sqs: SQSClient, settings: Settings) -> None:
    """Create what is missing; what exists is left as it is."""
    for table in ALL_TABLES:
        _create_table(dynamodb, f"{settings.prefix}-{table.name}", table)
    for queue in (TICKS, *(ready(pool) for pool in settings.layout().pools)):
        _create_queue(sqs, f"{settings.prefix}-{queue.name}", queue)


def _create_table(client: DynamoDBClient, name: str, table: Table) -> None:
    try:
        client.create_table(**_definition(name, table))
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceInUseException":
            raise
        return
    client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60})
    if table.ttl:
        client.update_time_to_live(
            TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": table.ttl}
        )


def _definition(name: str, table: Table) -> dict[str, Any]:
    types = {table.partition_key: "S"} | ({table.sort_key: "S"} if table.sort_key else {})
    for index in table.indexes:
        types |= {index.partition_key: "S", index.sort_key: index.sort_key_type}
    definition: dict[str, Any] = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "KeySchema": _schema(table.partition_key, table.sort_key),
        "AttributeDefinitions": [{"AttributeName": n, "AttributeType": t} for n, t in types.items()],
    }
    if table.indexes:
        definition["GlobalSecondaryIndexes"] = [
            {
                "IndexName": index.name,
                "KeySchema": _schema(index.partition_key, index.sort_key),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            for index in table.indexes
        ]
    return definition


def _schema(partition_key: str, sort_key: str | None) -> list[dict[str, str]]:
    schema = [{"AttributeName": partition_key, "KeyType": "HASH"}]
    return schema + ([{"AttributeName": sort_key, "KeyType": "RANGE"}] if sort_key else [])


def _create_queue(client: SQSClient, name: str, queue: Queue) -> None:
    attributes: dict[Any, str] = {
        "VisibilityTimeout": str(queue.visibility_s),
        "MessageRetentionPeriod": str(queue.retention_s),
        "ReceiveMessageWaitTimeSeconds": str(LONG_POLL_S),
    }
    client.create_queue(QueueName=name, Attributes=attributes)
