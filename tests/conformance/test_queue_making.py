"""Queues of teams' pools, made by SQS calls: as moto and MiniStack answer them, and one flow over each."""

from __future__ import annotations

import itertools
import json
import os
from dataclasses import replace
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tickwork.aws.queue_making import SqsQueueMaker
from tickwork.aws.sqs import SqsSender
from tickwork.core.access.actors import LOCAL
from tickwork.core.access.pools import pool_id
from tickwork.core.access.teams import TeamContent
from tickwork.core.errors import InUse
from tickwork.core.instants import HOUR_MS
from tickwork.core.ledger.queues import AFTER_FUNCTION_S, KEY_REUSED_S, ready, ready_queue
from tickwork.flows.access import pools, teams
from tickwork.flows.jobs import retiring
from tickwork.ports import OutMessage

_numbers = itertools.count()


@pytest.fixture(params=["moto", "ministack"])
def sqs(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_clients")[1]


@pytest.fixture
def prefix() -> str:
    return f"pools-{os.getpid()}-{next(_numbers)}"


def test_a_queue_has_what_its_worker_needs_and_making_and_removing_it_again_do_nothing(sqs: Any, prefix: str) -> None:
    maker, queue = SqsQueueMaker(sqs, prefix), ready(pool_id("payments", "fast"), 120)
    assert maker.waiting(queue) == 0
    for _ in range(2):
        maker.make(queue)
    url = sqs.get_queue_url(QueueName=f"{prefix}-ready-payments_fast")["QueueUrl"]
    made = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    redrive = json.loads(made["RedrivePolicy"])
    assert made["VisibilityTimeout"] == str(120 + AFTER_FUNCTION_S)
    assert (int(redrive["maxReceiveCount"]), redrive["deadLetterTargetArn"].rpartition(":")[2]) == (
        queue.receives_max,
        f"{prefix}-ready-payments_fast-dlq",
    )
    for _ in range(2):
        maker.remove(queue)
    assert maker.waiting(queue) == 0
    assert not sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls")


def test_queues_that_a_crash_has_left_are_taken_for_a_pool_of_another_kind(sqs: Any, prefix: str) -> None:
    maker, pool = SqsQueueMaker(sqs, prefix), pool_id("payments", "fast")
    maker.make(ready(pool))
    maker.make(ready(pool, 300))
    url = sqs.get_queue_url(QueueName=f"{prefix}-ready-payments_fast")["QueueUrl"]
    made = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])["Attributes"]
    assert made["VisibilityTimeout"] == str(300 + AFTER_FUNCTION_S)


KEY = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def test_with_a_key_of_the_environment_both_queues_have_it_also_where_they_were_made_without(
    moto_clients: Any, prefix: str
) -> None:
    """MiniStack takes the attributes, and shows none."""
    sqs = moto_clients[1]
    queue = ready(pool_id("payments", "fast"))
    for before in (None, SqsQueueMaker(sqs, prefix)):
        if before is not None:
            before.make(queue)
        SqsQueueMaker(sqs, prefix, KEY).make(queue)
        for name in (queue.name, queue.dlq_name):
            url = sqs.get_queue_url(QueueName=f"{prefix}-{name}")["QueueUrl"]
            made = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            assert made["KmsMasterKeyId"] == KEY
            assert made["KmsDataKeyReusePeriodSeconds"] == str(KEY_REUSED_S)
        SqsQueueMaker(sqs, prefix).remove(queue)


def test_messages_are_counted_wherever_they_are(sqs: Any, prefix: str) -> None:
    maker, queue = SqsQueueMaker(sqs, prefix), ready(pool_id("payments", "fast"))
    maker.make(queue)
    SqsSender(sqs, prefix).send(ready_queue("payments_fast"), [OutMessage("a"), OutMessage("b"), OutMessage("c", 600)])
    url, dlq = (sqs.get_queue_url(QueueName=f"{prefix}-{name}")["QueueUrl"] for name in (queue.name, queue.dlq_name))
    sqs.send_message(QueueUrl=dlq, MessageBody="d")
    sqs.receive_message(QueueUrl=url, VisibilityTimeout=60)
    assert maker.waiting(queue) == 4


def test_the_longest_names_are_taken(sqs: Any) -> None:
    maker = SqsQueueMaker(sqs, f"p{os.getpid():039d}")
    queue = ready(pool_id("t" * 63, "n" * 40))
    maker.make(queue)
    maker.remove(queue)


def test_a_pool_is_made_shared_aimed_at_kept_and_deleted(sqs: Any, store: Any, prefix: str) -> None:
    """On every store: the transactions with shares, the marks in two places, and the closing that they can refuse."""
    ports = replace(fake_ports(store), queues=SqsQueueMaker(sqs, prefix))
    teams.put_team(ports, "payments", TeamContent(contact="ann"), None, LOCAL)
    asked = pools.Asked(shared_with=("shop", "web"))
    pool = pools.put_pool(ports, "payments", "fast", asked, None, LOCAL)
    assert pools.put_pool(ports, "payments", "fast", asked, None, LOCAL) == pool
    assert pools.list_pools(ports, "payments") == [pool]
    assert [one.owner for one in pools.list_shares(ports, "shop")] == ["payments"]
    assert pools.list_shares(ports, "sho") == []
    until_ms = ports.clock.now_ms() + HOUR_MS
    aims = [pools.may_aim(ports, team, pool.pool, until_ms) for team in ("payments", "shop", "web", "other")]
    assert aims == [True, True, True, False]
    changed = pools.put_pool(ports, "payments", "fast", pools.Asked(shared_with=("web",)), 1, LOCAL)
    assert (changed.shared_with, changed.shared_before) == (("web",), ("shop",))
    assert not pools.may_aim(ports, "shop", pool.pool, until_ms)
    with pytest.raises(InUse):
        retiring.delete_pool(ports, "payments", "fast", LOCAL)
    ports.clock.sleep_ms(2 * HOUR_MS)
    retiring.delete_pool(ports, "payments", "fast", LOCAL)
    assert pools.list_pools(ports, "payments") == pools.list_shares(ports, "web") == []
    assert not pools.may_aim(ports, "payments", pool.pool, until_ms)
