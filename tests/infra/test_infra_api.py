from __future__ import annotations

import pytest
from aws_cdk.assertions import Template

from tickwork.price.cost import ACCESS_BYTES
from tickwork.settings import ENVIRONMENTS


def test_no_route_is_open_to_the_world(template: Template) -> None:
    template.resource_count_is("AWS::ApiGatewayV2::Route", 1)
    template.has_resource_properties(
        "AWS::ApiGatewayV2::Route", {"RouteKey": "ANY /{proxy+}", "AuthorizationType": "AWS_IAM"}
    )
    assert not template.find_resources("AWS::Lambda::Url")


def test_requests_are_throttled_and_logged(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        (stage,) = template.find_resources("AWS::ApiGatewayV2::Stage").values()
        limits = stage["Properties"]["DefaultRouteSettings"]
        assert limits["ThrottlingRateLimit"] == ENVIRONMENTS[name].api_requests_per_s
        assert limits["ThrottlingBurstLimit"] == ENVIRONMENTS[name].api_requests_burst
        assert stage["Properties"]["AccessLogSettings"]["DestinationArn"]


def test_a_line_of_a_request_is_as_long_as_is_priced(template: Template) -> None:
    (stage,) = template.find_resources("AWS::ApiGatewayV2::Stage").values()
    line = stage["Properties"]["AccessLogSettings"]["Format"]
    role = "arn:aws:sts::123456789012:assumed-role/shop-worker/i-0abc1234567890def"
    told = {
        "requestId": "JKJaXmPLvHcESHA=",
        "httpMethod": "POST",
        "path": "/runs:start",
        "status": "200",
        "identity.userArn": role,
        "identity.sourceIp": "203.0.113.101",
        "responseLatency": "12",
        "error.message": "-",
        "integrationErrorMessage": "-",
    }
    for name, value in told.items():
        line = line.replace(f"$context.{name}", value)
    assert "$" not in line
    assert len(line) + 26 == pytest.approx(ACCESS_BYTES, rel=0.1)


def test_the_url_is_an_output(template: Template) -> None:
    assert {"ApiUrl", "Prefix", "AlarmTopicArn"} <= set(template.find_outputs("*"))
