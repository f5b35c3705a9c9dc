"""Our clients leave out part of boto3's work: what they answer must be the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from tests.support.fakes import KeptSignals
from tickwork.aws import wiring
from tickwork.aws.provision import create_all
from tickwork.core.ledger.queues import ready
from tickwork.settings import Settings

SETTINGS = Settings(shards=1, slices=1)
TABLE = f"{SETTINGS.prefix}-timers"
KEY = {"pk": {"S": "p"}, "sk": {"S": "s"}}
ITEM = {**KEY, "n": {"N": "7"}, "m": {"M": {"l": {"L": [{"BOOL": True}, {"NULL": True}, {"S": "\u00e9"}]}}}}


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        create_all(boto3.client("dynamodb"), boto3.client("sqs"), SETTINGS)
        boto3.client("dynamodb").put_item(TableName=TABLE, Item=ITEM)
        yield wiring.dynamodb_client(), boto3.client("dynamodb")


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("get_item", {"TableName": TABLE, "Key": KEY}),
        ("get_item", {"TableName": TABLE, "Key": KEY | {"sk": {"S": "none"}}}),
        ("batch_get_item", {"RequestItems": {TABLE: {"Keys": [KEY]}}}),
        ("scan", {"TableName": TABLE}),
        (
            "query",
            {
                "TableName": TABLE,
                "KeyConditionExpression": "pk = :p",
                "ExpressionAttributeValues": {":p": {"S": "p"}},
            },
        ),
        (
            "update_item",
            {
                "TableName": TABLE,
                "Key": KEY,
                "UpdateExpression": "SET n = :n",
                "ExpressionAttributeValues": {":n": {"N": "8"}},
                "ReturnValues": "ALL_NEW",
            },
        ),
    ],
)
def test_answers_are_those_of_a_plain_client(clients: tuple[Any, Any], method: str, request_: dict[str, Any]) -> None:
    ours, plain = (getattr(client, method)(**request_) for client in clients)
    ours.pop("ResponseMetadata")
    plain.pop("ResponseMetadata")
    assert ours == plain


def test_a_refused_condition_and_a_cancelled_transaction_say_what_they_say(clients: tuple[Any, Any]) -> None:
    put = {
        "TableName": TABLE,
        "Item": ITEM,
        "ConditionExpression": "attribute_not_exists(pk)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    with pytest.raises(ClientError) as refused:
        clients[0].put_item(**put)
    assert refused.value.response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert refused.value.response["Item"] == ITEM
    with pytest.raises(ClientError) as cancelled:
        clients[0].transact_write_items(TransactItems=[{"Put": put}])
    assert cancelled.value.response["CancellationReasons"][0]["Code"] == "ConditionalCheckFailed"


def test_a_batch_of_messages_is_answered_entry_by_entry(clients: tuple[Any, Any]) -> None:
    sqs = wiring.sqs_client()
    url = sqs.get_queue_url(QueueName=f"{SETTINGS.prefix}-ticks")["QueueUrl"]
    entries = [{"Id": "0", "MessageBody": "a"}, {"Id": "1", "MessageBody": "b", "DelaySeconds": 901}]
    answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    assert [entry["Id"] for entry in answer["Successful"]] == ["0"]
    assert [entry["Id"] for entry in answer["Failed"]] == ["1"]


@pytest.mark.usefixtures("clients")
@pytest.mark.parametrize("key", ["", "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"])
def test_queues_and_topics_that_are_made_while_the_service_runs_have_the_key_of_the_environment(key: str) -> None:
    ports = wiring.aws_ports(Settings(kms_key_arn=key), KeptSignals(), receives=True)
    queue = ready("shop_fast")
    ports.queues.make(queue)
    ports.pager.page("shop", "email", "ann@example.org", "a", "b")
    sqs, sns = boto3.client("sqs"), boto3.client("sns")
    for name in (queue.name, queue.dlq_name):
        url = sqs.get_queue_url(QueueName=f"{SETTINGS.prefix}-{name}")["QueueUrl"]
        made = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
        assert made.get("KmsMasterKeyId", "") == key
        assert key or made["SqsManagedSseEnabled"] == "true"
    arns = [topic["TopicArn"] for topic in sns.list_topics()["Topics"]]
    (topic,) = [arn for arn in arns if arn.endswith(ports.pager.topic_of("shop"))]
    assert sns.get_topic_attributes(TopicArn=topic)["Attributes"].get("KmsMasterKeyId", "") == key
