"""The alarms that mean "somebody must look", all to one topic. Ten cents a month each on AWS's price list.

Two owners: the service's own alarms page the platform; those of a pool and `teams-attention` concern a team. Each alarm
is one metric without metric math; failures share one where the first command of its entry in docs/operations.md says
which it is, and no failure has two: what another alarm hears within some minutes has none of its own (decision 135).
`dev` has those without which a failure of the whole would go unheard, the other environments all.

An alarm is evaluated each minute over the window that ends then, so a long period costs no time: what breaches in it is
heard at once. Silence is heard later: CloudWatch looks a few periods further back than it evaluates for data before it
takes any as missing, and so silence is measured in short periods.
"""

from __future__ import annotations

from collections.abc import Collection

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.alarm import NOTHING_IS_BAD, NOTHING_SAYS_NOTHING, Bell
from infra.functions import Functions
from infra.http_api import Api, KeyApi
from infra.queues import Queues
from tickwork.aws.common_metrics import ATTENTION, EVERYWHERE, STRAIN, TEAMS_ATTENTION
from tickwork.ports import PUSH_POOL
from tickwork.settings import Environment

_MINUTE = cdk.Duration.minutes(1)
_FIVE_MINUTES = cdk.Duration.minutes(5)
_QUARTER = cdk.Duration.minutes(15)
"""As long as three passes of the reconciler: what each of them finds again keeps its alarm on."""
_LOOKS = {PUSH_POOL: "the platform"}
API_5XX_MAX = 5
"""Server errors in five minutes that clients ride out by their own retries."""
TICKER_SILENT_MIN = 5
"""It runs each minute, loosely: two runs may lie more than a minute apart, five minutes without one is no chance."""
RECONCILER_SILENT_MIN = 15
"""It starts every five minutes and may take all of them, and its figure has the time of its start: that of the last
good pass is up to eleven minutes old when the next one ends."""
WATCHDOG_SILENT_MIN = 10
"""It starts each minute, loosely. What it could not judge fails its pass, too: a table that is busy for some minutes is
told by other alarms, and by this one when it goes on."""
SLICE_LAG_MAX_S = 180
"""An idle slice lags by up to a minute of keep-alive, as the ticker sees it; from a minute on the ticker wakes it anew
each time. Three minutes mean that waking does not help."""

