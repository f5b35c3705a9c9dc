"""The one way to make a Lambda here: same package, same runtime, a role of its own, a log group of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra import key as own_key
from infra.asset import Asset
from infra.grants import Grants
from infra.queues import Queues
from infra.tables import Tables
from tickwork.core.ledger.tables import Table
from tickwork.ports import PUSH_POOL
from tickwork.settings import Environment

_RETENTION = {
    7: logs.RetentionDays.ONE_WEEK,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
}


class TickworkFunction(Construct):
    """A function `<prefix>-<name>` that runs `<name>.handler.handler` and may do what `grants` says, nothing more."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        environment: Environment,
        package: Asset,
        grants: Grants,
        tables: Tables,
        queues: Queues,
        secret: secretsmanager.ISecret | None = None,
        key: kms.IKey | None = None,
        variables: Mapping[str, str] | None = None,
        timeout_s: int,
        memory_mb: int,
        reserved_concurrency: int | None = None,
        description: str,
    ) -> None:
        super().__init__(scope, name)
        settings = environment.settings()
        function_name = f"{settings.prefix}-{name}"
        log_group = log_group_of(self, f"/aws/lambda/{function_name}", environment, key)
        allowed = [*_statements(grants, tables, queues, secret), *own_key.statements(key, grants)]
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {function_name} may do",
            inline_policies={
                "logs": iam.PolicyDocument(
                    statements=[_allow("logs", ("CreateLogStream", "PutLogEvents"), log_group.log_group_arn)]
                ),
                "grants": iam.PolicyDocument(statements=allowed),
            },
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=function_name,
            description=description,
            runtime=lambda_.Runtime.PYTHON_3_13,
            architecture=lambda_.Architecture.X86_64 if package.is_x86 else lambda_.Architecture.ARM_64,
            code=lambda_.Code.from_asset(str(package.directory)),
            handler=f"{name}.handler.handler",
            environment=settings.to_environ() | {"POWERTOOLS_LOG_LEVEL": "INFO"} | dict(variables or {}),
            role=role.without_policy_updates(),  # nothing but the above, whatever a construct may wish to add
            log_group=log_group,
            # Lambda's own lines of an invocation that went well are as long as ours, and say less: none of them. Those
            # of one that failed or ran out of time stay.
            logging_format=lambda_.LoggingFormat.JSON,
            application_log_level_v2=lambda_.ApplicationLogLevel.INFO,
            system_log_level_v2=lambda_.SystemLogLevel.WARN,
            timeout=cdk.Duration.seconds(timeout_s),
            memory_size=memory_mb,
            reserved_concurrent_executions=reserved_concurrency,
        )


def log_group_of(scope: Construct, name: str, environment: Environment, key: kms.IKey | None) -> logs.LogGroup:
    return logs.LogGroup(
        scope,
        "Logs",
        log_group_name=name,
        retention=_RETENTION[environment.log_retention_days],
        encryption_key=key,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )


def _statements(
    grants: Grants, tables: Tables, queues: Queues, secret: secretsmanager.ISecret | None
) -> Iterator[iam.PolicyStatement]:
    for table, actions in grants.tables.items():
        yield _allow("dynamodb", actions, tables.by_name[table.name].table_arn)
    for (table, index), actions in grants.indexes.items():
        yield _allow("dynamodb", actions, _index_arn(tables, table, index.name))
    if grants.ticks:
        yield _allow("sqs", grants.ticks, queues.ticks.queue_arn)
    if grants.ready:
        yield _allow("sqs", grants.ready, *(queue.queue_arn for queue in queues.ready.values()), queues.of_teams_arn)
    if grants.leased:
        of_workers = (queue.queue_arn for queue in queues.of_workers.values())
        yield _allow("sqs", grants.leased, *of_workers, queues.of_teams_arn)
    if grants.pushed:
        yield _allow("sqs", grants.pushed, queues.ready[PUSH_POOL].queue_arn)
    if grants.made:
        yield _allow("sqs", grants.made, queues.of_teams_arn)
    if grants.paged:
        yield _allow("sns", grants.paged, queues.teams_topics_arn)
    if grants.secret and secret is not None:
        yield _allow("secretsmanager", grants.secret, secret.secret_arn)


def _index_arn(tables: Tables, table: Table, index: str) -> str:
    return f"{tables.by_name[table.name].table_arn}/index/{index}"


def _allow(service: str, actions: tuple[str, ...], *resources: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(actions=[f"{service}:{action}" for action in actions], resources=list(resources))
