"""One environment as one stack. It only composes.

One stack, not a data and a service stack: the parts refer to each other by exact ARNs, and exports between stacks
would make every change of a table a deployment in two steps. What must outlive a mistake (tables, queues) is kept by
its removal policy, deletion protection and the stack's own termination protection.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from infra.access import Access
from infra.alarms import Alarms
from infra.asset import Asset
from infra.functions import Functions
from infra.http_api import Api
from infra.queues import Queues
from infra.schedules import Schedules
from infra.secrets import PushSecret
from infra.tables import Tables
from tickwork.settings import Environment


class TickworkStack(cdk.Stack):
    """`local` leaves out the few things that an endpoint on this machine cannot do; see docs/deploy.md."""

    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, package: Asset, local: bool = False
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            description=f"tickwork, a job scheduler: the {environment.name} environment",
            synthesizer=cdk.CliCredentialsStackSynthesizer() if local else None,
            termination_protection=environment.keep_data and not local,
        )
        cdk.Tags.of(self).add("service", "tickwork")
        cdk.Tags.of(self).add("environment", environment.name)
        settings = environment.settings()
        tables = Tables(self, "Tables", prefix=settings.prefix, keep_data=environment.keep_data)
        queues = Queues(
            self,
            "Queues",
            prefix=settings.prefix,
            pools=environment.pools,
            lambda_pools=environment.lambda_pools,
            keep_data=environment.keep_data,
            enforce_ssl=not local,
        )
        secret = PushSecret(self, "PushSecret", prefix=settings.prefix, keep_data=environment.keep_data).secret
        functions = Functions(
            self, "Functions", environment=environment, package=package, tables=tables, queues=queues, secret=secret
        )
        api = Api(self, "Api", environment=environment, function=functions.api.function)
        Schedules(self, "Schedules", prefix=settings.prefix, functions=functions)
        Access(self, "Access", prefix=settings.prefix, api=api, queues=queues)
        alarms = Alarms(
            self, "Alarms", environment=environment, functions=functions, queues=queues, api=api, local=local
        )

        cdk.CfnOutput(self, "ApiUrl", value=api.url, description="Sign requests with SigV4 for execute-api")
        cdk.CfnOutput(self, "Prefix", value=settings.prefix, description="Begins the name of every table and queue")
        cdk.CfnOutput(self, "AlarmTopicArn", value=alarms.topic.topic_arn, description="Subscribe the platform's pager")
        cdk.CfnOutput(self, "PushSecretArn", value=secret.secret_arn, description="What pushes are signed with")
        for pool, queue in queues.ready.items():
            cdk.CfnOutput(self, f"ReadyQueue{pool.title().replace('-', '')}", value=queue.queue_url)
        if package.warning and not local:
            cdk.Annotations.of(self).add_warning_v2("tickwork:asset", package.warning)
