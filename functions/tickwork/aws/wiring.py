"""Ports over real services, made once per process. Clients are created here and nowhere else."""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config

from tickwork.aws.clock import RandomIds, SystemClock
from tickwork.aws.paging import SnsPager
from tickwork.aws.queue_making import SqsQueueMaker
from tickwork.aws.sqs import SqsReceiver, SqsSender
from tickwork.aws.tokens import JwtDesk
from tickwork.core.access.issuers import parse_issuer
from tickwork.flows.access.authenticating import SeenKeys
from tickwork.flows.access.tokens import Credentials, Tokens
from tickwork.ports import NoPager, NoQueueMaker, NoReceiver, Ports, Receiver, Signals
from tickwork.settings import Settings
from tickwork.store.dynamodb import DynamoStore

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

# A call that hangs is worse than one that fails: a window has 10 s of lease, and waits on one call at a time. After a
# throttle botocore pauses for up to a second, then two, then four: three repeats kept a window for up to seven seconds
# at a table that is throttled all along, and all that its slice had due meanwhile. The flows repeat what is worth it.
_CONFIG = Config(
    connect_timeout=2,
    read_timeout=5,
    retries={"mode": "standard", "total_max_attempts": 2},
    max_pool_connections=32,
    # The parameters are made by our stores alone, which are tested; checking them takes as long as all the rest.
    parameter_validation=False,
)

_DATA_CALLS = (
    "GetItem",
    "BatchGetItem",
    "Query",
    "Scan",
    "PutItem",
    "UpdateItem",
    "DeleteItem",
    "TransactWriteItems",
)


@cache
def _session() -> Any:
    """boto3 makes the same clients, and imports the S3 transfer manager at every cold start."""
    return botocore.session.get_session()


def dynamodb_client(endpoint_url: str | None = None) -> DynamoDBClient:
    client: DynamoDBClient = _session().create_client("dynamodb", config=_CONFIG, endpoint_url=endpoint_url)
    for call in _DATA_CALLS:
        client.meta.events.register(f"before-parse.dynamodb.{call}", _take_as_it_is)
    return client


def _take_as_it_is(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """The JSON of these calls has the very shape that botocore would copy it into, value by value; only binary values
    and times, of which our items have none, would differ. An error is left to botocore."""
    if response_dict["status_code"] == 200:
        customized_response_dict.update(json.loads(response_dict["body"]))
        response_dict["body"] = b"{}"


def sqs_client(endpoint_url: str | None = None, *, long_poll: bool = False) -> SQSClient:
    config = _CONFIG.merge(Config(read_timeout=30)) if long_poll else _CONFIG
    client: SQSClient = _session().create_client("sqs", config=config, endpoint_url=endpoint_url)
    client.meta.events.register("before-parse.sqs.SendMessageBatch", _take_as_it_is)
    return client


@cache
def sns_client(endpoint_url: str | None = None) -> Any:
    """Without a type, as that of secrets: its four calls are not worth another package of stubs."""
    return _session().create_client("sns", config=_CONFIG, endpoint_url=endpoint_url)


def secrets_client(endpoint_url: str | None = None) -> Any:
    """Of Secrets Manager; without a type, its one call is not worth another package of stubs."""
    return _session().create_client("secretsmanager", config=_CONFIG, endpoint_url=endpoint_url)


def credentials(settings: Settings, keys: SeenKeys) -> Credentials:
    """What callers of an environment may show."""
    issuer = parse_issuer(settings.oidc)
    return Credentials(keys, None if issuer is None else Tokens(issuer, JwtDesk()))


def aws_ports(
    settings: Settings,
    signals: Signals,
    endpoint_url: str | None = None,
    *,
    receives: bool = False,
    hides: bool = False,
) -> Ports:
    """Ports over AWS. `receives`: also take messages from the queues, as the API (leases) does, by a client whose calls
    may wait for them. `hides`: only keep back or delete what an event source has delivered, as the scanner and the
    pusher do; that takes no client of its own."""
    ids = RandomIds()
    sqs = sqs_client(endpoint_url)
    receiver: Receiver = NoReceiver()
    if receives or hides:
        receiver = SqsReceiver(sqs_client(endpoint_url, long_poll=True) if receives else sqs, settings.prefix)
    return Ports(
        clock=SystemClock(),
        store=DynamoStore(dynamodb_client(endpoint_url), settings.prefix, ids.unique),
        sender=SqsSender(sqs, settings.prefix),
        signals=signals,
        ids=ids,
        layout=settings.layout(),
        receiver=receiver,
        queues=SqsQueueMaker(sqs, settings.prefix, settings.kms_key_arn) if receives else NoQueueMaker(),
        pager=(
            SnsPager(partial(sns_client, endpoint_url), settings.prefix, settings.kms_key_arn)
            if receives
            else NoPager()
        ),
    )
