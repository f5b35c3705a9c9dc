"""The parts of a chaos run: the endpoint, the proxy in front of it that injects faults, tickwork's own processes."""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

from tests.support.machine import WORKER, eventually, free_port
from tickwork.aws.provision import create_all
from tickwork.aws.wiring import dynamodb_client, sqs_client
from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.local import endpoint
from tickwork.local.endpoint import Endpoint
from tickwork.settings import Settings

SETTINGS = Settings(prefix="tickwork-chaos", shards=4, slices=2, pools="default,bulk", retention_days=7)
ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Part:
    """A process that may be killed at any time, and is started again."""

    name: str
    command: list[str]
    environ: dict[str, str]
    log: Path
    kills: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, env={**os.environ, **self.environ}, cwd=ROOT, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def kill(self) -> None:
        """kill -9, by pid."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.kills += 1

    def stop(self) -> None:
        if self.process is not None and self.is_running:
            self.process.terminate()
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(5)


class Proxy:
    """microburst between tickwork and the endpoint."""

    def __init__(self, python: Path, port: int, upstream: str, log: Path) -> None:
        self.url = f"http://127.0.0.1:{port}"
        command = [str(python.with_name("microburst")), "--host", "127.0.0.1", "--port", str(port)]
        self.part = Part("proxy", [*command, "--upstream", upstream], {}, log)

    def start(self) -> None:
        self.part.start()
        eventually(self._answers, bool, within_s=60)

    def _answers(self) -> bool:
        try:
            return urllib3.request("GET", f"{self.url}/_microburst/rules", timeout=2.0, retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def set_rules(self, rules: list[dict[str, Any]]) -> None:
        answer = urllib3.request("POST", f"{self.url}/_microburst/rules", json=rules, timeout=10.0, retries=3)
        assert answer.status < 300, answer.data

    def fired(self) -> tuple[int, Counter[str]]:
        """Requests seen, and faults injected by what they were."""
        text = urllib3.request("GET", f"{self.url}/_microburst/metrics", timeout=10.0, retries=3).data.decode()
        faults: Counter[str] = Counter()
        seen = 0
        for line in text.splitlines():
            name, _, value = line.rpartition(" ")
            if name == "microburst_requests_total":
                seen = int(value)
            elif found := re.match(r'microburst_faults_total\{.*action="([^"]*)"', name):
                faults[re.sub(r"latency.*", "latency", found[1]).replace("error:x", "partial failure")] += int(value)
        return seen, faults


def draw_rules(rng: random.Random) -> list[dict[str, Any]]:
    """A swarm: each class of fault is on or off for a while, with a rate of its own."""
    writes = ("PutItem", "UpdateItem", "TransactWriteItems")
    sends = ("SendMessageBatch", "ReceiveMessage", "DeleteMessageBatch")
    reasons = {"CancellationReasons": [{"Code": "TransactionConflict", "Message": "injected"}]}
    one_failed = {
        "Failed": [{"Id": "0", "Code": "InternalError", "SenderFault": False, "Message": "injected"}],
        "Successful": [],
    }
    throttled = {"code": "ProvisionedThroughputExceededException", "message": "injected"}
    classes: list[list[dict[str, Any]]] = [
        [{"service": "dynamodb", "error": throttled}],
        [{"service": "dynamodb", "error": {"code": "InternalServerError", "status": 500}}],
        [{"service": "sqs", "error": {"code": "RequestThrottled", "status": 403}}],
        [{"service": "sqs", "error": {"code": "InternalError", "status": 500}}],
        [{"service": "dynamodb", "latency": {"min": 50, "max": 1500}}],
        [{"service": "sqs", "latency": {"min": 50, "max": 1500}}],
        [{"service": "dynamodb", "operation": op, "reset": True} for op in writes],
        [{"service": "sqs", "operation": op, "reset": True} for op in sends],
        [{"service": "dynamodb", "operation": op, "response": {"abort_bytes": 0}} for op in writes],
        [{"service": "sqs", "operation": op, "response": {"abort_bytes": 0}} for op in sends],
        [
            {
                "service": "dynamodb",
                "operation": "TransactWriteItems",
                "error": {"code": "TransactionCanceledException", "fields": reasons},
            }
        ],
        [
            {
                "service": "sqs",
                "operation": "SendMessageBatch",
                "error": {"status": 200, "code": "x", "fields": one_failed},
            }
        ],
    ]
    rules: list[dict[str, Any]] = []
    for group in classes:
        if rng.random() < 0.6:
            rate = round(rng.uniform(0.01, 0.1), 3)
            rules += [rule | {"probability": rate} for rule in group]
    return rules


class Stack:
    """Everything, behind the proxy. `parts` are the ones to be killed."""

    def __init__(self, folder: Path, chaos_python: Path, base_port: int, pools: Sequence[str] = ("default",)) -> None:
        ports = [base_port + n if base_port else free_port() for n in range(3)]
        self.folder = folder
        self.effects = folder / "effects.sqlite"
        self.endpoint = Endpoint(
            python=endpoint.default_python(), port=ports[0], state=folder / "aws", log=folder / "endpoint.log"
        )
        self.proxy = Proxy(chaos_python, ports[1], self.endpoint.url, folder / "proxy.log")
        self.api = ApiClient(f"http://127.0.0.1:{ports[2]}", auth="none")
        environ = endpoint.client_environ(ports[1]) | SETTINGS.to_environ()
        environ |= {"TICKWORK_API_URL": self.api.url, "EFFECTS": str(self.effects)}
        counted = [sys.executable, "-m", "tests.chaos.counted"]
        worker = [*counted, "worker", f"{WORKER}:app", "--pool"]
        self.parts = [
            Part(name, command, environ, folder / f"{name}.log")
            for name, command in (
                ("api", [*counted, "serve", "api", "--port", str(ports[2])]),
                ("windows-1", [*counted, "serve", "windows"]),
                ("windows-2", [*counted, "serve", "windows"]),
                ("worker-1", [*worker, "default"]),
                ("worker-2", [*worker, "default"]),
                *([("worker-bulk", [*worker, "bulk"])] if "bulk" in pools else []),
            )
        ]

    def __enter__(self) -> Stack:
        self.endpoint.start()
        try:
            os.environ.update(endpoint.client_environ(self.endpoint.port))  # the judge looks past the proxy
            create_all(dynamodb_client(), sqs_client(), SETTINGS)
            self.proxy.start()
            for part in self.parts:
                part.start()
            eventually(self._answers, bool, within_s=90)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for part in self.parts:
            part.stop()
        self.proxy.part.stop()
        self.endpoint.stop()

    def _answers(self) -> bool:
        try:
            self.api.call("GET", "/health", repeat=False)
        except (ApiUnreachable, ApiRefused):
            return False
        return True

    def kill_one(self, rng: random.Random) -> str:
        """kill -9 of one part at random, which is started again after a moment."""
        part = rng.choice(self.parts)
        part.kill()
        time.sleep(rng.uniform(0.1, 3.0))
        part.start()
        return part.name

    def revive(self) -> None:
        for part in self.parts:
            if not part.is_running:
                part.start()
