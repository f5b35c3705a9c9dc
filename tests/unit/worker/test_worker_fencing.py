"""Duplicates and late attempts change nothing: against moto's DynamoDB and S3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.support.contexts import attempt
from tickwork.worker import fencing

TABLE, BUCKET = "accounts", "reports"
KEY = {"id": {"S": "a1"}}


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb")
        client.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        )
        yield client


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield client


def balance(dynamodb: Any) -> str:
    return str(dynamodb.get_item(TableName=TABLE, Key=KEY)["Item"]["balance"]["N"])


def body(s3: Any, key: str = "k") -> bytes:
    return bytes(s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())


def test_a_later_attempt_or_occurrence_overwrites_and_an_earlier_one_is_refused(dynamodb: Any) -> None:
    writes = [
        (attempt(1), "1", True),
        (attempt(2), "2", True),
        (attempt(1), "9", False),  # the first attempt wakes up
        (attempt(2), "3", True),  # the same attempt may write twice
        (attempt(1, run="r2", day=29), "9", False),  # yesterday's run is very late
    ]
    for ctx, value, taken in writes:
        assert fencing.dynamodb_fenced(dynamodb, TABLE, KEY, {"balance": {"N": value}}, ctx) is taken
    assert balance(dynamodb) == "3"


def test_an_item_is_created_once_and_a_repetition_by_the_same_run_is_no_refusal(dynamodb: Any) -> None:
    item = {**KEY, "balance": {"N": "1"}}
    assert fencing.dynamodb_once(dynamodb, TABLE, item, attempt(1), key="id")
    assert fencing.dynamodb_once(dynamodb, TABLE, item, attempt(2), key="id")
    assert not fencing.dynamodb_once(dynamodb, TABLE, item, attempt(1, run="other"), key="id")


def test_other_errors_are_not_swallowed(dynamodb: Any) -> None:
    with pytest.raises(dynamodb.exceptions.ResourceNotFoundException):
        fencing.dynamodb_fenced(dynamodb, "no-table", KEY, {"balance": {"N": "1"}}, attempt())


def test_an_object_is_put_once(s3: Any) -> None:
    assert fencing.s3_once(s3, BUCKET, "k", b"first")
    assert not fencing.s3_once(s3, BUCKET, "k", b"second")
    assert body(s3) == b"first"


def test_an_object_of_a_later_attempt_is_not_overwritten(s3: Any) -> None:
    assert fencing.s3_fenced(s3, BUCKET, "k", b"one", attempt(1))
    assert fencing.s3_fenced(s3, BUCKET, "k", b"two", attempt(2))
    assert not fencing.s3_fenced(s3, BUCKET, "k", b"late", attempt(1))
    assert body(s3) == b"two"


def test_an_object_that_changes_under_the_writer_is_read_again(s3: Any) -> None:
    class Raced:
        """Another, later writer gets in between the look and the put."""

        head_object = staticmethod(s3.head_object)

        def put_object(self, **arguments: Any) -> Any:
            if arguments["Body"] == b"late":
                assert fencing.s3_fenced(s3, BUCKET, "k", b"newer", attempt(5))
            return s3.put_object(**arguments)

    assert fencing.s3_fenced(s3, BUCKET, "k", b"one", attempt(1))
    assert not fencing.s3_fenced(Raced(), BUCKET, "k", b"late", attempt(2))
    assert body(s3) == b"newer"


def test_a_call_carries_the_run_and_the_token_and_the_trace() -> None:
    assert fencing.http_headers(attempt(3, traceparent="00-a-b-01")) == {
        "Idempotency-Key": "r1",
        "Tickwork-Run-Id": "r1",
        "Tickwork-Attempt": "3",
        "Tickwork-Token": "3",
        "traceparent": "00-a-b-01",
    }
