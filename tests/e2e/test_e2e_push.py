"""The deployed pusher: fed by its queue, with its secret, under its role. No target on a local machine is public, so
what it reaches is a name that nobody has: the attempt fails as it should, and everything around it works."""

from __future__ import annotations

import time

import pytest
from localstack.deployment import Credentials, Deployment

from tests.e2e.caller import Caller
from tickwork.core.ledger.lifecycle import ENDED
from tickwork.settings import PushSecrets

ENDS_WITHIN_S = 200
"""The first tick may be two minutes away on a fresh stack."""
NOWHERE = "http://hooks.nowhere.invalid/orders"


def test_a_run_is_taken_by_the_pusher_and_its_failure_is_on_record(
    deployment: Deployment, client_role: Credentials
) -> None:
    client = Caller(deployment.api_url, client_role)
    timer = {"team": "e2e-push", "delay_s": 1, "target": {"url": NOWHERE}, "retry_policy": {"max_attempts": 1}}
    timer_id = client.ok("POST", "/timers", timer)["timer_id"]
    deadline_s = time.monotonic() + ENDS_WITHIN_S
    while (run := client.ok("GET", f"/timers/{timer_id}"))["status"] not in ENDED:
        assert time.monotonic() < deadline_s, run
        time.sleep(1)
    assert (run["status"], run["attempt"]) == ("dead", 1)
    (letter,) = client.ok("GET", "/dead-letters?team=e2e-push")["runs"]
    assert letter["cause"]["error_class"] == "Unreachable"


def test_a_private_address_is_refused_when_it_is_registered(deployment: Deployment, client_role: Credentials) -> None:
    timer = {"team": "e2e-push", "delay_s": 1, "target": {"url": "http://127.0.0.1:8080/"}}
    status, problem = Caller(deployment.api_url, client_role).call("POST", "/timers", timer)
    assert (status, problem["errors"][0]["field"]) == (422, "target.url")


@pytest.mark.parametrize("function", ["api", "pusher"])
def test_only_the_pusher_can_read_the_generated_secret(deployment: Deployment, function: str) -> None:
    secrets = deployment.client("secretsmanager", deployment.role_of(function))
    arn = deployment.outputs["PushSecretArn"]
    if function == "pusher":
        assert PushSecrets.from_text(secrets.get_secret_value(SecretId=arn)["SecretString"]).secrets
        return
    with pytest.raises(secrets.exceptions.ClientError, match="AccessDenied"):
        secrets.get_secret_value(SecretId=arn)
