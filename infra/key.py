"""A key of the environment's own (`kms_key_arn`): what is encrypted with it, and who may use it for that.

Owns which actions on the key follow from what a role may do with tables, queues and topics. Its policy is its owner's,
and has to let the services in that use it in nobody's name (docs/deploy.md). Without a key everything here is nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.grants import DELETE, PUT, RECEIVE, SEND, UPDATE, Grants
from tickwork.settings import Environment

_WRITES = frozenset({PUT, UPDATE, DELETE})
_READ = ("kms:Decrypt", "kms:DescribeKey")
_WRITE = ("kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
"""Of tables: DynamoDB uses the key in the caller's name."""
_TAKE = ("kms:Decrypt",)
_SEND = ("kms:Decrypt", "kms:GenerateDataKey")
"""Of queues and topics. Who sends decrypts too: so the service checks a data key before it uses it."""


def key_of(scope: Construct, environment: Environment) -> kms.IKey | None:
    arn = environment.kms_key_arn
    return kms.Key.from_key_arn(scope, "Key", arn) if arn else None


def statements(key: kms.IKey | None, grants: Grants) -> Iterator[iam.PolicyStatement]:
    """What a function may do with the key, by what it may do otherwise: through the services that need it alone."""
    if key is None:
        return
    calls = {call for granted in (grants.tables, grants.indexes) for actions in granted.values() for call in actions}
    if calls:
        yield through(key, "dynamodb", _READ + _WRITE if calls & _WRITES else _READ)
    queued = {*grants.ticks, *grants.ready, *grants.leased, *grants.pushed}
    if SEND in queued:
        yield through(key, "sqs", _SEND)
    elif RECEIVE in queued:
        yield taking(key)
    if grants.paged:
        yield through(key, "sns", _SEND)


def taking(key: kms.IKey) -> iam.PolicyStatement:
    """What it takes to receive messages of a queue that is encrypted with the key."""
    return through(key, "sqs", _TAKE)


def through(key: kms.IKey, service: str, actions: tuple[str, ...]) -> iam.PolicyStatement:
    """Actions on the key that somebody may do by way of a service of this region, and not by himself."""
    return iam.PolicyStatement(
        actions=list(actions),
        resources=[key.key_arn],
        conditions={"StringEquals": {"kms:ViaService": f"{service}.{cdk.Aws.REGION}.amazonaws.com"}},
    )
