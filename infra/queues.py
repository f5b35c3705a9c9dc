"""The queues, made from the values in `tickwork.core.queues`, each with a dead-letter queue of its own.

A pool's dead-letter queue belongs to its team: what lies there is theirs to look at, and fills nobody else's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.tables import kept
from tickwork.core.ledger.queues import DLQ_RETENTION_S, KEY_REUSED_S, LONG_POLL_S, TEAMS_QUEUES, TICKS, Queue, ready
from tickwork.ports import PUSH_POOL


class Queues(Construct):
    """`ticks`, and a ready queue for each pool. `enforce_ssl` is off only for an endpoint that speaks plain HTTP."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        prefix: str,
        pools: Sequence[str],
        lambda_pools: Mapping[str, int],
        keep_data: bool,
        enforce_ssl: bool = True,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._key = key
        self._prefix = prefix
        self._removal = kept(keep_data)
        self._enforce_ssl = enforce_ssl
        self.ticks, self.ticks_dlq = self._pair("Ticks", TICKS)
        pairs = {pool: self._pair(f"Ready-{pool}", ready(pool, lambda_pools.get(pool))) for pool in pools}
        self.ready = {pool: pair[0] for pool, pair in pairs.items()}
        self.of_workers = {pool: queue for pool, queue in self.ready.items() if pool != PUSH_POOL}
        """Those that teams' workers take from; pushes are the platform's own work."""
        if "-ready-" in f"{prefix}-":
            raise ValueError(f"{prefix}: its teams' queues would be another environment's too; leave `ready` out of it")
        self.of_teams_arn = cdk.Stack.of(self).format_arn(service="sqs", resource=f"{prefix}-{TEAMS_QUEUES}")
        """The queues that teams make while the service runs: no name of a deployed one has a `_`."""
        self.teams_topics_arn = cdk.Stack.of(self).format_arn(service="sns", resource=f"{prefix}-pager-*")
        """The topics by which teams are paged, each called by its team (`aws/paging.py`)."""
        self.ready_dlqs = {pool: pair[1] for pool, pair in pairs.items()}

    def _pair(self, construct_id: str, queue: Queue) -> tuple[sqs.Queue, sqs.Queue]:
        dlq = self._queue(f"{construct_id}-Dlq", queue.dlq_name, retention_s=DLQ_RETENTION_S)
        main = self._queue(
            construct_id,
            queue.name,
            retention_s=queue.retention_s,
            visibility_s=queue.visibility_s,
            dead_letters=sqs.DeadLetterQueue(queue=dlq, max_receive_count=queue.receives_max),
        )
        return main, dlq

    def _queue(
        self,
        construct_id: str,
        name: str,
        *,
        retention_s: int,
        visibility_s: int = 30,
        dead_letters: sqs.DeadLetterQueue | None = None,
    ) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            queue_name=f"{self._prefix}-{name}",
            visibility_timeout=cdk.Duration.seconds(visibility_s),
            retention_period=cdk.Duration.seconds(retention_s),
            receive_message_wait_time=cdk.Duration.seconds(LONG_POLL_S),
            encryption=sqs.QueueEncryption.SQS_MANAGED if self._key is None else sqs.QueueEncryption.KMS,
            encryption_master_key=self._key,
            data_key_reuse=None if self._key is None else cdk.Duration.seconds(KEY_REUSED_S),
            enforce_ssl=self._enforce_ssl,
            dead_letter_queue=dead_letters,
            removal_policy=self._removal,
        )
