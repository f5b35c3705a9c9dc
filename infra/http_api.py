"""The HTTP API and its two doors to one function: at the first every request is signed by an IAM principal, at the
second it shows a key, which an authorizer of ours looks at before the function is asked.

Two APIs, because a route takes one authorizer and the same paths are behind both. No route is open: without an
authorizer, whoever knows the URL would own the scheduler.
"""

from __future__ import annotations

import json

import aws_cdk as cdk
import jsii
from aws_cdk import aws_apigateway
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.function import log_group_of
from tickwork.api.door import REMEMBERED_S
from tickwork.settings import Environment

KEY_BURST_S = 2
"""So many seconds of its rate may come to the second door at once."""

_ACCESS_LOG = {
    "request_id": "$context.requestId",
    "method": "$context.httpMethod",
    "path": "$context.path",
    "status": "$context.status",
    "caller": "$context.identity.userArn",
    "actor": "$context.authorizer.actor",
    "refused": "$context.authorizer.refused",
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


class _Door(Construct):
    """A way to the function: an HTTP API with an authorizer, limits and an access log of its own."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        environment: Environment,
        function: lambda_.IFunction,
        authorizer: apigateway.IHttpRouteAuthorizer,
        limits: tuple[int, int],
        key: kms.IKey | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self.http_api = apigateway.HttpApi(self, "HttpApi", api_name=name, create_default_stage=False)
        # A catch-all with a path, not `$default`: an IAM policy can then name single routes by method and path.
        self.http_api.add_routes(
            path="/{proxy+}",
            methods=[apigateway.HttpMethod.ANY],
            integration=integrations.HttpLambdaIntegration("Function", function),
            authorizer=authorizer,
        )
        rate, burst = limits
        stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=self.http_api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(rate_limit=rate, burst_limit=burst),
            access_log_settings=_AccessLog(log_group_of(self, f"/aws/apigateway/{name}", environment, key)),
        )
        self.url = stage.url


class Api(_Door):
    """The first door, by signature."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        function: lambda_.IFunction,
        key: kms.IKey | None = None,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            name=environment.settings().prefix,
            environment=environment,
            function=function,
            authorizer=authorizers.HttpIamAuthorizer(),
            limits=(environment.api_requests_per_s, environment.api_requests_burst),
            key=key,
        )

    def invoke_arn(self, method: str, path: str) -> str:
        """The ARN that an IAM policy names to allow one route."""
        return self.http_api.arn_for_execute_api(method, path, "$default")


class KeyApi(_Door):
    """The second door, by key. Its limits are its own: a flood of it takes nothing from the first."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        function: lambda_.IFunction,
        authorizer: lambda_.IFunction,
        key: kms.IKey | None = None,
    ) -> None:
        name = f"{environment.settings().prefix}-keys"
        super().__init__(
            scope,
            construct_id,
            name=name,
            environment=environment,
            function=function,
            authorizer=authorizers.HttpLambdaAuthorizer(
                "Authorizer",
                authorizer,
                authorizer_name=name,
                response_types=[authorizers.HttpLambdaResponseType.SIMPLE],
                # What is remembered hangs on this header alone, and so does what the authorizer answers.
                identity_source=["$request.header.Authorization"],
                results_cache_ttl=cdk.Duration.seconds(REMEMBERED_S),
            ),
            limits=(environment.key_requests_per_s, KEY_BURST_S * environment.key_requests_per_s),
            key=key,
        )
