"""The tables, made from the values in `tickwork.core.tables`: what the code names is what is deployed."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_kms as kms
from constructs import Construct

from tickwork.core.ledger.tables import ALL_TABLES, Index, Table

_TYPES = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}


class Tables(Construct):
    """On demand, encrypted, with point-in-time recovery. `keep_data`: they outlive the stack (but not a creation that
    fails: it would be in the way of the next). `protect`: they refuse to be deleted."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        prefix: str,
        keep_data: bool,
        protect: bool,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._key = key
        self._removal = kept(keep_data)
        self.by_name = {table.name: self._table(table, prefix, protect=protect) for table in ALL_TABLES}

    def _table(self, table: Table, prefix: str, *, protect: bool) -> dynamodb.TableV2:
        made = dynamodb.TableV2(
            self,
            table.name.title().replace("_", ""),
            table_name=f"{prefix}-{table.name}",
            partition_key=_attribute(table.partition_key),
            sort_key=_attribute(table.sort_key) if table.sort_key else None,
            billing=dynamodb.Billing.on_demand(),
            encryption=dynamodb.TableEncryptionV2.aws_managed_key(),
            point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
                point_in_time_recovery_enabled=True
            ),
            time_to_live_attribute=table.ttl,
            deletion_protection=protect,
            removal_policy=self._removal,
            global_secondary_indexes=[_index(index) for index in table.indexes],
        )
        if self._key is not None:
            # The CDK has a way to say so, and takes it only in a stack that is bound to a region; ours are to none.
            of_itself = cast("dynamodb.CfnGlobalTable", made.node.default_child)
            of_itself.add_property_override("Replicas.0.SSESpecification.KMSMasterKeyId", self._key.key_arn)
        return made


def kept(keep_data: bool) -> cdk.RemovalPolicy:
    """What becomes of something with a name of ours when its stack goes. Kept, it is still taken away when its very
    creation fails and is rolled back: left there, it would hold its name against each further try."""
    return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if keep_data else cdk.RemovalPolicy.DESTROY


def _attribute(name: str, kind: str = "S") -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=_TYPES[kind])


def _index(index: Index) -> dynamodb.GlobalSecondaryIndexPropsV2:
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=index.name,
        partition_key=_attribute(index.partition_key),
        sort_key=_attribute(index.sort_key, index.sort_key_type),
        projection_type=dynamodb.ProjectionType.KEYS_ONLY,
    )
