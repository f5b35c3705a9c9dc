from __future__ import annotations

import json
from typing import Any

from aws_cdk.assertions import Template
from infra.functions import API_TIMEOUT_S

from tickwork.settings import ENVIRONMENTS, Settings

KIND = "AWS::Lambda::Function"
NAMES = {"api", "ticker", "scanner", "reconciler"}


def _functions(template: Template) -> dict[str, dict[str, Any]]:
    found = [resource["Properties"] for resource in template.find_resources(KIND).values()]
    return {properties["Handler"].split(".")[0]: properties for properties in found}


def test_every_function_runs_the_same_package_on_arm(template: Template) -> None:
    functions = _functions(template)
    assert set(functions) == NAMES
    assert {json.dumps(one["Code"], sort_keys=True) for one in functions.values()} == {
        json.dumps(functions["api"]["Code"], sort_keys=True)
    }
    for name, one in functions.items():
        assert one["Handler"] == f"{name}.handler.handler"
        assert (one["Runtime"], one["Architectures"]) == ("python3.13", ["arm64"])


def test_a_function_reads_back_the_settings_of_its_environment(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        for one in _functions(template).values():
            assert Settings.from_environ(one["Environment"]["Variables"]) == ENVIRONMENTS[name].settings()


def test_scanners_are_reserved_for_every_slice_and_never_fed_beyond(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        reserved = _functions(template)["scanner"]["ReservedConcurrentExecutions"]
        (source,) = template.find_resources("AWS::Lambda::EventSourceMapping").values()
        properties = source["Properties"]
        assert reserved >= ENVIRONMENTS[name].slices
        assert 2 <= properties["ScalingConfig"]["MaximumConcurrency"] <= reserved
        assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert properties["BatchSize"] <= 10
        assert "MaximumBatchingWindowInSeconds" not in properties


def test_timeouts_stay_under_what_calls_the_function(template: Template) -> None:
    functions = _functions(template)
    assert functions["api"]["Timeout"] == API_TIMEOUT_S < 30
    assert functions["ticker"]["Timeout"] < 60
    assert functions["reconciler"]["Timeout"] < 300


def test_every_log_group_forgets(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        groups = template.find_resources("AWS::Logs::LogGroup").values()
        assert {group["Properties"]["RetentionInDays"] for group in groups} == {ENVIRONMENTS[name].log_retention_days}
        assert len(groups) == len(NAMES) + 1


def test_the_clocks_wake_the_ticker_each_minute_and_the_reconciler_every_five(template: Template) -> None:
    schedules = [one["Properties"] for one in template.find_resources("AWS::Scheduler::Schedule").values()]
    assert {(one["Name"].split("-")[-1], one["ScheduleExpression"]) for one in schedules} == {
        ("ticker", "rate(1 minute)"),
        ("reconciler", "rate(5 minutes)"),
    }
