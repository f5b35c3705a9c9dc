"""Carries run_id and token to the side effect, so that a duplicate or a late attempt changes nothing there.

Two questions, two kinds of helper:

- *Was it done?* `..._once`: the effect's key is `run_id`, the same on every attempt. The second time is a no-op.
- *Am I still the latest?* `..._fenced`: a record that successive attempts or runs of a job overwrite. It keeps the
  fence of its last writer (`ctx.fence`: occurrence, then token) and refuses an older one.

None of them trusts a clock or a lease. Each says whether this call made the change; a refusal is a return value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError

from tickwork.worker.context import Context

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

FENCE_ATTRIBUTE = "tickwork_fence"
RUN_ATTRIBUTE = "tickwork_run_id"
FENCE_METADATA = "tickwork-fence"
_S3_RACES_MAX = 5
"""Each lost race means that another writer got through; the next reading says whether it is newer."""
_S3_REFUSED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}


class S3Client(Protocol):
    """The two calls of a boto3 S3 client that are used."""

    def put_object(self, **arguments: Any) -> Any: ...

    def head_object(self, **arguments: Any) -> Any: ...


class Cursor(Protocol):
    """A DB-API cursor with the `%s` style: psycopg, psycopg2, pg8000."""

    @property
    def rowcount(self) -> int: ...

    def execute(self, query: str, parameters: tuple[Any, ...]) -> Any: ...


# --- HTTP -----------------------------------------------------------------------------------------------------------


def http_headers(ctx: Context) -> dict[str, str]:
    """Headers for a call that changes something: the receiver drops a repetition by `Idempotency-Key` (the run) and an
    older attempt by `Tickwork-Token`."""
    headers = {
        "Idempotency-Key": ctx.run_id,
        "Tickwork-Run-Id": ctx.run_id,
        "Tickwork-Attempt": str(ctx.attempt),
        "Tickwork-Token": str(ctx.token),
    }
    return headers | ({"traceparent": ctx.traceparent} if ctx.traceparent else {})


# --- PostgreSQL -----------------------------------------------------------------------------------------------------

POSTGRES_TABLE = """
CREATE TABLE IF NOT EXISTS tickwork_done (
    run_id  text PRIMARY KEY,
    token   bigint NOT NULL,
    done_at timestamptz NOT NULL DEFAULT now()
)
"""
_POSTGRES_ONCE = "INSERT INTO tickwork_done (run_id, token) VALUES (%s, %s) ON CONFLICT (run_id) DO NOTHING"


def postgres_once(cursor: Cursor, ctx: Context) -> bool:
    """True for the first attempt that commits. Call it **in the transaction of the effect**, before the effect, and go
    on only when it is True: then the mark and the effect are there together or not at all, and of two attempts at
    once the second waits for the first and finds it done. Needs POSTGRES_TABLE."""
    cursor.execute(_POSTGRES_ONCE, (ctx.run_id, ctx.token))
    return cursor.rowcount == 1


# --- DynamoDB -------------------------------------------------------------------------------------------------------


def dynamodb_once(client: DynamoDBClient, table: str, item: Mapping[str, Any], ctx: Context, *, key: str) -> bool:
    """Put an item that this run creates, unless it is there. `key`: the name of its partition key. True when this or an
    earlier attempt of *this run* wrote it, so a lost reply repeated by boto3 is no refusal; False when another did."""
    marked = {**item, RUN_ATTRIBUTE: {"S": ctx.run_id}}
    try:
        client.put_item(
            TableName=table,
            Item=marked,
            ConditionExpression="attribute_not_exists(#k) OR #run = :run",
            ExpressionAttributeNames={"#k": key, "#run": RUN_ATTRIBUTE},
            ExpressionAttributeValues={":run": {"S": ctx.run_id}},
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        return False
    return True


def dynamodb_fenced(
    client: DynamoDBClient, table: str, key: Mapping[str, Any], values: Mapping[str, Any], ctx: Context
) -> bool:
    """Set attributes (DynamoDB's typed form) of an item, unless a later attempt or occurrence has written it. False
    when it has: stop, you are late."""
    names = {f"#n{i}": name for i, name in enumerate(values)}
    typed = {f":v{i}": value for i, value in enumerate(values.values())}
    sets = ", ".join([*(f"#n{i} = :v{i}" for i in range(len(values))), "#fence = :fence"])
    try:
        client.update_item(
            TableName=table,
            Key=dict(key),
            UpdateExpression=f"SET {sets}",
            ConditionExpression="attribute_not_exists(#fence) OR #fence <= :fence",
            ExpressionAttributeNames=names | {"#fence": FENCE_ATTRIBUTE},
            ExpressionAttributeValues=typed | {":fence": {"S": ctx.fence}},
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            raise
        return False
    return True


# --- S3 -------------------------------------------------------------------------------------------------------------


def s3_once(client: S3Client, bucket: str, key: str, body: bytes) -> bool:
    """Put an object that is not there. Let the key contain `ctx.run_id`: then False means that it was done before."""
    return _s3_put(client, Bucket=bucket, Key=key, Body=body, IfNoneMatch="*")


def s3_fenced(client: S3Client, bucket: str, key: str, body: bytes, ctx: Context) -> bool:
    """Overwrite an object, unless a later attempt or occurrence has written it. False when it has."""
    for _ in range(_S3_RACES_MAX):
        etag, fence = _s3_last_writer(client, bucket, key)
        if fence > ctx.fence:
            return False
        unchanged = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}
        if _s3_put(client, Bucket=bucket, Key=key, Body=body, Metadata={FENCE_METADATA: ctx.fence}, **unchanged):
            return True
    return False


def _s3_last_writer(client: S3Client, bucket: str, key: str) -> tuple[str, str]:
    try:
        head = client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("404", "NoSuchKey", "NotFound"):
            raise
        return "", ""
    return str(head["ETag"]), str(head.get("Metadata", {}).get(FENCE_METADATA, ""))


def _s3_put(client: S3Client, **arguments: Any) -> bool:
    try:
        client.put_object(**arguments)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _S3_REFUSED:
            raise
        return False
    return True
