"""Ports over real services, made once per process. Clients are created here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
from botocore.config import Config

from tickwork.aws.clock import RandomIds, SystemClock
from tickwork.aws.sqs import SqsReceiver, SqsSender
from tickwork.ports import NoReceiver, Ports, Receiver, Signals
from tickwork.settings import Settings
from tickwork.store.dynamodb import DynamoStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

# A call that hangs is worse than one that fails: a window has 10 s of lease.
_CONFIG = Config(
    connect_timeout=2,
    read_timeout=5,
    retries={"mode": "standard", "max_attempts": 3},
    max_pool_connections=32,
)


def dynamodb_client(endpoint_url: str | None = None) -> DynamoDBClient:
    return boto3.client("dynamodb", config=_CONFIG, endpoint_url=endpoint_url)


def sqs_client(endpoint_url: str | None = None, *, long_poll: bool = False) -> SQSClient:
    config = _CONFIG.merge(Config(read_timeout=30)) if long_poll else _CONFIG
    return boto3.client("sqs", config=config, endpoint_url=endpoint_url)


def aws_ports(
    settings: Settings, signals: Signals, endpoint_url: str | None = None, *, receives: bool = False
) -> Ports:
    """Ports over AWS. `receives`: also take messages from the ready queues, which only the API does (leases)."""
    ids = RandomIds()
    receiver: Receiver = NoReceiver()
    if receives:
        receiver = SqsReceiver(sqs_client(endpoint_url, long_poll=True), settings.prefix)
    return Ports(
        clock=SystemClock(),
        store=DynamoStore(dynamodb_client(endpoint_url), settings.prefix, ids.unique),
        sender=SqsSender(sqs_client(endpoint_url), settings.prefix),
        signals=signals,
        ids=ids,
        layout=settings.layout(),
        receiver=receiver,
    )
