"""Deploying the real stacks onto an endpoint, and acting there as an operator or under a role.

Everything goes through public doors: the CDK's command line, boto3, and the deployed API's URL.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3

from tickwork.settings import ENVIRONMENTS, Settings

ROOT = Path(__file__).resolve().parents[1]
REGION = "us-east-1"
ENVIRONMENT = "dev"
STACK = f"tickwork-{ENVIRONMENT}"
CLI_TIMEOUT_S = 300
BATCHED = ("sqs:SendMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility")
WORKER_ENDS_WITHIN_S = 40
FUNCTIONS = ("api", "authorizer", "ticker", "scanner", "reconciler", "pusher", "watchdog")

type Credentials = dict[str, str]
"""The three AWS_* environment variables of a caller."""

OPERATOR: Credentials = {
    "AWS_ACCESS_KEY_ID": os.environ.get("E2E_ACCESS_KEY_ID", "test"),
    "AWS_SECRET_ACCESS_KEY": os.environ.get("E2E_SECRET_ACCESS_KEY", "test"),
}


@dataclass
class Deployment:
    """The dev environment on `endpoint`. `work` takes the assembly, the outputs and the logs. `root`: the sources that
    are deployed, of this version or another."""

    endpoint: str
    work: Path
    root: Path = ROOT
    took_s: dict[str, float] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        return ENVIRONMENTS[ENVIRONMENT].settings()

    def deploy(self) -> None:
        """Synthesize once, then bootstrap and deploy what was synthesized."""
        self.synthesize()
        account = self.client("sts").get_caller_identity()["Account"]
        self._cdk("bootstrap", "--app", str(self.assembly), f"aws://{account}/{REGION}")
        self.update()

    @property
    def assembly(self) -> Path:
        return self.work / "cdk.out"

    def synthesize(self) -> None:
        app = f"{sys.executable} -m infra.app"
        wanted = ("-c", f"env={ENVIRONMENT}", "-c", "local=true", "-o", str(self.assembly))
        self._cdk("synth", "--quiet", "--app", app, *wanted)

    def update(self) -> None:
        """Deploy what was synthesized, onto whatever stands there."""
        outputs = self.work / "outputs.json"
        self._cdk(
            *("deploy", STACK, "--app", str(self.assembly), "--require-approval", "never"),
            *("--outputs-file", str(outputs)),
        )
        self.outputs = json.loads(outputs.read_text(encoding="utf-8"))[STACK]

    def _cdk(self, command: str, *arguments: str) -> None:
        begun = time.monotonic()
        cdk = ROOT / "node_modules" / ".bin" / "cdk"
        if not cdk.exists():
            raise RuntimeError("the CDK's command line is missing: run `npm ci`")
        done = subprocess.run(
            [str(cdk), command, *arguments],
            cwd=self.root,
            env=self.environ(OPERATOR) | {"CDK_HOME": str(self.work / "cdk-home"), "CI": "1"},
            capture_output=True,
            text=True,
            timeout=CLI_TIMEOUT_S,
        )
        self.took_s[command] = round(time.monotonic() - begun, 1)
        if done.returncode != 0:
            raise RuntimeError(f"cdk {command} failed:\n{done.stdout[-4_000:]}\n{done.stderr[-4_000:]}")

    def environ(self, credentials: Credentials) -> dict[str, str]:
        """The environment of a process that acts with these credentials, and with nothing else of ours."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        return kept | {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ENDPOINT_URL_S3": os.environ.get("E2E_S3_ENDPOINT", self.endpoint),
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20",
            "PYTHONPATH": os.pathsep.join([str(self.root / "functions"), str(self.root)]),
            **credentials,
        }

    def client(self, service: str, credentials: Credentials = OPERATOR) -> Any:
        return boto3.client(
            service,  # type: ignore[call-overload]
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=credentials["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=credentials["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=credentials.get("AWS_SESSION_TOKEN"),
        )

    @cached_property
    def api_url(self) -> str:
        """By signature."""
        return self._by_path(self.outputs["ApiUrl"])

    @cached_property
    def key_api_url(self) -> str:
        """By key."""
        return self._by_path(self.outputs["KeyApiUrl"])

    def _by_path(self, url: str) -> str:
        """A deployed API by path: its own host name does not resolve to an endpoint on this machine."""
        found = re.fullmatch(r"https?://([a-z0-9]+)\.execute-api\..*", url)
        assert found, f"{url} is not the URL of an API"
        return f"{self.endpoint}/_aws/execute-api/{found[1]}/$default"

    def role_with(self, policy: str) -> Credentials:
        """The credentials of a fresh role that has just the managed policy `<prefix>-<policy>` of the stack."""
        iam, name = self.client("iam"), f"e2e-{policy}"
        account = self.client("sts").get_caller_identity()["Account"]
        trust = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}, "Action": "sts:AssumeRole"}
            ],
        }
        role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))["Role"]
        arn = f"arn:aws:iam::{account}:policy/{self.settings.prefix}-{policy}"
        iam.attach_role_policy(RoleName=name, PolicyArn=arn)
        version = iam.get_policy(PolicyArn=arn)["Policy"]["DefaultVersionId"]
        document = iam.get_policy_version(PolicyArn=arn, VersionId=version)["PolicyVersion"]["Document"]
        self._allow_batches(name, document)
        return self._assume(str(role["Arn"]))

    @contextmanager
    def worker(
        self, role: Credentials, app: str, *, concurrency: int, log: Path, environ: Mapping[str, str]
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A `tickwork worker` process of the pool `default` under the role of a worker; asked to end at the end, as a
        deploy would."""
        command = [sys.executable, "-m", "tickwork.cli.main", "worker", app, "--pool", "default"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*command, "--prefix", self.settings.prefix, "--concurrency", str(concurrency)],
                cwd=self.root,
                env={
                    **self.environ(role),
                    "TICKWORK_API_URL": self.api_url,
                    "TICKWORK_AUTH": "iam",
                    **environ,
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
            assert process.poll() is None, f"the worker ended by itself: see {log}"
            process.send_signal(signal.SIGTERM)
            process.wait(WORKER_ENDS_WITHIN_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait(5)

    def role_of(self, function: str) -> Credentials:
        """The credentials that a deployed function runs with, to see what they are refused."""
        found = self.client("lambda").get_function_configuration(FunctionName=f"{self.settings.prefix}-{function}")
        role = str(found["Role"])
        iam, name = self.client("iam"), role.rsplit("/", 1)[1]
        account = self.client("sts").get_caller_identity()["Account"]
        trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        trust["Statement"].append(
            {"Effect": "Allow", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}, "Action": "sts:AssumeRole"}
        )
        iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust))
        return self._assume(role)

    def _assume(self, role_arn: str) -> Credentials:
        given = self.client("sts").assume_role(RoleArn=role_arn, RoleSessionName="e2e")["Credentials"]
        return {
            "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
            "AWS_SESSION_TOKEN": given["SessionToken"],
        }

    # --- what a local endpoint drops ------------------------------------------------------------------------------

    def repair(self) -> list[str]:
        """Set by API what the endpoint dropped from the template, so that it behaves as deployed; what that was.

        That the template asks for it is asserted in tests/infra.
        """
        return self._repair_ttl() + self._repair_concurrency() + self._repair_batches() + self._repair_secret()

    def _repair_ttl(self) -> list[str]:
        from tickwork.core.ledger.tables import ALL_TABLES

        dynamodb, repaired = self.client("dynamodb"), []
        there = set(dynamodb.list_tables()["TableNames"])
        for table in ALL_TABLES:
            name = f"{self.settings.prefix}-{table.name}"
            if name not in there:  # of a later version than the one that is deployed
                continue
            standing = dynamodb.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
            if table.ttl and standing.get("AttributeName") != table.ttl:
                dynamodb.update_time_to_live(
                    TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": table.ttl}
                )
                repaired.append(f"TTL of {table.name}")
        return repaired

    def _repair_batches(self) -> list[str]:
        """The functions' roles, for the endpoint's own names of batches."""
        functions, iam, repaired = self.client("lambda"), self.client("iam"), []
        for name in self._functions():
            found = functions.get_function_configuration(FunctionName=f"{self.settings.prefix}-{name}")
            role = str(found["Role"]).rsplit("/", 1)[1]
            self._allow_batches(role, iam.get_role_policy(RoleName=role, PolicyName="grants")["PolicyDocument"])
            repaired.append(f"batches of {name}")
        return repaired

    def _repair_secret(self) -> list[str]:
        """`Ref` of a secret is its ARN; MiniStack makes its name of it, and then finds no policy that names the ARN.
        The role gets the statements that name it once more, with the ARN."""
        named = self.outputs["PushSecretArn"]
        arn = self.client("secretsmanager").describe_secret(SecretId=named)["ARN"]
        if named == arn:
            return []
        iam, repaired = self.client("iam"), []
        for name in self._functions():
            found = self.client("lambda").get_function_configuration(FunctionName=f"{self.settings.prefix}-{name}")
            role = str(found["Role"]).rsplit("/", 1)[1]
            granted = iam.get_role_policy(RoleName=role, PolicyName="grants")["PolicyDocument"]["Statement"]
            statements = [{**one, "Resource": arn} for one in granted if one["Resource"] in (named, [named])]
            if statements:
                document = json.dumps({"Version": "2012-10-17", "Statement": statements})
                iam.put_role_policy(RoleName=role, PolicyName="secret", PolicyDocument=document)
                repaired.append(f"ARN of the secret for {name}")
        return repaired

    def _functions(self) -> list[str]:
        """Those that are deployed: an earlier version has fewer."""
        there = self.client("lambda").list_functions()["Functions"]
        names = {str(one["FunctionName"]) for one in there}
        return [name for name in FUNCTIONS if f"{self.settings.prefix}-{name}" in names]

    def _allow_batches(self, role: str, granted: dict[str, Any]) -> None:
        """MiniStack asks for `sqs:SendMessageBatch` where AWS is content with `sqs:SendMessage`, and so on. The role
        gets the batches of just those actions that it has, on the same queues."""
        statements = [
            {**statement, "Action": batches}
            for statement in granted["Statement"]
            if (batches := [f"{action}Batch" for action in BATCHED if action in statement["Action"]])
        ]
        if statements:
            document = json.dumps({"Version": "2012-10-17", "Statement": statements})
            self.client("iam").put_role_policy(RoleName=role, PolicyName="batches", PolicyDocument=document)

    def _repair_concurrency(self) -> list[str]:
        functions, repaired = self.client("lambda"), []
        for function, wanted in ENVIRONMENTS[ENVIRONMENT].reserved.items():
            name = f"{self.settings.prefix}-{function}"
            standing = functions.get_function_concurrency(FunctionName=name).get("ReservedConcurrentExecutions")
            if standing != wanted:
                functions.put_function_concurrency(FunctionName=name, ReservedConcurrentExecutions=wanted)
                repaired.append(f"reserved concurrency of {function}")
        return repaired