HANDLER_MISSING_OF = (10, 12)
"""Of periods of five minutes, which is as long as a worker hides such a message: no rollout takes an hour, and one that
ends in between is silent."""


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
        key_api: KeyApi,
        local: bool = False,
        topic: sns.ITopic | None = None,
        left_out: Collection[str] = (),
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        prefix = environment.settings().prefix
        self._bell = Bell(self, prefix=prefix, local=local, topic=topic, left_out=left_out, key=key)
        self.topic = self._bell.topic
        self._unheard_otherwise(functions, api, key_api)
        if environment.alarms == "all":
            self._firing(functions, queues, environment.alarm_after_lag_s)
            self._teams(queues, environment.alarm_after_ready_s)
        self._bell.check_left_out()

    def _unheard_otherwise(self, functions: Functions, api: Api, key_api: KeyApi) -> None:
        self._bell.alarm(
            "ticker-silent",
            self._bell.own("scheduler.slowest_slice_lag_seconds", "ticker", "SampleCount", _MINUTE),
            below=1,
            of=(TICKER_SILENT_MIN, TICKER_SILENT_MIN),
            missing=NOTHING_IS_BAD,
            what="The ticker has not finished a run for five minutes: nothing new will fire",
        )
        self._bell.alarm(
            "slice-stands",
            self._bell.own("scheduler.slowest_slice_lag_seconds", "ticker", "Maximum", _MINUTE),
            above=SLICE_LAG_MAX_S,
            of=(2, 3),
            missing=NOTHING_SAYS_NOTHING,
            what="The cursor of a slice stands still: what is due in it fires late",
        )
        # Errors of a function have a value, 0, for an invocation that went well: that alone ends this alarm. One that
        # fails, one that runs out of time and one that never was are the same to it, and AWS charges nothing for it.
        self._bell.alarm(
            "reconciler-silent",
            functions.reconciler.function.metric_errors(period=_MINUTE, statistic="Sum"),
            above=0,
            of=(RECONCILER_SILENT_MIN, RECONCILER_SILENT_MIN),
            missing=NOTHING_IS_BAD,
            what="No pass of the reconciler has come to a good end for a quarter of an hour: nothing is repaired",
        )
        self._bell.alarm(
            "watchdog-silent",
            functions.watchdog.function.metric_errors(period=_MINUTE, statistic="Sum"),
            above=0,
            of=(WATCHDOG_SILENT_MIN, WATCHDOG_SILENT_MIN),
            missing=NOTHING_IS_BAD,
            what="No pass of the watchdog has come to a good end for ten minutes: no owner hears of a silent job",
        )
        self._bell.alarm(
            "attention",
            self._bell.own(ATTENTION, EVERYWHERE, "Sum", _QUARTER),
            above=0,
            what="Something was set aside, parked, unreadable, overdue, foreign or a fault of ours: the log says which",
        )
        self._bell.alarm(
            "strain",
            self._bell.own(STRAIN, EVERYWHERE, "Sum", _MINUTE),
            above=0,
            of=(3, 5),
            what="Store, queues or chains refuse again and again: the log says which",
        )
        self._bell.alarm(
            "api-5xx",
            api.http_api.metric_server_error(period=_FIVE_MINUTES, statistic="Sum"),
            above=API_5XX_MAX,
            what="The API answers with server errors",
        )
        # An authorizer that fails, or is not run for lack of concurrency, is a server error of its door too.
        self._bell.alarm(
            "key-api-5xx",
            key_api.http_api.metric_server_error(period=_FIVE_MINUTES, statistic="Sum"),
            above=API_5XX_MAX,
            what="Who shows a key is answered with server errors: by the authorizer, or by the API behind it",
        )

    def _firing(self, functions: Functions, queues: Queues, lag_max_s: int) -> None:
        self._bell.alarm(
            "ticks-dlq",
            queues.ticks_dlq.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum"),
            above=0,
            what="Ticks that no scanner could serve",
        )
        self._bell.alarm(
            "fire-lag",
            self._bell.own("scheduler.fire_lag_seconds", "scanner", "p99", _MINUTE),
            above=lag_max_s,
            of=(3, 3),
            what="Timers fire later than promised",
        )
        # A timeout counts as an error. So does each of the two repetitions that Lambda makes of a failed invocation.
        self._bell.alarm(
            "pusher-errors",
            functions.pusher.function.metric_errors(period=_MINUTE, statistic="Sum"),
            above=0,
            of=(3, 5),
            what="The pusher fails again and again (can it read its secret?): pushes wait",
        )

    def _teams(self, queues: Queues, ready_max_s: int) -> None:
        self._bell.alarm(
            "teams-attention",
            self._bell.own(TEAMS_ATTENTION, EVERYWHERE, "Sum", _QUARTER),
            above=0,
            what="A run that must not run twice was not repeated, one hangs or expired, or a push target is left alone",
        )
        self._bell.alarm(
            "handler-missing",
            self._bell.own("runs.unhandled_total", "api", "Sum", _FIVE_MINUTES),
            above=0,
            of=HANDLER_MISSING_OF,
            what="For an hour workers have been refusing runs whose handler they lack: does any have it?",
        )
        for pool, dlq in queues.ready_dlqs.items():
            self._bell.alarm(
                f"ready-{pool}-dlq",
                dlq.metric_approximate_number_of_messages_visible(period=_FIVE_MINUTES, statistic="Maximum"),
                above=0,
                what=f"Messages of pool {pool} were received over and over: {_LOOKS.get(pool, 'its team')} looks at it",
            )
        for pool, ready in queues.ready.items():
            self._bell.alarm(
                f"ready-{pool}-age",
                ready.metric_approximate_age_of_oldest_message(period=_MINUTE, statistic="Maximum"),
                above=ready_max_s,
                of=(2, 2),
                what=f"Runs of pool {pool} wait: {_LOOKS.get(pool, 'its team')} looks at its workers",
            )
