from __future__ import annotations

import json
import string
from typing import Any

from aws_cdk.assertions import Template
from infra.functions import API_TIMEOUT_S

from tickwork.core.ledger.queues import ready
from tickwork.core.runs.pushes import TIMEOUT_MS
from tickwork.flows.runs.pushing import LEASE_S
from tickwork.ports import PUSH_POOL
from tickwork.settings import ENVIRONMENTS, PUSH_SECRETS_AT, SECRET_CHARS_MIN, Settings

KIND = "AWS::Lambda::Function"
NAMES = {"api", "authorizer", "ticker", "scanner", "reconciler", "pusher", "watchdog"}


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


def _source(template: Template, name: str) -> dict[str, Any]:
    sources = [one["Properties"] for one in template.find_resources("AWS::Lambda::EventSourceMapping").values()]
    (found,) = (one for one in sources if one["FunctionName"]["Ref"].startswith(f"Functions{name}"))
    return found


def test_a_push_can_not_outlast_its_message_or_its_lease(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        timeout_s = _functions(template)["pusher"]["Timeout"]
        assert timeout_s * 1_000 > TIMEOUT_MS
        assert timeout_s <= ready(PUSH_POOL).visibility_s
        assert timeout_s <= LEASE_S
        source = _source(template, "pusher")
        (queue,) = template.find_resources(
            "AWS::SQS::Queue", {"Properties": {"QueueName": f"tickwork-{name}-ready-push"}}
        )
        assert source["EventSourceArn"]["Fn::GetAtt"][0] == queue
        assert source["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert source["BatchSize"] == 1
        assert source["ScalingConfig"]["MaximumConcurrency"] == ENVIRONMENTS[name].pusher_concurrency


def test_the_secret_is_named_to_the_pusher_and_told_to_nobody(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        ((logical_id, secret),) = template.find_resources("AWS::SecretsManager::Secret").items()
        assert set(secret["Properties"]) - {"Tags"} == {"Description", "GenerateSecretString"}
        generated = secret["Properties"]["GenerateSecretString"]
        assert generated["PasswordLength"] >= SECRET_CHARS_MIN
        assert set(generated["ExcludeCharacters"]) == set(string.punctuation), "a comma would make two of it"
        assert secret["DeletionPolicy"] == ("RetainExceptOnCreate" if ENVIRONMENTS[name].keep_data else "Delete")
        assert "resolve:" not in json.dumps(template.to_json())
        named = {one: v["Environment"]["Variables"].get(PUSH_SECRETS_AT) for one, v in _functions(template).items()}
        assert named == dict.fromkeys(NAMES) | {"pusher": {"Ref": logical_id}}


def test_what_fires_has_executions_of_its_own_where_anything_is_reserved(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        functions = _functions(template)
        reserved = {one: f.get("ReservedConcurrentExecutions") for one, f in functions.items()}
        assert {one: n for one, n in reserved.items() if n is not None} == ENVIRONMENTS[name].reserved
        if ENVIRONMENTS[name].reserved:
            assert set(ENVIRONMENTS[name].reserved) == {
                "ticker",
                "scanner",
                "reconciler",
                "watchdog",
                "api",
                "authorizer",
            }


def test_a_new_account_takes_dev() -> None:
    """Its limit may be ten, and of a limit a hundred must stay unreserved."""
    assert ENVIRONMENTS["dev"].reserved == {}


def test_long_polls_cannot_take_what_fires_its_executions() -> None:
    account = 1_000
    for environment in ENVIRONMENTS.values():
        kept = sum(environment.reserved.values())
        assert kept + environment.pusher_concurrency <= account - 100


def test_scanners_are_never_fed_beyond_what_is_theirs(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        environment, properties = ENVIRONMENTS[name], _source(template, "scanner")
        assert 2 <= properties["ScalingConfig"]["MaximumConcurrency"] == environment.scanner_concurrency
        assert environment.scanner_concurrency >= environment.slices
        assert environment.scanner_concurrency == environment.reserved.get("scanner", environment.scanner_concurrency)
        assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        assert properties["BatchSize"] <= 10
        assert "MaximumBatchingWindowInSeconds" not in properties


def test_timeouts_stay_under_what_calls_the_function(template: Template) -> None:
    functions = _functions(template)
    assert functions["api"]["Timeout"] == API_TIMEOUT_S < 30
    assert functions["authorizer"]["Timeout"] < 10
    assert functions["ticker"]["Timeout"] < 60
    assert functions["reconciler"]["Timeout"] < 300


def test_every_log_group_forgets(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        groups = template.find_resources("AWS::Logs::LogGroup").values()
        assert {group["Properties"]["RetentionInDays"] for group in groups} == {ENVIRONMENTS[name].log_retention_days}
        assert len(groups) == len(NAMES) + len(("the first door", "the second"))


def test_the_clocks_wake_ticker_and_watchdog_each_minute_and_the_reconciler_every_five(template: Template) -> None:
    schedules = [one["Properties"] for one in template.find_resources("AWS::Scheduler::Schedule").values()]
    assert {(one["Name"].split("-")[-1], one["ScheduleExpression"]) for one in schedules} == {
        ("ticker", "rate(1 minute)"),
        ("reconciler", "rate(5 minutes)"),
        ("watchdog", "rate(1 minute)"),
    }


def test_the_watchdog_is_woken_through_a_role_of_its_own(template: Template) -> None:
    schedules = [one["Properties"] for one in template.find_resources("AWS::Scheduler::Schedule").values()]
    roles = {one["Name"].split("-")[-1]: str(one["Target"]["RoleArn"]) for one in schedules}
    assert roles["watchdog"] not in (roles["ticker"], roles["reconciler"])


def test_lambdas_own_lines_are_those_of_what_did_not_go_well(templates: dict[str, Template]) -> None:
    """Ours come at INFO; so do the figures that Lambda's log carries to CloudWatch's metrics."""
    for template in templates.values():
        for properties in _functions(template).values():
            logging = {name: value for name, value in properties["LoggingConfig"].items() if name != "LogGroup"}
            assert logging == {"LogFormat": "JSON", "ApplicationLogLevel": "INFO", "SystemLogLevel": "WARN"}


def test_every_log_group_forgets_and_every_environment_says_when(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        groups = template.find_resources("AWS::Logs::LogGroup").values()
        assert len(groups) == len(NAMES) + len(template.find_resources("AWS::ApiGatewayV2::Stage"))
        assert {group["Properties"]["RetentionInDays"] for group in groups} == {ENVIRONMENTS[name].log_retention_days}
    assert [environment.log_retention_days for environment in ENVIRONMENTS.values()] == [7, 30, 90]


def test_what_goes_well_is_told_less_often_the_more_there_is_of_it(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        told = {f["Environment"]["Variables"]["TICKWORK_LOG_ONE_IN"] for f in _functions(template).values()}
        assert told == {str(ENVIRONMENTS[name].log_one_in)}
    assert [environment.log_one_in for environment in ENVIRONMENTS.values()] == [1, 10, 100]
