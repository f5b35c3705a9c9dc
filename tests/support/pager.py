"""A queue that listens to the topic of alarms, and one alarm set off by what a function says of itself."""

from __future__ import annotations

import json
import time
from typing import Any

from tickwork.aws.common_metrics import ATTENTION, EVERYWHERE

HEARD_WITHIN_S = 20


class Pager:
    """Subscribed to a topic as a team's pager would be. `client` makes a client of a service."""

    def __init__(self, client: Any, topic_arn: str, name: str) -> None:
        self._sqs, self._cloudwatch, sns = client("sqs"), client("cloudwatch"), client("sns")
        self._url = self._sqs.create_queue(QueueName=name)["QueueUrl"]
        arn = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        self._sqs.set_queue_attributes(QueueUrl=self._url, Attributes={"Policy": _topic_may_send(arn, topic_arn)})
        sns.subscribe(TopicArn=topic_arn, Protocol="sqs", Endpoint=arn)

    def say(self, namespace: str, value: int) -> None:
        """What CloudWatch makes of the embedded line of `PowertoolsSignals`; a local endpoint makes nothing of it."""
        datum = {
            "MetricName": ATTENTION,
            "Dimensions": [{"Name": "service", "Value": EVERYWHERE}],
            "Value": value,
            "Unit": "Count",
        }
        self._cloudwatch.put_metric_data(Namespace=namespace, MetricData=[datum])

    def hears(self) -> dict[str, Any]:
        """The next message about an alarm: its name, its state, and why."""
        until = time.monotonic() + HEARD_WITHIN_S
        while time.monotonic() < until:
            answer = self._sqs.receive_message(QueueUrl=self._url, WaitTimeSeconds=2)
            for message in answer.get("Messages", []):
                self._sqs.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
                return dict(json.loads(json.loads(message["Body"])["Message"]))
        raise AssertionError(f"no alarm was heard within {HEARD_WITHIN_S} s")


def _topic_may_send(queue_arn: str, topic_arn: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": queue_arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": topic_arn}},
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})
