"""tickwork's real processes on an embedded endpoint, for tests that kill them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

from tickwork.aws.provision import create_all
from tickwork.aws.wiring import dynamodb_client, sqs_client
from tickwork.client import ApiClient, ApiRefused, ApiUnreachable
from tickwork.local import endpoint
from tickwork.local.endpoint import Endpoint
from tickwork.local.processes import Child
from tickwork.settings import Settings

SETTINGS = Settings(prefix="tickwork-test", shards=4, slices=2, pools="default,payments", retention_days=7)
WORKER = Path(__file__).with_name("effects_worker.py")


def free_port() -> int:
    """A free port; TICKWORK_TEST_PORTS=4700-4749 keeps to a range."""
    first, _, last = os.environ.get("TICKWORK_TEST_PORTS", "0-0").partition("-")
    candidates = list(range(int(first), int(last) + 1))
    for port in candidates[os.getpid() % len(candidates) :] + candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found = int(probe.getsockname()[1])
            if found not in _given:
                _given.add(found)
                return found
    raise RuntimeError(f"no free port in {first}-{last}")


_given: set[int] = set()


def eventually[T](look: Callable[[], T], wanted: Callable[[T], bool], within_s: float, every_s: float = 0.25) -> T:
    """Look until it is as wanted; the last look fails the test."""
    deadline_s = time.monotonic() + within_s
    while True:
        found = look()
        if wanted(found):
            return found
        assert time.monotonic() < deadline_s, f"not within {within_s} s: {found!r}"
        time.sleep(every_s)


class Machine:
    """An endpoint that stays up, and the API, the windows and a worker, which may be killed and started again."""

    def __init__(self, folder: Path, settings: Settings = SETTINGS) -> None:
        self._folder, self._settings = folder, settings
        self._api_port = free_port()
        self.effects = folder / "effects.sqlite"
        self.endpoint = Endpoint(
            python=endpoint.default_python(), port=free_port(), state=folder / "aws", log=folder / "endpoint.log"
        )
        self.api = ApiClient(f"http://127.0.0.1:{self._api_port}", auth="none")

    def __enter__(self) -> Machine:
        self.endpoint.start()
        environ = endpoint.client_environ(self.endpoint.port) | self._settings.to_environ()
        os.environ.update(environ)
        create_all(dynamodb_client(), sqs_client(), self._settings)
        environ |= {"TICKWORK_API_URL": self.api.url, "EFFECTS": str(self.effects)}
        self.children = [
            Child("api", ("serve", "api", "--port", str(self._api_port)), environ, self._folder / "api.log"),
            Child("windows", ("serve", "windows"), environ, self._folder / "windows.log"),
            Child("worker", ("worker", f"{WORKER}:app", "--pool", "payments"), environ, self._folder / "worker.log"),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.endpoint.stop()

    def start(self) -> None:
        for child in self.children:
            child.start()
        eventually(self.answers, bool, within_s=30)

    def kill(self) -> None:
        """kill -9 of tickwork's own processes, by their pids."""
        for child in self.children:
            if child.process is not None and child.is_running:
                child.process.kill()
                child.process.wait(10)

    def answers(self) -> bool:
        try:
            self.api.call("GET", "/health", repeat=False)
        except (ApiUnreachable, ApiRefused):
            return False
        return True
