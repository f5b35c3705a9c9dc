from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from tickwork.core.ledger.queues import AFTER_FUNCTION_S, READY_VISIBILITY_S, TICKS, ready
from tickwork.settings import ENVIRONMENTS, BadSetting

KIND = "AWS::SQS::Queue"


def _by_name(template: Template) -> dict[str, dict[str, Any]]:
    return {found["Properties"]["QueueName"]: found["Properties"] for found in template.find_resources(KIND).values()}


def test_ticks_and_every_pool_have_a_queue_and_a_dead_letter_queue(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        queues = [TICKS, *(ready(pool) for pool in ENVIRONMENTS[name].pools)]
        wanted = {f"tickwork-{name}-{part}" for queue in queues for part in (queue.name, queue.dlq_name)}
        assert set(_by_name(template)) == wanted


def test_a_queue_is_deployed_as_it_is_defined(prod: Template) -> None:
    found = _by_name(prod)
    for queue in (TICKS, ready("default"), ready("payments"), ready("push")):
        properties = found[f"tickwork-prod-{queue.name}"]
        assert properties["VisibilityTimeout"] == queue.visibility_s
        assert properties["MessageRetentionPeriod"] == queue.retention_s
        assert properties["RedrivePolicy"]["maxReceiveCount"] == queue.receives_max


def test_a_message_of_a_function_stays_hidden_until_the_function_has_ended(templates: dict[str, Template]) -> None:
    """An event source refuses a function with a longer timeout than its queue's visibility."""
    found = _by_name(templates["dev"])
    assert ENVIRONMENTS["dev"].lambda_pools == {"functions": 60}
    assert found["tickwork-dev-ready-functions"]["VisibilityTimeout"] == 60 + AFTER_FUNCTION_S
    assert found["tickwork-dev-ready-default"]["VisibilityTimeout"] == READY_VISIBILITY_S


@pytest.mark.parametrize("pools", [{"nowhere": 60}, {"push": 60}, {"default": 0}, {"default": 901}])
def test_a_pool_of_functions_that_cannot_be_is_refused(pools: dict[str, int]) -> None:
    with pytest.raises(BadSetting, match="lambda_pools"):
        replace(ENVIRONMENTS["prod"], lambda_pools=pools)


def test_a_tick_stays_hidden_as_long_as_the_scanner_may_run(template: Template) -> None:
    (scanner,) = template.find_resources(
        "AWS::Lambda::Function", {"Properties": {"Handler": "scanner.handler.handler"}}
    ).values()
    assert TICKS.visibility_s >= scanner["Properties"]["Timeout"]


def test_messages_are_encrypted_at_rest_and_only_travel_encrypted(template: Template) -> None:
    template.all_resources_properties(KIND, {"SqsManagedSseEnabled": True})
    refuse_plain = {
        "Effect": "Deny",
        "Principal": {"AWS": "*"},
        "Action": "sqs:*",
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    template.resource_count_is("AWS::SQS::QueuePolicy", len(_by_name(template)))
    template.all_resources_properties(
        "AWS::SQS::QueuePolicy",
        {"PolicyDocument": Match.object_like({"Statement": Match.array_with([Match.object_like(refuse_plain)])})},
    )


def test_only_a_local_endpoint_is_spoken_to_in_the_clear(local: Template) -> None:
    local.resource_count_is("AWS::SQS::QueuePolicy", 0)
