"""The two doors of a deployed API as API Gateway keeps them, over any number of processes behind each.

`Gateway` does what AWS documents of an HTTP API with a Lambda authorizer of format 2.0: no identity source, no call; an
answer is remembered by the identity source, whatever the route; a refusal has the gateway's own body. The events are
those of the developer guide, with all their fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.http import ApiUnderTest
from tickwork.api.door import REMEMBERED_S, Admission, admission
from tickwork.api.gate import Bearers, DeployedGate
from tickwork.core.access.actors import parse_rules
from tickwork.core.instants import SECOND_MS
from tickwork.flows.access.authenticating import KnownKeys, SeenKeys
from tickwork.ports import Ports

ARN = "arn:aws:sts::123456789012:assumed-role/PaymentsDeploy/ann@example.org"


def asked(authorization: str, method: str = "GET", path: str = "/jobs") -> dict[str, Any]:
    """What an authorizer is asked."""
    return {
        "version": "2.0",
        "type": "REQUEST",
        "routeArn": f"arn:aws:execute-api:us-east-1:123456789012:abcdef123/$default/{method}{path}",
        "identitySource": [authorization],
        "routeKey": "ANY /{proxy+}",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {"authorization": authorization, "host": "abcdef123.execute-api.us-east-1.amazonaws.com"},
        "requestContext": {
            "accountId": "123456789012",
            "apiId": "abcdef123",
            "domainName": "abcdef123.execute-api.us-east-1.amazonaws.com",
            "domainPrefix": "abcdef123",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "203.0.113.7",
                "userAgent": "tickwork",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "routeKey": "ANY /{proxy+}",
            "stage": "$default",
            "time": "01/Dec/2026:03:00:00 +0000",
            "timeEpoch": 1_796_094_000_000,
        },
        "pathParameters": {"proxy": path.lstrip("/")},
    }


def signed_by(arn: str) -> dict[str, Any]:
    """The authorizer's part of an event whose signature API Gateway has checked."""
    return {
        "iam": {
            "accessKey": "ASIAIOSFODNN7EXAMPLE",
            "accountId": "123456789012",
            "callerId": "AROAIOSFODNN7EXAMPLE:session",
            "cognitoIdentity": None,
            "principalOrgId": "aws:PrincipalOrgID",
            "userArn": arn,
            "userId": "AROAIOSFODNN7EXAMPLE:session",
        }
    }


class Authorizer:
    """One process of the authorizer."""

    def __init__(self, ports: Ports, bearers: Callable[[SeenKeys], Bearers] = lambda keys: keys) -> None:
        self.ports, self.calls = ports, 0
        self._bearers = bearers(SeenKeys())

    def answer(self, event: Mapping[str, Any]) -> Admission:
        self.calls += 1
        return admission(self.ports, self._bearers, event)


class Gateway:
    """Both doors. Its processes take turns. `bearers` makes of a process's keys what it takes."""

    def __init__(
        self,
        ports: Ports,
        rules: str = "*=>platform/platform",
        processes: int = 1,
        bearers: Callable[[SeenKeys], Bearers] = lambda keys: keys,
    ) -> None:
        self._clock = ports.clock
        self.authorizers = [Authorizer(ports, bearers) for _ in range(processes)]
        gates = [DeployedGate(parse_rules(rules), bearers(KnownKeys())) for _ in range(processes)]
        self.apis = [ApiUnderTest(ports, gate) for gate in gates]
        self._remembered: dict[str, tuple[int, Admission]] = {}
        self._turns = 0

    def with_key(
        self, authorization: str | None, method: str, path: str, body: object = None, **query: str
    ) -> tuple[int, Any]:
        """By the second door. (status, answer); of what does not get past it the gateway's own."""
        self._turns += 1
        if not authorization:
            return 401, {"message": "Unauthorized"}
        admitted = self._admission(authorization, method, path)
        if not admitted["isAuthorized"]:
            return 403, {"message": "Forbidden"}
        api = self._api()
        api.headers = {"authorization": authorization}
        api.authorizer = {"lambda": admitted["context"]}
        return api.call(method, path, body, **query)

    def signed(self, arn: str | None, method: str, path: str, body: object = None, **query: str) -> tuple[int, Any]:
        """By the first door."""
        self._turns += 1
        if arn is None:
            return 403, {"message": "Forbidden"}
        api = self._api()
        api.authorizer = signed_by(arn)
        return api.call(method, path, body, **query)

    def _api(self) -> ApiUnderTest:
        api = self.apis[self._turns % len(self.apis)]
        api.headers, api.authorizer = {}, {}
        return api

    def _admission(self, authorization: str, method: str, path: str) -> Admission:
        now_ms = self._clock.now_ms()
        until_ms, known = self._remembered.get(authorization, (0, None))
        if known is not None and now_ms < until_ms:
            return known
        # Another one than the API's turn has, so that each meets each.
        authorizer = self.authorizers[self._turns // 2 % len(self.authorizers)]
        answer = authorizer.answer(asked(authorization, method, path))
        answer = json.loads(json.dumps(answer))
        self._remembered[authorization] = (now_ms + REMEMBERED_S * SECOND_MS, answer)
        return answer
