"""The tables, made from the values in `tickwork.core.tables`: what the code names is what is deployed."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from constructs import Construct

from tickwork.core.ledger.tables import ALL_TABLES, Index, Table

_TYPES = {"S": dynamodb.AttributeType.STRING, "N": dynamodb.AttributeType.NUMBER}


class Tables(Construct):
    """On demand, encrypted, with point-in-time recovery. `keep_data`: they outlive the stack and refuse deletion."""

    def __init__(self, scope: Construct, construct_id: str, *, prefix: str, keep_data: bool) -> None:
        super().__init__(scope, construct_id)
        self.by_name = {table.name: self._table(table, prefix, keep_data=keep_data) for table in ALL_TABLES}

    def _table(self, table: Table, prefix: str, *, keep_data: bool) -> dynamodb.TableV2:
        return dynamodb.TableV2(
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
            deletion_protection=keep_data,
            removal_policy=cdk.RemovalPolicy.RETAIN if keep_data else cdk.RemovalPolicy.DESTROY,
            global_secondary_indexes=[_index(index) for index in table.indexes],
        )


def _attribute(name: str, kind: str = "S") -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=_TYPES[kind])


def _index(index: Index) -> dynamodb.GlobalSecondaryIndexPropsV2:
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=index.name,
        partition_key=_attribute(index.partition_key),
        sort_key=_attribute(index.sort_key, index.sort_key_type),
        projection_type=dynamodb.ProjectionType.KEYS_ONLY,
    )
