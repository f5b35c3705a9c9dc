"""Who may do what on the deployed stack. These fail when a grant is missing, and when there is one too many."""

from __future__ import annotations

import os

import pytest
from botocore.exceptions import ClientError
from localstack.deployment import FUNCTIONS, Credentials, Deployment

from tests.e2e.caller import Caller

TIMER = {"team": "e2e-access", "target": {"pool": "default", "handler": "receipt"}, "delay_s": 3_600}

enforced = pytest.mark.skipif(
    bool(os.environ.get("E2E_ENDPOINT")) and not os.environ.get("E2E_ROLES_ENFORCED"),
    reason="the endpoint given does not enforce roles; set E2E_ROLES_ENFORCED=1 when it does",
)


def test_a_client_creates_reads_and_cancels_a_timer(deployment: Deployment, client_role: Credentials) -> None:
    client = Caller(deployment.api_url, client_role)
    timer_id = client.ok("POST", "/timers", TIMER)["timer_id"]
    assert client.ok("GET", f"/timers/{timer_id}")["status"] == "pending"
    assert client.ok("DELETE", f"/timers/{timer_id}")["status"] == "cancelled"


def test_bad_input_is_answered_by_the_application_and_not_by_the_gateway(
    deployment: Deployment, client_role: Credentials
) -> None:
    status, problem = Caller(deployment.api_url, client_role).call("POST", "/timers", TIMER | {"delay_s": -1})
    assert (status, problem["errors"][0]["field"]) == (422, "delay_s")


def test_an_unsigned_request_is_refused(deployment: Deployment) -> None:
    assert Caller(deployment.api_url, None).call("GET", "/health")[0] == 403


@enforced
def test_a_signature_with_a_wrong_key_is_refused(deployment: Deployment, client_role: Credentials) -> None:
    forged = client_role | {"AWS_SECRET_ACCESS_KEY": "x" * 40}
    assert Caller(deployment.api_url, forged).call("GET", "/health")[0] == 403


@enforced
def test_a_worker_makes_the_workers_calls_and_no_others(deployment: Deployment, worker_role: Credentials) -> None:
    worker = Caller(deployment.api_url, worker_role)
    assert worker.call("POST", "/timers", TIMER)[0] == 403
    assert worker.call("POST", "/pools/payments:lease", {})[0] == 403
    assert worker.call("POST", "/pools/default:lease", {})[0] == 200
    assert worker.call("POST", "/runs:start", {})[0] == 422


@enforced
def test_a_worker_takes_messages_of_its_own_pool_only(deployment: Deployment, worker_role: Credentials) -> None:
    sqs = deployment.client("sqs", worker_role)
    urls = {pool: deployment.outputs[f"ReadyQueue{pool.title()}"] for pool in ("default", "payments")}
    sqs.receive_message(QueueUrl=urls["default"], WaitTimeSeconds=0, VisibilityTimeout=0)
    with pytest.raises(ClientError, match="AccessDenied"):
        sqs.receive_message(QueueUrl=urls["payments"], WaitTimeSeconds=0)


@enforced
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_functions_role_is_refused_what_its_code_never_does(deployment: Deployment, function: str) -> None:
    """The control of this suite: were roles not enforced, a missing grant could not fail either."""
    dynamodb = deployment.client("dynamodb", deployment.role_of(function))
    # Nobody deletes a lease, or a key; the authorizer knows no leases.
    name, attribute = ("keys", "key_id") if function == "authorizer" else ("leases", "slice")
    table, key = f"{deployment.settings.prefix}-{name}", {attribute: {"S": "none"}}
    assert "Item" not in dynamodb.get_item(TableName=table, Key=key)
    with pytest.raises(ClientError, match="AccessDenied"):
        dynamodb.delete_item(TableName=table, Key=key)
