"""One alarm for real, as far as a local endpoint can: a datum, the synthesised alarm, the topic, a message in a queue.

What the endpoint does not do: it makes no metric of an embedded line, so the datum is put; it evaluates an alarm only
when a datum comes; and it lets an alarm publish whatever the topic's policy says. The policy is asserted on the
template, and the minutes are the evaluator's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_cdk.assertions import Template

from tests.support.pager import Pager
from tickwork.local.endpoint import Endpoint, default_python

PREFIX = "tickwork-dev"
REGION = "us-east-1"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not default_python().exists():
        pytest.skip("MiniStack is not installed: `make setup` creates its environment in .venv-ministack")
    with Endpoint(roles_enforced=True, log=tmp_path_factory.mktemp("endpoint") / "log") as running:
        yield running.url


def _client(endpoint: str, service: str) -> Any:
    return boto3.client(
        service,  # type: ignore[call-overload]
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


def _put_synthesised(local: Template, cloudwatch: Any, topic_arn: str, name: str) -> None:
    """The alarm as the template has it, its topic by its address."""
    ((_, found),) = local.find_resources("AWS::CloudWatch::Alarm", {"Properties": {"AlarmName": name}}).items()
    given = {key: value for key, value in found["Properties"].items() if key != "Tags"}
    cloudwatch.put_metric_alarm(**given | {"AlarmActions": [topic_arn], "OKActions": [topic_arn]})


def test_what_needs_attention_reaches_a_subscribed_queue(local: Template, endpoint: str, tmp_path: Path) -> None:
    def client(service: str) -> Any:
        return _client(endpoint, service)

    ((_, topic),) = local.find_resources("AWS::SNS::Topic").items()
    topic_arn = client("sns").create_topic(Name=topic["Properties"]["TopicName"])["TopicArn"]
    _put_synthesised(local, client("cloudwatch"), topic_arn, f"{PREFIX}-attention")
    pager = Pager(client, topic_arn, "pager")
    pager.say(PREFIX, 1)
    heard = pager.hears()
    assert (heard["AlarmName"], heard["NewStateValue"]) == (f"{PREFIX}-attention", "ALARM")
    assert heard["Trigger"]["MetricName"] == "service.attention_total"
