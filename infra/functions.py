"""The four functions: api, ticker, scanner, reconciler; and the event source that feeds ticks to the scanner."""

from __future__ import annotations

from functools import partial

from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import grants
from infra.asset import Asset
from infra.function import TickworkFunction
from infra.queues import Queues
from infra.tables import Tables
from tickwork.core.queues import SCANNER_TIMEOUT_S
from tickwork.settings import Environment

API_TIMEOUT_S = 28
"""Under the 30 s after which API Gateway gives up on an integration."""
TICKER_TIMEOUT_S = 55
"""Under its period: a ticker that hangs does not meet its successor."""
RECONCILER_TIMEOUT_S = 290
TICKS_PER_BATCH = 10
"""The most that needs no batching window: a tick is never held back to fill a batch."""


class Functions(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        package: Asset,
        tables: Tables,
        queues: Queues,
    ) -> None:
        super().__init__(scope, construct_id)
        make = partial(TickworkFunction, self, environment=environment, package=package, tables=tables, queues=queues)
        self.api = make(
            "api",
            grants=grants.API,
            timeout_s=API_TIMEOUT_S,
            memory_mb=1_024,
            description="The HTTP API: jobs, timers, runs, and the workers' calls",
        )
        self.ticker = make(
            "ticker",
            grants=grants.TICKER,
            timeout_s=TICKER_TIMEOUT_S,
            memory_mb=512,
            description="Each minute: issues the ticks of the minutes ahead",
        )
        self.scanner = make(
            "scanner",
            grants=grants.SCANNER,
            timeout_s=SCANNER_TIMEOUT_S,
            memory_mb=1_024,
            reserved_concurrency=environment.scanner_concurrency,
            description="For each tick: fires what is due in a slice",
        )
        self.reconciler = make(
            "reconciler",
            grants=grants.RECONCILER,
            timeout_s=RECONCILER_TIMEOUT_S,
            memory_mb=512,
            description="Every five minutes: audits, repairs, counts",
        )
        lambda_.EventSourceMapping(
            self,
            "Ticks",
            target=self.scanner.function,
            event_source_arn=queues.ticks.queue_arn,
            batch_size=TICKS_PER_BATCH,
            report_batch_item_failures=True,
            # Not above what is reserved: a throttled batch would count as received, and wait for its visibility.
            max_concurrency=environment.scanner_concurrency,
        )
