from __future__ import annotations

from aws_cdk.assertions import Template
from infra.alarms import UNSAFE_COUNTED_BY

from tests.infra.callgraph import reachable
from tickwork.aws.signals import NAMESPACE
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


def test_the_url_is_an_output(template: Template) -> None:
    assert {"ApiUrl", "Prefix", "AlarmTopicArn"} <= set(template.find_outputs("*"))


def test_every_function_that_may_give_up_an_unsafe_run_is_listened_to() -> None:
    counting = {
        name
        for name in ("api", "ticker", "scanner", "reconciler", "pusher")
        if any(
            (module, getattr(node, "name", "")) == ("tickwork.flows.runs.finishing", "note_end")
            for module, node in reachable(f"{name}.handler")
        )
    }
    assert counting == set(UNSAFE_COUNTED_BY)


def test_what_goes_wrong_with_pushes_is_alarmed(template: Template) -> None:
    alarms = [one["Properties"] for one in template.find_resources("AWS::CloudWatch::Alarm").values()]
    for metric in ("runs.unsafe_not_repeated_total", "push.breaker_opened_total"):
        found = [one for one in alarms if one["MetricName"] == metric]
        assert "pusher" in {one["Dimensions"][0]["Value"] for one in found}
        for one in found:
            assert (one["Threshold"], one["EvaluationPeriods"], one["Namespace"]) == (0, 1, NAMESPACE)
    assert {one["AlarmName"].split("-", 2)[2] for one in alarms} >= {"ready-push-dlq", "pusher-errors"}


def test_every_alarm_reaches_the_topic(template: Template) -> None:
    alarms = template.find_resources("AWS::CloudWatch::Alarm").values()
    assert len(alarms) == 8 + 2 + 2 + 3
    for alarm in alarms:
        assert alarm["Properties"]["AlarmActions"]
        assert "Metrics" not in alarm["Properties"], "metric math"
