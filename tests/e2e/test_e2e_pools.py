"""A pool that is made while the stack runs: its queues by the API's role, its runs by the scanner's, its end."""

from __future__ import annotations

import time

import pytest
from botocore.exceptions import ClientError
from localstack.deployment import Credentials, Deployment

from tests.e2e.caller import Caller
from tests.e2e.test_e2e_access import enforced
from tickwork.core.access.pools import pool_id
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.queues import ready_queue

TEAM, NAME = "e2e-pools-of-a-long-name", "fast"
POOL = pool_id(TEAM, NAME)
LEASED_WITHIN_S = 60


def test_a_pool_that_a_team_has_just_made_gets_its_runs_and_goes_when_nothing_is_left(
    deployment: Deployment, client_role: Credentials
) -> None:
    client = Caller(deployment.api_url, client_role)
    client.ok("PUT", f"/teams/{TEAM}", {"contact": "the test"})
    made = client.ok("PUT", f"/teams/{TEAM}/pools/{NAME}", {"worker": "lease"})
    assert (made["pool"], made["queue"]) == (POOL, ready_queue(POOL))
    target = {"pool": NAME, "handler": "greet"}
    now, later = (
        client.ok("POST", "/timers", {"team": TEAM, "delay_s": delay_s, "target": target}) for delay_s in (0, 8)
    )
    waiting = {now["timer_id"], later["timer_id"]}
    until_s = time.monotonic() + LEASED_WITHIN_S
    while waiting:
        assert time.monotonic() < until_s, waiting
        for run in client.ok("POST", f"/pools/{POOL}:lease", {"worker": "e2e", "max": 5, "wait_s": 1})["runs"]:
            done = {name: run[name] for name in ("ref", "token", "receipt")} | {"outcome": "succeeded"}
            client.ok("POST", "/runs:complete", {"runs": [done]})
            waiting.discard(parse_ref(run["ref"]).job_id)
    status, problem = client.call("DELETE", f"/teams/{TEAM}/pools/{NAME}")
    assert (status, problem["type"]) == (409, "urn:tickwork:problem:in-use"), "somebody may be aiming at it"


def test_an_address_is_asked_to_confirm_and_does_not_count_before(
    deployment: Deployment, client_role: Credentials
) -> None:
    client = Caller(deployment.api_url, client_role)
    route = {"kind": "email", "address": "ann@example.org"}
    client.ok("PUT", "/teams/e2e-paged", {"contact": "the test", "routes": [route]})
    (found,) = client.ok("POST", "/teams/e2e-paged/routes:test")["routes"]
    assert (found["state"], "asked to confirm" in found["detail"]) == ("unconfirmed", True)


@enforced
def test_the_api_makes_and_deletes_queues_of_teams_and_no_others(deployment: Deployment) -> None:
    sqs, prefix = deployment.client("sqs", deployment.role_of("api")), deployment.settings.prefix
    url = sqs.create_queue(QueueName=f"{prefix}-ready-e2e_probe")["QueueUrl"]
    sqs.delete_queue(QueueUrl=url)
    for name in ("ready-probe", "ticks-2"):
        with pytest.raises(ClientError, match="AccessDenied"):
            sqs.create_queue(QueueName=f"{prefix}-{name}")
    with pytest.raises(ClientError, match="AccessDenied"):
        sqs.delete_queue(QueueUrl=deployment.outputs["ReadyQueueDefault"])
