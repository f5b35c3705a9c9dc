"""The few alarms that mean "somebody must look", all to one topic. Ten cents a month each on AWS's price list.

Two owners: the service's own alarms page the platform; a message in a pool's dead-letter queue concerns its team.
No metric math: each alarm is one metric, and reads as what it says.
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.functions import Functions
from infra.http_api import Api
from infra.queues import Queues
from tickwork.aws.signals import NAMESPACE
from tickwork.core.dispatch.slices import TICK_HORIZON_S
from tickwork.core.ledger.keys import BUCKET_S
from tickwork.ports import PUSH_POOL
from tickwork.settings import Environment

_MINUTE = cdk.Duration.minutes(1)
_FIVE_MINUTES = cdk.Duration.minutes(5)
UNSAFE_COUNTED_BY = ("api", "pusher")
_LOOKS = {PUSH_POOL: "the platform"}
API_5XX_MAX = 5
"""Server errors in five minutes that clients ride out by their own retries."""


class Alarms(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        functions: Functions,
        queues: Queues,
        api: Api,
    ) -> None:
        super().__init__(scope, construct_id)
        self._prefix = environment.settings().prefix
        self.topic = sns.Topic(self, "Topic", topic_name=f"{self._prefix}-alarms", enforce_ssl=True)
        self._firing(functions, queues, environment.alarm_after_lag_s)
        self._standing(functions, api)
        for pool, dlq in queues.ready_dlqs.items():
            self._alarm(
                f"ready-{pool}-dlq",
                dlq.metric_approximate_number_of_messages_visible(period=_FIVE_MINUTES, statistic="Maximum"),
                above=0,
                what=f"Messages of pool {pool} were received over and over: {_LOOKS.get(pool, 'its team')} looks at it",
            )
        self._pushing(functions)
        # Counted by whoever ends an attempt, and each function counts under its own name.
        for service in UNSAFE_COUNTED_BY:
            self._alarm(
                f"unsafe-not-repeated-{service}",
                _own_metric("runs.unsafe_not_repeated_total", service, "Sum", _FIVE_MINUTES),
                above=0,
                what="A run that must not run twice failed or was lost, and was not repeated: see how far it came",
            )

    def _firing(self, functions: Functions, queues: Queues, lag_max_s: int) -> None:
        scanner = functions.scanner.function
        self._alarm(
            "scanner-errors",
            scanner.metric_errors(period=_MINUTE, statistic="Sum"),
            above=0,
            periods=3,
            what="The scanner fails again and again: timers fire late",
        )
        self._alarm(
            "scanner-throttles",
            scanner.metric_throttles(period=_MINUTE, statistic="Sum"),
            above=0,
            periods=3,
            what="Scanners are refused for lack of concurrency: raise scanner_concurrency or the account's limit",
        )
        self._alarm(
            "ticks-dlq",
            queues.ticks_dlq.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum"),
            above=0,
            what="Ticks that no scanner could serve",
        )
        # A tick is sent up to its horizon (to the end of that minute) ahead of its time; its age counts from then.
        self._alarm(
            "ticks-age",
            queues.ticks.metric_approximate_age_of_oldest_message(period=_MINUTE, statistic="Maximum"),
            above=TICK_HORIZON_S + BUCKET_S + lag_max_s,
            periods=2,
            what="Ticks wait unserved: timers fire late",
        )
        self._alarm(
            "fire-lag",
            _own_metric("scheduler.fire_lag_seconds", "scanner", "p99", _MINUTE),
            above=lag_max_s,
            periods=3,
            what="Timers fire later than promised",
        )

    def _pushing(self, functions: Functions) -> None:
        self._alarm(
            "pusher-errors",
            functions.pusher.function.metric_errors(period=_MINUTE, statistic="Sum"),
            above=0,
            periods=3,
            what="The pusher fails again and again (can it read its secret?): pushes wait",
        )
        self._alarm(
            "push-breaker-opened",
            _own_metric("push.breaker_opened_total", "pusher", "Sum", _FIVE_MINUTES),
            above=0,
            what="A push target failed five times in a row and is left alone: the log names it; its team looks at it",
        )

    def _standing(self, functions: Functions, api: Api) -> None:
        self._alarm(
            "ticker-silent",
            functions.ticker.function.metric_invocations(period=_FIVE_MINUTES, statistic="Sum"),
            below=1,
            missing=cloudwatch.TreatMissingData.BREACHING,
            what="The ticker has not run for five minutes: nothing will fire",
        )
        self._alarm(
            "without-next-timer",
            _own_metric("scheduler.definitions_without_next_timer", "reconciler", "Maximum", _FIVE_MINUTES),
            above=0,
            what="A recurring job had lost its next timer; the reconciler has repaired it, find out why",
        )
        self._alarm(
            "api-5xx",
            api.http_api.metric_server_error(period=_FIVE_MINUTES, statistic="Sum"),
            above=API_5XX_MAX,
            what="The API answers with server errors",
        )

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        *,
        what: str,
        above: float | None = None,
        below: float | None = None,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> None:
        """`above` or `below` this, in each of `periods`, it sounds; and says so again when it is over."""
        comparison = cloudwatch.ComparisonOperator
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"{self._prefix}-{name}",
            alarm_description=what,
            metric=metric,
            threshold=above if above is not None else below or 0,
            comparison_operator=(
                comparison.GREATER_THAN_THRESHOLD if above is not None else comparison.LESS_THAN_THRESHOLD
            ),
            evaluation_periods=periods,
            treat_missing_data=missing,
        )
        action = actions.SnsAction(self.topic)
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)


def _own_metric(name: str, service: str, statistic: str, period: cdk.Duration) -> cloudwatch.Metric:
    """A metric that the functions write into their logs in the embedded format."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={"service": service},
        statistic=statistic,
        period=period,
    )
