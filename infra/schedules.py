"""The two clocks of the service, from EventBridge Scheduler. Loose, and perhaps twice: both targets take that."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.functions import Functions

TICKER_RATE = "rate(1 minute)"
RECONCILER_RATE = "rate(5 minutes)"


class Schedules(Construct):
    """`<prefix>-ticker` each minute, `<prefix>-reconciler` every five, through a role that may invoke just these."""

    def __init__(self, scope: Construct, construct_id: str, *, prefix: str, functions: Functions) -> None:
        super().__init__(scope, construct_id)
        ticker, reconciler = functions.ticker.function, functions.reconciler.function
        self._role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com"),
            inline_policies={
                "invoke": iam.PolicyDocument(
                    statements=[
                        iam.PolicyStatement(
                            actions=["lambda:InvokeFunction"],
                            resources=[ticker.function_arn, reconciler.function_arn],
                        )
                    ]
                )
            },
        )
        self._schedule("Ticker", f"{prefix}-ticker", TICKER_RATE, ticker, event_age_max_s=60)
        self._schedule("Reconciler", f"{prefix}-reconciler", RECONCILER_RATE, reconciler, event_age_max_s=300)

    def _schedule(
        self, construct_id: str, name: str, rate: str, target: lambda_.Function, *, event_age_max_s: int
    ) -> None:
        """An invocation that could not be delivered within a period is dropped: the next one does all its work."""
        scheduler.CfnSchedule(
            self,
            construct_id,
            name=name,
            schedule_expression=rate,
            flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
            target=scheduler.CfnSchedule.TargetProperty(
                arn=target.function_arn,
                role_arn=self._role.role_arn,
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=event_age_max_s, maximum_retry_attempts=3
                ),
            ),
        )
