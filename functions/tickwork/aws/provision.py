"""Tables and queues made by API calls, for the embedded endpoint and for tests. AWS gets them from `infra/`.

Both read the same table definitions (`core/tables.py`) and queue settings (below).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from tickwork.core.tables import ALL_TABLES, Table
from tickwork.ports import TICKS_QUEUE, ready_queue
from tickwork.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

SCANNER_TIMEOUT_S = 11
TICKS_VISIBILITY_S = SCANNER_TIMEOUT_S
"""The tick of a scanner that died comes back after this, just when its lease (10 s) has lapsed: its slice is served
again within 12 s (spec F7). An SQS event source demands at least the function's timeout, so that is as short: a
window that needs longer stops in time with its cursor where it honestly is, and its tick comes again at once."""
SCANNER_RESERVE_MS = 3_000
"""Of the scanner's time, kept for the writes after the last batch."""
READY_VISIBILITY_S = 30
"""How long a received message stays hidden before its run has started; then the lease and heartbeats set it."""
READY_RECEIVES_MAX = 1_000
"""A message received this often goes to the dead-letter queue. Every lost attempt is one receive, every wait for a
slot and every worker that met a live claim another, so it is as many as SQS allows: the ledger decides, not this."""
TICKS_RECEIVES_MAX = 100
READY_RETENTION_S = 14 * 86_400
TICKS_RETENTION_S = 3_600


def create_all(dynamodb: DynamoDBClient, sqs: SQSClient, settings: Settings) -> None:
    """Create what is missing; what exists is left as it is."""
    for table in ALL_TABLES:
        _create_table(dynamodb, f"{settings.prefix}-{table.name}", table)
    _create_queue(sqs, f"{settings.prefix}-{TICKS_QUEUE}", TICKS_VISIBILITY_S, TICKS_RETENTION_S)
    for pool in settings.layout().pools:
        _create_queue(sqs, f"{settings.prefix}-{ready_queue(pool)}", READY_VISIBILITY_S, READY_RETENTION_S)


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


def _create_queue(client: SQSClient, name: str, visibility_s: int, retention_s: int) -> None:
    attributes: dict[Any, str] = {
        "VisibilityTimeout": str(visibility_s),
        "MessageRetentionPeriod": str(retention_s),
        "ReceiveMessageWaitTimeSeconds": "20",
    }
    client.create_queue(QueueName=name, Attributes=attributes)
