"""The three clocks of the service, from EventBridge Scheduler. Loose, and perhaps twice: their targets take that."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.functions import Functions

TICKER_RATE = "rate(1 minute)"
RECONCILER_RATE = "rate(5 minutes)"
WATCHDOG_RATE = "rate(1 minute)"


class Schedules(Construct):
    """`<prefix>-ticker` and `<prefix>-watchdog` each minute, `<prefix>-reconciler` every five, through roles that may
    invoke just these: the watchdog shares no fate with what it watches."""

    def __init__(self, scope: Construct, construct_id: str, *, prefix: str, functions: Functions) -> None:
        super().__init__(scope, construct_id)
        ticker, reconciler = functions.ticker.function, functions.reconciler.function
        watchdog = functions.watchdog.function
        role = self._may_invoke("Role", ticker, reconciler)
        self._schedule("Ticker", f"{prefix}-ticker", TICKER_RATE, ticker, role, event_age_max_s=60)
        self._schedule("Reconciler", f"{prefix}-reconciler", RECONCILER_RATE, reconciler, role, event_age_max_s=300)
        own = self._may_invoke("WatchdogRole", watchdog)
        self._schedule("Watchdog", f"{prefix}-watchdog", WATCHDOG_RATE, watchdog, own, event_age_max_s=60)

    def _may_invoke(self, construct_id: str, *functions: lambda_.Function) -> iam.Role:
        statement = iam.PolicyStatement(
            actions=["lambda:InvokeFunction"], resources=[one.function_arn for one in functions]
        )
        return iam.Role(
            self,
            construct_id,
            assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com"),
            inline_policies={"invoke": iam.PolicyDocument(statements=[statement])},
        )

    def _schedule(
        self,
        construct_id: str,
        name: str,
        rate: str,
        target: lambda_.Function,
        role: iam.Role,
        *,
        event_age_max_s: int,
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
                role_arn=role.role_arn,
                retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                    maximum_event_age_in_seconds=event_age_max_s, maximum_retry_attempts=3
                ),
            ),
        )
