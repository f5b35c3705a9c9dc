"""A function imports only what is in its package: the contract finds each kind of mistake, planted in the graph."""

from __future__ import annotations

import copy
from functools import cache

import pytest
from grimp import ImportGraph

from infra import asset, shipped


@cache
def _graph() -> ImportGraph:
    return shipped.graph_of_functions()


@pytest.fixture
def graph() -> ImportGraph:
    return copy.deepcopy(_graph())


def test_nothing_is_at_fault_today(graph: ImportGraph) -> None:
    assert list(shipped.faults(graph)) == []


def test_every_function_is_followed() -> None:
    assert shipped.handlers() == ["api", "authorizer", "pusher", "reconciler", "scanner", "ticker", "watchdog"]


@pytest.mark.parametrize(
    ("importer", "imported", "found"),
    [
        ("scanner.handler", "tickwork.testing.memory", "scanner.handler -> tickwork.testing.memory: tickwork.testing"),
        ("tickwork.flows.dispatch.windows", "tickwork.local", "tickwork.flows.dispatch.windows -> tickwork.local: "),
        ("tickwork.aws.wiring", "tickwork.client", "tickwork.aws.wiring -> tickwork.client: tickwork.client"),
        ("tickwork.api.jobs.views", "click", "tickwork.api.jobs.views -> click: click is neither"),
        ("tickwork.api", "rich", "tickwork.api -> rich: rich is neither"),
        ("tickwork", "greenlet", "tickwork -> greenlet: greenlet is neither"),
    ],
)
def test_an_import_of_what_is_not_shipped_is_told_with_the_way_that_led_to_it(
    graph: ImportGraph, importer: str, imported: str, found: str
) -> None:
    graph.add_import(importer=importer, imported=imported)
    assert [fault for fault in shipped.faults(graph) if found in fault]


@pytest.mark.parametrize("imported", ["json", "botocore", "boto3", "pydantic", "dateutil", "aws_lambda_powertools"])
def test_what_the_runtime_and_the_lock_bring_may_be_imported(graph: ImportGraph, imported: str) -> None:
    graph.add_module(imported, is_squashed=True) if imported not in graph.modules else None
    graph.add_import(importer="scanner.handler", imported=imported)
    assert list(shipped.faults(graph)) == []


def test_a_part_that_no_function_imports_does_not_ship(graph: ImportGraph) -> None:
    graph.add_module("tickwork.reports")
    assert list(shipped.faults(graph)) == [
        "tickwork.reports is imported by no function: name it in NOT_SHIPPED (infra/asset.py)"
    ]


def test_what_is_listed_as_not_shipped_is_there(graph: ImportGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "NOT_SHIPPED", (*asset.NOT_SHIPPED, "sim"))
    assert len(list(shipped.faults(graph))) == 1
