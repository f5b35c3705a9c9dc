from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from aws_cdk.assertions import Match, Template

from tickwork.core.ledger.tables import ALL_TABLES, Table

KIND = "AWS::DynamoDB::GlobalTable"


def _table(template: Template, name: str) -> Mapping[str, Any]:
    (found,) = template.find_resources(KIND, {"Properties": {"TableName": name}}).values()
    return found


def test_there_are_just_the_tables_that_the_code_names(prod: Template) -> None:
    names = {resource["Properties"]["TableName"] for resource in prod.find_resources(KIND).values()}
    assert names == {f"tickwork-prod-{table.name}" for table in ALL_TABLES}


@pytest.mark.parametrize("table", ALL_TABLES, ids=lambda table: table.name)
def test_a_table_is_deployed_as_it_is_defined(prod: Template, table: Table) -> None:
    properties = _table(prod, f"tickwork-prod-{table.name}")["Properties"]
    keys = [key["AttributeName"] for key in properties["KeySchema"]]
    assert keys == [name for name in (table.partition_key, table.sort_key) if name]
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert properties["SSESpecification"]["SSEEnabled"] is True
    assert properties.get("TimeToLiveSpecification") == (
        {"AttributeName": table.ttl, "Enabled": True} if table.ttl else None
    )
    found = {
        index["IndexName"]: ([key["AttributeName"] for key in index["KeySchema"]], index["Projection"])
        for index in properties.get("GlobalSecondaryIndexes", [])
    }
    keys_only = {"ProjectionType": "KEYS_ONLY"}
    assert found == {index.name: ([index.partition_key, index.sort_key], keys_only) for index in table.indexes}


def test_every_table_can_be_restored_to_a_point_in_time_in_every_environment(template: Template) -> None:
    template.all_resources_properties(
        KIND,
        {"Replicas": [Match.object_like({"PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True}})]},
    )


def test_prod_keeps_its_data_when_the_stack_is_deleted(prod: Template) -> None:
    kept = "RetainExceptOnCreate"  # what a failed creation has made is taken back, or its name would be taken
    prod.all_resources(KIND, {"DeletionPolicy": kept, "UpdateReplacePolicy": "Retain"})
    prod.all_resources("AWS::SQS::Queue", {"DeletionPolicy": kept})
    prod.all_resources_properties(KIND, {"Replicas": [Match.object_like({"DeletionProtectionEnabled": True})]})


def test_dev_can_be_thrown_away(templates: dict[str, Template]) -> None:
    templates["dev"].all_resources(KIND, {"DeletionPolicy": "Delete"})
    templates["dev"].all_resources_properties(
        KIND, {"Replicas": [Match.object_like({"DeletionProtectionEnabled": False})]}
    )
