"""One endpoint and one deployment for all end-to-end tests. `E2E_ENDPOINT` names an endpoint that already runs."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from localstack.deployment import ROOT, Credentials, Deployment

from tickwork.local.endpoint import Endpoint

WORK = ROOT / "build" / "e2e"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    without_node = pytest.mark.skip(reason="there is no Node here, and the CDK's command line needs it")
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            if shutil.which("node") is None and not os.environ.get("CI"):
                item.add_marker(without_node)


@pytest.fixture(scope="session")
def endpoint() -> Iterator[str]:
    """Role enforcement is always on: a grant that is missing fails here, not in production."""
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    running = os.environ.get("E2E_ENDPOINT")
    if running:
        yield running.rstrip("/")
        return
    port = int(os.environ.get("E2E_PORT") or 0) or None
    with Endpoint(roles_enforced=True, log=WORK / "endpoint.log", port=port) as running_here:
        yield running_here.url


@pytest.fixture(scope="session")
def deployment(endpoint: str) -> Deployment:
    deployed = Deployment(endpoint, WORK)
    deployed.deploy()
    repaired = deployed.repair()
    (WORK / "deployment.json").write_text(json.dumps({"took_s": deployed.took_s, "repaired": repaired}, indent=2))
    return deployed


@pytest.fixture(scope="session")
def client_role(deployment: Deployment) -> Credentials:
    return deployment.role_with("client")


@pytest.fixture(scope="session")
def worker_role(deployment: Deployment) -> Credentials:
    return deployment.role_with("worker-default")
