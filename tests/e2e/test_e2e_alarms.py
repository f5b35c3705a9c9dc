"""An alarm of the deployed stack, through its topic, in the queue of somebody who subscribed."""

from __future__ import annotations

from localstack.deployment import Deployment

from tests.support.pager import Pager


def test_an_alarm_of_the_stack_reaches_who_has_subscribed(deployment: Deployment) -> None:
    pager = Pager(deployment.client, deployment.outputs["AlarmTopicArn"], "e2e-pager")
    pager.say(deployment.settings.prefix, 1)
    heard = pager.hears()
    assert (heard["AlarmName"], heard["NewStateValue"]) == (f"{deployment.settings.prefix}-attention", "ALARM")
