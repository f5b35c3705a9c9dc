"""Another CDK app puts the scheduler into a stack of its own: pools, limits and alarms by properties alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Match, Template
from infra.asset import Asset
from infra.construct import Tickwork, Wishes

from tickwork.ports import PUSH_POOL
from tickwork.settings import BadSetting, Environment

ACME = Environment(
    name="acme",
    shards=8,
    slices=4,
    pools=("billing", "mail", PUSH_POOL),
    retention_days=14,
    keep_data=False,
    log_retention_days=30,
    scanner_concurrency=6,
    reserved={"ticker": 2},
    alarms="all",
    pusher_concurrency=7,
    alarm_after_lag_s=45,
    alarm_after_ready_s=900,
    api_requests_per_s=25,
    api_requests_burst=40,
)


ECS = {"Statement": [{"Principal": {"Service": "ecs-tasks.amazonaws.com"}}]}


def acmes(package: Asset, **wishes: Any) -> Template:
    """A stack of somebody else's, with a role and a topic of their own."""
    stack = cdk.Stack(cdk.App(), "acme-platform")
    topic = sns.Topic(stack, "Pager", topic_name="acme-pager")
    scheduler = Tickwork(
        stack, "Scheduler", environment=ACME, package=package, wishes=Wishes(alarm_topic=topic, **wishes)
    )
    role = iam.Role(stack, "Billing", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    scheduler.parts.access.workers["billing"].attach_to_role(role)
    cdk.CfnOutput(stack, "Url", value=scheduler.parts.api.url)
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def acme(package: Asset) -> Template:
    return acmes(package, alarms_left_out={"api-5xx"})


def test_its_pools_and_limits_are_those_of_its_properties(acme: Template) -> None:
    for pool in ACME.pools:
        acme.has_resource_properties("AWS::SQS::Queue", {"QueueName": f"tickwork-acme-ready-{pool}"})
    limits = {"ThrottlingRateLimit": 25, "ThrottlingBurstLimit": 40}
    acme.has_resource_properties("AWS::ApiGatewayV2::Stage", {"DefaultRouteSettings": limits})
    acme.has_resource_properties("AWS::Lambda::EventSourceMapping", {"ScalingConfig": {"MaximumConcurrency": 7}})
    variables = {"TICKWORK_PREFIX": "tickwork-acme", "TICKWORK_SHARDS": "8", "TICKWORK_SLICES": "4"}
    acme.has_resource_properties(
        "AWS::Lambda::Function",
        {"FunctionName": "tickwork-acme-scanner", "Environment": {"Variables": Match.object_like(variables)}},
    )


def test_its_alarms_ring_its_own_pager_but_for_those_it_leaves_out(acme: Template) -> None:
    alarms = [one["Properties"] for one in acme.find_resources("AWS::CloudWatch::Alarm").values()]
    names = {one["AlarmName"] for one in alarms}
    assert {"tickwork-acme-fire-lag", "tickwork-acme-ready-billing-age"} <= names
    assert "tickwork-acme-api-5xx" not in names
    (topic,) = acme.find_resources("AWS::SNS::Topic")
    assert all(one["AlarmActions"] == [{"Ref": topic}] for one in alarms), "and no topic of ours beside it"
    (lag,) = [one for one in alarms if one["AlarmName"].endswith("fire-lag")]
    (ready,) = [one for one in alarms if one["AlarmName"].endswith("ready-billing-age")]
    assert (lag["Threshold"], ready["Threshold"]) == (45, 900)


def test_its_workers_role_gets_the_policy_of_their_pool(acme: Template) -> None:
    named = {"Properties": {"ManagedPolicyName": "tickwork-acme-worker-billing"}}
    policies = acme.find_resources("AWS::IAM::ManagedPolicy", named)
    (policy,) = policies
    (role,) = acme.find_resources("AWS::IAM::Role", {"Properties": {"AssumeRolePolicyDocument": ECS}})
    assert policies[policy]["Properties"]["Roles"] == [{"Ref": role}]


def test_an_alarm_that_does_not_exist_cannot_be_left_out(package: Asset) -> None:
    with pytest.raises(ValueError, match="no alarm is called fire-log"):
        acmes(package, alarms_left_out={"fire-log"})


def test_properties_that_do_not_fit_are_refused_before_anything_is_made() -> None:
    with pytest.raises(BadSetting, match="add 'push'"):
        replace(ACME, pools=("billing",))
    with pytest.raises(BadSetting, match="scanner_concurrency"):
        replace(ACME, scanner_concurrency=3)
    with pytest.raises(BadSetting, match="PREFIX"):
        replace(ACME, name="Acme")


def test_a_first_deployment_of_prod_can_be_taken_back_and_the_next_one_protects(package: Asset) -> None:
    from infra.app import build_app

    def tables(**context: str) -> tuple[cdk.Stack, list[dict[str, Any]]]:
        app = build_app(package=package, context={"env": "prod", **context})
        stack = app.node.find_child("tickwork-prod")
        return stack, [*Template.from_stack(stack).find_resources("AWS::DynamoDB::GlobalTable").values()]  # type: ignore[arg-type, return-value]

    for context, is_protected in (({"first": "true"}, False), ({}, True)):
        stack, found = tables(**context)
        assert stack.termination_protection is is_protected
        for table in found:
            assert table["Properties"]["Replicas"][0]["DeletionProtectionEnabled"] is is_protected
            assert table["DeletionPolicy"] == "RetainExceptOnCreate"
