"""tickwork's real processes (windows, API, worker) on the embedded endpoint, as `make run` has them."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from tickwork.aws.provision import create_all
from tickwork.aws.wiring import dynamodb_client, sqs_client
from tickwork.client import ApiClient
from tickwork.core.instants import iso
from tickwork.dev import endpoint
from tickwork.dev.endpoint import Endpoint
from tickwork.dev.processes import Child
from tickwork.settings import Settings

SETTINGS = Settings(prefix="tickwork-lag", shards=4, slices=2)
BATCH = 100


class Machine:
    """The endpoint, and tickwork's three processes on it."""

    def __init__(self, folder: Path, port: int, worker: str) -> None:
        self._endpoint = Endpoint(
            python=endpoint.default_python(), port=port, state=folder / "aws", log=folder / "endpoint.log"
        )
        self.api = ApiClient(f"http://127.0.0.1:{port + 1}", auth="none")
        environ = endpoint.client_environ(port) | SETTINGS.to_environ() | {"TICKWORK_API_URL": self.api.url}
        os.environ.update(environ)
        self.environ = environ
        commands = {
            "api": ("serve", "api", "--port", str(port + 1)),
            "windows": ("serve", "windows"),
            "worker": ("worker", worker, "--pool", "default", "--concurrency", "64"),
        }
        self._children = {n: Child(n, command, environ, folder / f"{n}.log") for n, command in commands.items()}

    def start(self, only: Sequence[str]) -> None:
        self._endpoint.start()
        create_all(dynamodb_client(), sqs_client(), SETTINGS)
        self.start_children(*only)
        for _ in range(60):
            try:
                self.api.call("GET", "/health", repeat=False)
                return
            except Exception:  # noqa: BLE001 - it is starting
                time.sleep(0.5)
        raise SystemExit("the API did not start")

    def start_children(self, *names: str) -> None:
        for name in names:
            self._children[name].start()

    def kill_children(self, *names: str) -> None:
        """kill -9, by pid."""
        for name in names:
            process = self._children[name].process
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(10)

    def stop(self) -> None:
        self.kill_children(*self._children)
        self._endpoint.stop()

    def create(self, count: int, lead_s: int, handler: str) -> None:
        """So many timers, all due in one second that is so far ahead."""
        due = iso((int(time.time()) + lead_s) * 1_000)
        timer = {"team": "bench", "target": {"pool": "default", "handler": handler}, "at": due}
        for begin in range(0, count, BATCH):
            self.api.call("POST", "/timers:batch", {"timers": [timer] * min(BATCH, count - begin)})
