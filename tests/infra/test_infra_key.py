"""An environment with a key of its own: everything stored, queued, told and logged is encrypted with it, and each role
may use it for what it does otherwise, by way of the service that does it. Without a key nothing speaks of one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template
from infra.asset import Asset
from infra.stack import TickworkStack

from tickwork.core.ledger.queues import KEY_REUSED_S
from tickwork.core.ledger.tables import ALL_TABLES
from tickwork.settings import ENVIRONMENTS, BadSetting

KEY = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
READ, WRITE = {"kms:Decrypt", "kms:DescribeKey"}, {"kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"}
SEND, TAKE = {"kms:Decrypt", "kms:GenerateDataKey"}, {"kms:Decrypt"}
USES: dict[str, dict[str, set[str]]] = {
    "api": {"dynamodb": READ | WRITE, "sqs": SEND, "sns": SEND},
    "authorizer": {"dynamodb": READ},
    "ticker": {"dynamodb": READ | WRITE, "sqs": SEND},
    "scanner": {"dynamodb": READ | WRITE, "sqs": SEND},
    "reconciler": {"dynamodb": READ | WRITE, "sqs": SEND},
    "pusher": {"dynamodb": READ | WRITE, "sqs": SEND},
    "watchdog": {"dynamodb": READ | WRITE, "sqs": SEND, "sns": SEND},
}


@pytest.fixture(scope="module")
def keyed(package: Asset) -> Template:
    environment = replace(ENVIRONMENTS["prod"], kms_key_arn=KEY)
    return Template.from_stack(TickworkStack(cdk.App(), "tickwork-prod", environment=environment, package=package))


def _properties(template: Template, kind: str) -> list[dict[str, Any]]:
    found = [one["Properties"] for one in template.find_resources(kind).values()]
    assert found
    return found


def _id_of(arn: object) -> bool:
    """Some resources take the ARN itself, others what follows from it: both name the key."""
    return KEY in json.dumps(arn) or KEY.rpartition("/")[2] in json.dumps(arn)


def test_everything_that_keeps_something_is_encrypted_with_the_key(keyed: Template) -> None:
    tables = _properties(keyed, "AWS::DynamoDB::GlobalTable")
    assert len(tables) == len(ALL_TABLES)
    for table in tables:
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
        assert all(_id_of(one["SSESpecification"]["KMSMasterKeyId"]) for one in table["Replicas"])
    for queue in _properties(keyed, "AWS::SQS::Queue"):
        assert _id_of(queue["KmsMasterKeyId"])
        assert queue["KmsDataKeyReusePeriodSeconds"] == KEY_REUSED_S
        assert "SqsManagedSseEnabled" not in queue
    for topic in _properties(keyed, "AWS::SNS::Topic"):
        assert _id_of(topic["KmsMasterKeyId"])
    groups = _properties(keyed, "AWS::Logs::LogGroup")
    assert len(groups) == len(USES) + 2, "one for each function, and for each door"
    for group in groups:
        assert group["KmsKeyId"] == KEY


def test_a_key_reused_by_sqs_is_within_what_sqs_allows() -> None:
    assert 60 <= KEY_REUSED_S <= 86_400


def _uses(statements: list[dict[str, Any]]) -> dict[str, set[str]]:
    """What of the key is allowed, by the service through which."""
    found: dict[str, set[str]] = {}
    for one in statements:
        actions = one["Action"] if isinstance(one["Action"], list) else [one["Action"]]
        if not any(action.startswith("kms:") for action in actions):
            continue
        assert one["Resource"] == KEY
        ((name, via),) = one["Condition"]["StringEquals"].items()
        service, region, domain = via["Fn::Join"][1]
        assert (name, region, domain) == ("kms:ViaService", {"Ref": "AWS::Region"}, ".amazonaws.com")
        assert service.removesuffix(".") not in found
        found[service.removesuffix(".")] = set(actions)
    return found


@pytest.mark.parametrize("name", USES)
def test_a_function_uses_the_key_for_what_it_does_and_nothing_else(keyed: Template, name: str) -> None:
    roles = keyed.find_resources("AWS::IAM::Role")
    (role,) = (one["Properties"] for logical_id, one in roles.items() if logical_id.startswith(f"Functions{name}Role"))
    assert _uses([s for policy in role["Policies"] for s in policy["PolicyDocument"]["Statement"]]) == USES[name]


def test_no_other_role_may_use_the_key(keyed: Template) -> None:
    using = {name for name, one in keyed.find_resources("AWS::IAM::Role").items() if KEY in json.dumps(one)}
    assert len(using) == len(USES)
    assert not keyed.find_resources("AWS::IAM::Policy"), "nothing has added a policy of its own"


def test_a_worker_may_read_its_messages_and_a_client_has_nothing_to_do_with_the_key(keyed: Template) -> None:
    for policy in _properties(keyed, "AWS::IAM::ManagedPolicy"):
        expected = {"sqs": TAKE} if "-worker-" in policy["ManagedPolicyName"] else {}
        assert _uses(policy["PolicyDocument"]["Statement"]) == expected


def test_the_api_knows_the_key_for_the_queues_and_topics_that_it_makes(keyed: Template) -> None:
    for function in _properties(keyed, "AWS::Lambda::Function"):
        assert function["Environment"]["Variables"]["TICKWORK_KMS_KEY_ARN"] == KEY


def test_alarms_may_publish_to_the_encrypted_topic_as_to_another(keyed: Template, prod: Template) -> None:
    assert _properties(keyed, "AWS::SNS::TopicPolicy") == _properties(prod, "AWS::SNS::TopicPolicy")


def test_without_a_key_no_template_speaks_of_one(template: Template) -> None:
    text = json.dumps(template.to_json())
    for word in ("kms:", "KmsMasterKeyId", "KmsKeyId", "KMSMasterKeyId"):
        assert word not in text
    for function in _properties(template, "AWS::Lambda::Function"):
        assert function["Environment"]["Variables"]["TICKWORK_KMS_KEY_ARN"] == ""


@pytest.mark.parametrize(
    "arn",
    [
        "alias/tickwork",
        "arn:aws:kms:eu-central-1:123456789012:alias/tickwork",
        KEY.rpartition("/")[2],
        f"{KEY}*",
        f"{KEY} ",
        "arn:aws:s3:eu-central-1:123456789012:key/1234",
    ],
)
def test_what_is_no_arn_of_a_key_is_refused(arn: str) -> None:
    with pytest.raises(BadSetting, match="KMS_KEY_ARN"):
        replace(ENVIRONMENTS["prod"], kms_key_arn=arn)


def test_a_key_of_many_regions_is_one(package: Asset) -> None:
    many = "arn:aws:kms:eu-central-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab"
    assert replace(ENVIRONMENTS["prod"], kms_key_arn=many).settings().kms_key_arn == many
