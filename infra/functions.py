"""The seven functions: api and its authorizer, ticker, scanner, reconciler, pusher, watchdog; and the event sources of
scanner and pusher."""

from __future__ import annotations

from functools import partial

from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra import grants
from infra.asset import Asset
from infra.function import TickworkFunction
from infra.queues import Queues
from infra.tables import Tables
from tickwork.core.ledger.queues import PUSHER_TIMEOUT_S, SCANNER_TIMEOUT_S, TICKS_PER_BATCH
from tickwork.ports import PUSH_POOL
from tickwork.settings import PUSH_SECRETS_AT, Environment

API_TIMEOUT_S = 28
"""Under the 30 s after which API Gateway gives up on an integration."""
AUTHORIZER_TIMEOUT_S = 9
"""Under the 10 s after which API Gateway gives up on an authorizer."""
TICKER_TIMEOUT_S = 55
"""Under its period: a ticker that hangs does not meet its successor."""
RECONCILER_TIMEOUT_S = 290
WATCHDOG_TIMEOUT_S = 58
"""Under its period, as the ticker's."""
PUSHES_PER_BATCH = 1
"""They would wait for each other: a slow target holds nobody else's push, and a batch never outlasts its visibility."""


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
        secret: secretsmanager.ISecret,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        reserved = environment.reserved
        make = partial(
            TickworkFunction, self, environment=environment, package=package, tables=tables, queues=queues, key=key
        )
        self.api = make(
            "api",
            grants=grants.API,
            timeout_s=API_TIMEOUT_S,
            memory_mb=1_024,
            reserved_concurrency=reserved.get("api"),
            description="The HTTP API: jobs, timers, runs, and the workers' calls",
        )
        self.authorizer = make(
            "authorizer",
            grants=grants.AUTHORIZER,
            timeout_s=AUTHORIZER_TIMEOUT_S,
            memory_mb=512,
            reserved_concurrency=reserved.get("authorizer"),
            description="At the door for keys: sends away who shows none that was ever issued",
        )
        self.ticker = make(
            "ticker",
            grants=grants.TICKER,
            timeout_s=TICKER_TIMEOUT_S,
            memory_mb=512,
            reserved_concurrency=reserved.get("ticker"),
            description="Each minute: issues the ticks of the minutes ahead",
        )
        self.scanner = make(
            "scanner",
            grants=grants.SCANNER,
            timeout_s=SCANNER_TIMEOUT_S,
            memory_mb=1_024,
            reserved_concurrency=reserved.get("scanner"),
            description="For each tick: fires what is due in a slice",
        )
        self.reconciler = make(
            "reconciler",
            grants=grants.RECONCILER,
            timeout_s=RECONCILER_TIMEOUT_S,
            memory_mb=512,
            reserved_concurrency=reserved.get("reconciler"),
            description="Every five minutes: audits, repairs, counts",
        )
        self.watchdog = make(
            "watchdog",
            grants=grants.WATCHDOG,
            timeout_s=WATCHDOG_TIMEOUT_S,
            memory_mb=512,
            reserved_concurrency=reserved.get("watchdog"),
            description="Each minute: tells owners whose jobs are silent",
        )
        self.pusher = make(
            "pusher",
            grants=grants.PUSHER,
            secret=secret,
            variables={PUSH_SECRETS_AT: secret.secret_arn},
            timeout_s=PUSHER_TIMEOUT_S,
            memory_mb=512,
            description="For each run with a URL: posts it there, signed",
        )
        lambda_.EventSourceMapping(
            self,
            "Ticks",
            target=self.scanner.function,
            event_source_arn=queues.ticks.queue_arn,
            batch_size=TICKS_PER_BATCH,
            report_batch_item_failures=True,
            # Never above what is reserved: a throttled batch would count as received, and wait for its visibility.
            max_concurrency=environment.scanner_concurrency,
        )
        lambda_.EventSourceMapping(
            self,
            "Pushes",
            target=self.pusher.function,
            event_source_arn=queues.ready[PUSH_POOL].queue_arn,
            batch_size=PUSHES_PER_BATCH,
            report_batch_item_failures=True,
            max_concurrency=environment.pusher_concurrency,
        )
