"""Pages by SNS, as moto and MiniStack answer them."""

from __future__ import annotations

import itertools
import os
from typing import Any

import boto3
import pytest

from tickwork.aws.paging import SnsPager

_numbers = itertools.count()
MAIL = ("email", "ann@example.org", "Test", "Nothing is wrong.")


@pytest.fixture(params=["moto", "ministack"])
def sns(request: pytest.FixtureRequest) -> Any:
    sqs = request.getfixturevalue(f"{request.param}_clients")[1]
    access = {"region_name": "us-east-1", "aws_access_key_id": "000000000000", "aws_secret_access_key": "test"}
    return boto3.client("sns", endpoint_url=None if request.param == "moto" else sqs.meta.endpoint_url, **access)


@pytest.fixture
def pager(sns: Any) -> SnsPager:
    return SnsPager(lambda: sns, f"pager-{os.getpid()}-{next(_numbers)}")


def test_a_topic_takes_a_message_and_one_that_is_not_there_says_so(sns: Any, pager: SnsPager) -> None:
    arn = sns.create_topic(Name=pager.topic_of("payments"))["TopicArn"]
    assert pager.page("payments", "topic", arn, "Test", "Nothing is wrong.").state == "proven"
    gone = pager.page("payments", "topic", f"{arn}-gone", "Test", "Nothing is wrong.")
    assert (gone.state, bool(gone.detail)) == ("failed", True)


def test_an_address_is_asked_once_and_counts_when_it_has_confirmed(sns: Any, pager: SnsPager) -> None:
    first = pager.page("payments", *MAIL)
    again = pager.page("payments", *MAIL)
    topic = sns.create_topic(Name=pager.topic_of("payments"))["TopicArn"]
    subscribed = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [(one["Protocol"], one["Endpoint"]) for one in subscribed] == [("email", "ann@example.org")]
    if subscribed[0]["SubscriptionArn"] == "PendingConfirmation":
        assert (first.state, again.state) == ("unconfirmed", "unconfirmed")
    else:  # moto confirms by itself
        assert (first.state, again.state) == ("unconfirmed", "proven")


def test_a_teams_topic_is_called_by_its_team(pager: SnsPager) -> None:
    names = {pager.topic_of(team) for team in ("a", "a-b", "a_b", "a.b", "x" * 63)}
    assert len(names) == 5
    assert all(len(name) <= 256 and name.replace("-", "").isalnum() for name in names)


def test_a_topic_that_is_made_for_an_address_has_the_key_of_the_environment_also_when_it_was_made_without(
    sns: Any,
) -> None:
    key = "arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    prefix = f"pager-{os.getpid()}-{next(_numbers)}"
    without, keyed = SnsPager(lambda: sns, prefix), SnsPager(lambda: sns, prefix, key)
    assert without.page("shop", "email", "ann@example.org", "a", "b").state != "failed"
    assert keyed.page("shop", "email", "ann@example.org", "a", "b").state != "failed"
    topics = sns.list_topics()["Topics"]
    (arn,) = [one["TopicArn"] for one in topics if one["TopicArn"].endswith(f":{without.topic_of('shop')}")]
    assert sns.get_topic_attributes(TopicArn=arn)["Attributes"]["KmsMasterKeyId"] == key
