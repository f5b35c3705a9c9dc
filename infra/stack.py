"""One environment as one stack: the construct, its outputs and its protections.

One stack, not a data and a service stack: the parts refer to each other by exact ARNs, and exports between stacks
would make every change of a table a deployment in two steps. What must outlive a mistake (tables, queues) is kept by
its removal policy, deletion protection and the stack's own termination protection.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.asset import Asset
from infra.construct import Wishes, compose
from tickwork.settings import Environment


class TickworkStack(cdk.Stack):
    """`local` leaves out the few things that an endpoint on this machine cannot do, `first` the protections that a
    first deployment would fail to take back; see docs/deploy.md."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        package: Asset,
        first: bool = False,
        local: bool = False,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            description=f"tickwork, a job scheduler: the {environment.name} environment",
            synthesizer=cdk.CliCredentialsStackSynthesizer() if local else None,
            termination_protection=environment.keep_data and not first and not local,
        )
        cdk.Tags.of(self).add("service", "tickwork")
        cdk.Tags.of(self).add("environment", environment.name)
        parts = compose(self, environment, package, Wishes(first=first, local=local))
        prefix = environment.settings().prefix
        cdk.CfnOutput(self, "ApiUrl", value=parts.api.url, description="Sign requests with SigV4 for execute-api")
        cdk.CfnOutput(self, "KeyApiUrl", value=parts.key_api.url, description="Show an API key as a bearer token")
        cdk.CfnOutput(self, "Prefix", value=prefix, description="Begins the name of every table and queue")
        cdk.CfnOutput(
            self, "AlarmTopicArn", value=parts.alarms.topic.topic_arn, description="Subscribe the platform's pager"
        )
        cdk.CfnOutput(self, "PushSecretArn", value=parts.secret.secret_arn, description="What pushes are signed with")
        for pool, queue in parts.queues.ready.items():
            cdk.CfnOutput(self, f"ReadyQueue{pool.title().replace('-', '')}", value=queue.queue_url)
        if package.warning and not local:
            cdk.Annotations.of(self).add_warning_v2("tickwork:asset", package.warning)
