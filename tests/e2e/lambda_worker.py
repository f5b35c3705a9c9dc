"""A team's Lambda worker on the deployed stack, made as docs/workers.md says: package, role, function, event source."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

from localstack.deployment import ROOT, Deployment

NAME = "e2e-lambda-worker"
ACTIVE_WITHIN_S = 60
CODE = """
from tickwork.worker import App, Context, FailPermanently
from tickwork.worker.lambdas import lambda_handler

app = App()


@app.job("greet")
def greet(ctx: Context) -> None:
    if ctx.payload["name"] == "nobody":
        raise FailPermanently("nobody is there")
    print("hello", ctx.payload["name"])


handler = lambda_handler(app)
"""


def deploy_lambda_worker(deployment: Deployment, pool: str, timeout_s: int, folder: Path) -> None:
    """The function, fed by the ready queue of the pool, under a role with the pool's worker policy and nothing else."""
    functions = deployment.client("lambda")
    functions.create_function(
        FunctionName=NAME,
        Runtime="python3.13",
        Handler="jobs.handler",
        Role=_role(deployment, pool),
        Code={"ZipFile": _package(folder)},
        Timeout=timeout_s,
        MemorySize=512,
        Environment={"Variables": {"TICKWORK_API_URL": deployment.api_url, "TICKWORK_AUTH": "iam"}},
    )
    url = deployment.outputs[f"ReadyQueue{pool.title()}"]
    queue = deployment.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    mapping = functions.create_event_source_mapping(
        FunctionName=NAME,
        EventSourceArn=queue["Attributes"]["QueueArn"],
        BatchSize=5,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    deadline_s = time.monotonic() + ACTIVE_WITHIN_S
    while functions.get_event_source_mapping(UUID=mapping["UUID"])["State"] != "Enabled":
        assert time.monotonic() < deadline_s, "the event source is not enabled"
        time.sleep(0.5)


def _package(folder: Path) -> bytes:
    """The package without extras beside the team's own code: Lambda's runtime brings boto3 and urllib3."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it may lead to the source tree
    subprocess.run([*pip, "--target", str(folder), str(ROOT)], env=bare, check=True, timeout=300)
    (folder / "jobs.py").write_text(CODE, encoding="utf-8")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder))
    return packed.getvalue()


def _role(deployment: Deployment, pool: str) -> str:
    iam = deployment.client("iam")
    account = deployment.client("sts").get_caller_identity()["Account"]
    trust = {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
        ],
    }
    role = iam.create_role(RoleName=NAME, AssumeRolePolicyDocument=json.dumps(trust))["Role"]
    policy = f"arn:aws:iam::{account}:policy/{deployment.settings.prefix}-worker-{pool}"
    iam.attach_role_policy(RoleName=NAME, PolicyArn=policy)
    return str(role["Arn"])
