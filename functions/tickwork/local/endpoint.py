"""The embedded AWS endpoint: MiniStack in an environment of its own, bound to 127.0.0.1.

It saves its state only on a clean end, so it is always asked to end and given time for it.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import urllib3

from tickwork.core.errors import TickworkError

HEALTHY_WITHIN_S = 60.0
ENDS_WITHIN_S = 20.0
_LOCAL_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1"}


class EndpointFailed(TickworkError):
    """The embedded endpoint did not start."""


def client_environ(port: int) -> dict[str, str]:
    """What a process needs to talk to the endpoint with boto3."""
    return {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}", **_LOCAL_CREDENTIALS}


class Endpoint:
    """A MiniStack process. `python` is the interpreter of its environment, `state` where it keeps its state."""

    def __init__(
        self, *, python: Path, port: int, state: Path, log: Path, extra: Mapping[str, str] | None = None
    ) -> None:
        self._python, self.port, self._state, self._log = python, port, state, log
        self._extra = dict(extra or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start and wait until it is healthy. EndpointFailed says where its log is."""
        if not self._python.exists():
            raise EndpointFailed(f"{self._python} is missing: run `make setup`")
        self._state.mkdir(parents=True, exist_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        environ = os.environ | {
            "GATEWAY_PORT": str(self.port),
            "BIND_HOST": "127.0.0.1",
            "IOT_MTLS_ENABLED": "0",
            "PERSIST_STATE": "1",
            "S3_PERSIST": "1",
            "STATE_DIR": str(self._state),
            **self._extra,
        }
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C reaches tickwork, which then ends it in order.
            self._process = subprocess.Popen(
                [self._python, "-m", "ministack"], env=environ, stdout=log, stderr=log, start_new_session=True
            )
        self._wait_until_healthy()

    def stop(self) -> bool:
        """End it; False when it had to be killed (its state since the start is then lost)."""
        process = self._process
        if process is None or process.poll() is not None:
            return True
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(ENDS_WITHIN_S)
            return True
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(ENDS_WITHIN_S)
            return False

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _wait_until_healthy(self) -> None:
        deadline_s = time.monotonic() + HEALTHY_WITHIN_S
        while time.monotonic() < deadline_s:
            if not self.is_running():
                raise EndpointFailed(f"the AWS endpoint ended at once: is port {self.port} taken? See {self._log}")
            if is_healthy(self.url):
                return
            time.sleep(0.1)
        self.stop()
        raise EndpointFailed(f"the AWS endpoint was not healthy within {HEALTHY_WITHIN_S:.0f} s: see {self._log}")


def is_healthy(url: str) -> bool:
    try:
        answer = urllib3.request("GET", f"{url}/_ministack/health", timeout=1.0, retries=False)
    except urllib3.exceptions.HTTPError:
        return False
    return answer.status == 200


def default_python() -> Path:
    """The interpreter of MiniStack's environment: beside the one that runs us, or where TICKWORK_MINISTACK says."""
    named = os.environ.get("TICKWORK_MINISTACK")
    if named:
        return Path(named)
    beside = Path(sys.prefix).parent / ".venv-ministack" / "bin" / "python"
    found = shutil.which("ministack-python")
    return beside if beside.exists() or not found else Path(found)
