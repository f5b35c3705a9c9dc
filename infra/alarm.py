"""The topic that all alarms of an environment go to, who may publish to it, and the one way to make an alarm."""

from __future__ import annotations

from collections.abc import Collection

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

NOTHING_IS_GOOD = cloudwatch.TreatMissingData.NOT_BREACHING
NOTHING_IS_BAD = cloudwatch.TreatMissingData.BREACHING
NOTHING_SAYS_NOTHING = cloudwatch.TreatMissingData.IGNORE
"""It stays as it was: that nothing is said at all has an alarm of its own."""


class Bell:
    """Topic and alarms stand directly in `scope`. `local`: an endpoint that speaks plain HTTP, and would refuse itself
    by the topic's Deny."""

    def __init__(
        self,
        scope: Construct,
        *,
        prefix: str,
        local: bool,
        topic: sns.ITopic | None = None,
        left_out: Collection[str] = (),
        key: kms.IKey | None = None,
    ) -> None:
        self._scope, self._prefix = scope, prefix
        self._left_out, self._unknown = frozenset(left_out), set(left_out)
        self.topic = topic or self._own_topic(key, local=local)

    def _own_topic(self, key: kms.IKey | None, *, local: bool) -> sns.Topic:
        # Without a key of the environment's not encrypted by any: AWS's own key for SNS lets no alarm publish, and one
        # of ours costs a dollar a month for texts that say no more than infra/alarms.py does (decision 85).
        name = f"{self._prefix}-alarms"
        topic = sns.Topic(self._scope, "Topic", topic_name=name, master_key=key, enforce_ssl=not local)
        topic.add_to_resource_policy(self._alarms_may_publish(topic))
        return topic

    def check_left_out(self) -> None:
        """An alarm that is to be left out, and is none, is a slip of the pen: the one that was meant would sound."""
        if self._unknown:
            raise ValueError(f"no alarm is called {', '.join(sorted(self._unknown))}: docs/deploy.md lists them")

    def _alarms_may_publish(self, topic: sns.Topic) -> iam.PolicyStatement:
        """The alarms of this environment and of this account alone. A topic that has a policy has no other: without
        this statement, the TLS rule is all there is, and no alarm reaches anybody."""
        stack = cdk.Stack.of(self._scope)
        alarms = stack.format_arn(
            service="cloudwatch",
            resource="alarm",
            resource_name=f"{self._prefix}-*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        return iam.PolicyStatement(
            sid="AlarmsMayPublish",
            principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
            actions=["sns:Publish"],
            resources=[topic.topic_arn],
            conditions={
                "StringEquals": {"aws:SourceAccount": stack.account},
                "ArnLike": {"aws:SourceArn": alarms},
            },
        )

    def own(self, name: str, service: str, statistic: str, period: cdk.Duration) -> cloudwatch.Metric:
        """A metric that the functions write into their logs in the embedded format."""
        return cloudwatch.Metric(
            namespace=self._prefix,
            metric_name=name,
            dimensions_map={"service": service},
            statistic=statistic,
            period=period,
        )

    def alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        *,
        what: str,
        above: float | None = None,
        below: float | None = None,
        of: tuple[int, int] = (1, 1),
        missing: cloudwatch.TreatMissingData = NOTHING_IS_GOOD,
    ) -> None:
        """`above` or `below` this, in so many `of` so many periods, it sounds; and says so again when it is over."""
        if name in self._left_out:
            self._unknown.discard(name)
            return
        comparison = cloudwatch.ComparisonOperator
        times, periods = of
        alarm = cloudwatch.Alarm(
            self._scope,
            name,
            alarm_name=f"{self._prefix}-{name}",
            alarm_description=what,
            metric=metric,
            threshold=above if above is not None else below or 0,
            comparison_operator=(
                comparison.GREATER_THAN_THRESHOLD if above is not None else comparison.LESS_THAN_THRESHOLD
            ),
            evaluation_periods=periods,
            datapoints_to_alarm=times,
            treat_missing_data=missing,
        )
        action = actions.SnsAction(self.topic)
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)
