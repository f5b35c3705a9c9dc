"""The HTTP API: every route goes to one function, every request is signed by an IAM principal.

IAM authorization is the default because the API asks for no other credential yet: without it, whoever knows the URL
would own the scheduler.
"""

from __future__ import annotations

import json

import jsii
from aws_cdk import aws_apigateway
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.function import log_group_of
from tickwork.settings import Environment

_ACCESS_LOG = {
    "request_id": "$context.requestId",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "caller": "$context.identity.userArn",
    "ip": "$context.identity.sourceIp",
    "latency_ms": "$context.responseLatency",
    "error": "$context.error.message",
    "integration_error": "$context.integrationErrorMessage",
}


@jsii.implements(apigateway.IAccessLogSettings)
class _AccessLog:
    """One JSON line for each request; each event has its time anyway. A stage writes all or none, and who was refused
    before any function was called stands nowhere else."""

    def __init__(self, log_group: logs.ILogGroup) -> None:
        self._destination = apigateway.LogGroupLogDestination(log_group)

    @property
    def destination(self) -> apigateway.IAccessLogDestination:
        return self._destination

    @property
    def format(self) -> aws_apigateway.AccessLogFormat:
        return aws_apigateway.AccessLogFormat.custom(json.dumps(_ACCESS_LOG, separators=(",", ":")))


class Api(Construct):
    def __init__(
        self, scope: Construct, construct_id: str, *, environment: Environment, function: lambda_.IFunction
    ) -> None:
        super().__init__(scope, construct_id)
        self.http_api = apigateway.HttpApi(
            self,
            "HttpApi",
            api_name=environment.settings().prefix,
            create_default_stage=False,
        )
        # A catch-all with a path, not `$default`: an IAM policy can then name single routes by method and path.
        self.http_api.add_routes(
            path="/{proxy+}",
            methods=[apigateway.HttpMethod.ANY],
            integration=integrations.HttpLambdaIntegration("Function", function),
            authorizer=authorizers.HttpIamAuthorizer(),
        )
        log_group = log_group_of(self, f"/aws/apigateway/{environment.settings().prefix}", environment)
        stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=self.http_api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(
                rate_limit=environment.api_requests_per_s, burst_limit=environment.api_requests_burst
            ),
            access_log_settings=_AccessLog(log_group),
        )
        self.url = stage.url

    def invoke_arn(self, method: str, path: str) -> str:
        """The ARN that an IAM policy names to allow one route."""
        return self.http_api.arn_for_execute_api(method, path, "$default")
