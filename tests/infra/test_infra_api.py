"""The two doors to the API: nobody comes in past both, each has its limits, and the second one forgets in time."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aws_cdk.assertions import Template

from tickwork.api.door import REMEMBERED_S
from tickwork.core.instants import SECOND_MS
from tickwork.flows.access.authenticating import TRUSTED_MS
from tickwork.price.cost import ACCESS_BYTES
from tickwork.settings import ENVIRONMENTS


def _of(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    """Resources of API Gateway by the name of their API."""
    names = {i: one["Properties"]["Name"] for i, one in template.find_resources("AWS::ApiGatewayV2::Api").items()}
    found = [one["Properties"] for one in template.find_resources(f"AWS::ApiGatewayV2::{kind}").values()]
    by_api = {"second" if names[one["ApiId"]["Ref"]].endswith("-keys") else "first": one for one in found}
    assert len(by_api) == len(found)
    return by_api


def test_no_route_is_open_to_the_world(template: Template) -> None:
    routes = _of(template, "Route")
    assert {one["RouteKey"] for one in routes.values()} == {"ANY /{proxy+}"}
    assert {name: one["AuthorizationType"] for name, one in routes.items()} == {"first": "AWS_IAM", "second": "CUSTOM"}
    assert not template.find_resources("AWS::Lambda::Url")


def test_both_doors_lead_to_the_same_function(template: Template) -> None:
    (first, second) = _of(template, "Integration").values()
    assert first["IntegrationUri"] == second["IntegrationUri"]
    assert first["PayloadFormatVersion"] == second["PayloadFormatVersion"] == "2.0"


def test_a_line_of_a_request_is_as_long_as_is_priced(template: Template) -> None:
    line = _of(template, "Stage")["first"]["AccessLogSettings"]["Format"]
    role = "arn:aws:sts::123456789012:assumed-role/shop-worker/i-0abc1234567890def"
    told = {
        "requestId": "JKJaXmPLvHcESHA=",
        "httpMethod": "POST",
        "path": "/runs:start",
        "status": "200",
        "identity.userArn": role,
        "authorizer.actor": "-",
        "authorizer.refused": "-",
        "identity.sourceIp": "203.0.113.101",
        "responseLatency": "12",
        "error.message": "-",
        "integrationErrorMessage": "-",
    }
    for name, value in told.items():
        line = line.replace(f"$context.{name}", value)
    assert "$" not in line
    assert len(line) + 26 == pytest.approx(ACCESS_BYTES, rel=0.1)


def test_the_second_door_asks_our_authorizer_and_remembers_by_the_header_it_answers_for(template: Template) -> None:
    (authorizer,) = _of(template, "Authorizer").values()
    assert authorizer["AuthorizerType"] == "REQUEST"
    assert (authorizer["AuthorizerPayloadFormatVersion"], authorizer["EnableSimpleResponses"]) == ("2.0", True)
    assert authorizer["IdentitySource"] == ["$request.header.Authorization"]
    assert "Functionsauthorizer" in json.dumps(authorizer["AuthorizerUri"])


def test_what_is_remembered_in_front_and_behind_is_forgotten_within_a_minute(template: Template) -> None:
    (authorizer,) = _of(template, "Authorizer").values()
    assert authorizer["AuthorizerResultTtlInSeconds"] == REMEMBERED_S > 0
    assert REMEMBERED_S * SECOND_MS + TRUSTED_MS < 60 * SECOND_MS


def test_only_the_second_door_may_run_the_authorizer(template: Template) -> None:
    """And only the two doors the API, beside what an account's own policies allow."""
    apis = template.find_resources("AWS::ApiGatewayV2::Api")
    allowed: dict[str, set[str]] = {"authorizer": set(), "api": set()}
    for one in template.find_resources("AWS::Lambda::Permission").values():
        properties = one["Properties"]
        assert properties["Principal"] == "apigateway.amazonaws.com"
        function = properties["FunctionName"]["Fn::GetAtt"][0].removeprefix("Functions").split("Function")[0]
        (api,) = [apis[name]["Properties"]["Name"] for name in apis if name in json.dumps(properties["SourceArn"])]
        allowed[function].add("second" if api.endswith("-keys") else "first")
    assert allowed == {"authorizer": {"second"}, "api": {"first", "second"}}


@pytest.mark.parametrize("name", list(ENVIRONMENTS))
def test_requests_are_throttled_and_logged(templates: dict[str, Template], name: str) -> None:
    environment, stages = ENVIRONMENTS[name], _of(templates[name], "Stage")
    limits = {door: stage["DefaultRouteSettings"] for door, stage in stages.items()}
    assert limits == {
        "first": {
            "ThrottlingRateLimit": environment.api_requests_per_s,
            "ThrottlingBurstLimit": environment.api_requests_burst,
        },
        "second": {
            "ThrottlingRateLimit": environment.key_requests_per_s,
            "ThrottlingBurstLimit": 2 * environment.key_requests_per_s,
        },
    }
    logs = [stage["AccessLogSettings"]["DestinationArn"]["Fn::GetAtt"][0] for stage in stages.values()]
    assert len(set(logs)) == 2
    assert environment.key_requests_per_s <= environment.api_requests_per_s


def test_no_log_of_requests_shows_a_credential(template: Template) -> None:
    for stage in _of(template, "Stage").values():
        logged = json.loads(stage["AccessLogSettings"]["Format"])
        assert not {value for value in logged.values() if "header" in value.lower() or "identitySource" in value}


def test_the_urls_are_outputs(template: Template) -> None:
    outputs = template.find_outputs("*")
    assert {"ApiUrl", "KeyApiUrl", "Prefix", "AlarmTopicArn"} <= set(outputs)
    assert outputs["ApiUrl"]["Value"] != outputs["KeyApiUrl"]["Value"]
