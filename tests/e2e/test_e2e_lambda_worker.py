"""A Lambda function as worker of a deployed pool: its runs end in the ledger, once each."""

from __future__ import annotations

import time
from pathlib import Path

from localstack.deployment import ENVIRONMENT, Credentials, Deployment

from tests.e2e.caller import Caller
from tests.e2e.lambda_worker import deploy_lambda_worker
from tickwork.core.ledger.lifecycle import ENDED
from tickwork.settings import ENVIRONMENTS

ENDS_WITHIN_S = 200
POOL = "functions"
NAMES = ("ann", "bob", "cay", "dan", "nobody")


def test_runs_of_a_pool_of_functions_end_once_each(
    deployment: Deployment, client_role: Credentials, tmp_path: Path
) -> None:
    timeout_s = ENVIRONMENTS[ENVIRONMENT].lambda_pools[POOL]
    deploy_lambda_worker(deployment, POOL, timeout_s, tmp_path / "package")
    client = Caller(deployment.api_url, client_role)
    target = {"pool": POOL, "handler": "greet"}
    created = [
        client.ok("POST", "/timers", {"team": "e2e-lambda", "delay_s": 1, "target": target, "payload": {"name": name}})
        for name in NAMES
    ]
    deadline_s = time.monotonic() + ENDS_WITHIN_S
    waiting = {str(timer["timer_id"]): name for timer, name in zip(created, NAMES, strict=True)}
    ended = {}
    while waiting:
        assert time.monotonic() < deadline_s, (waiting, ended)
        time.sleep(1)
        for timer_id in list(waiting):
            run = client.ok("GET", f"/timers/{timer_id}")
            if run["status"] in ENDED:
                ended[waiting.pop(timer_id)] = (run["status"], run["attempt"])
    assert ended == {name: ("dead" if name == "nobody" else "succeeded", 1) for name in NAMES}
