"""MiniStack as a context manager: started from its own environment on a free port, stopped, cleaned up.

It has an environment of its own (`.venv-ministack`), because it pins botocore, and because whatever is importable
there is importable in every function it runs: a dependency missing from the package would not be noticed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEALTHY_WITHIN_S = 30
STOPS_WITHIN_S = 8
REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class Running:
    """An endpoint that answers. The functions' processes are children of `pid`."""

    url: str
    pid: int


@contextmanager
def ministack(*, roles_enforced: bool, log: Path, port: int | None = None) -> Iterator[Running]:
    """A fresh endpoint. `roles_enforced`: every call is checked against the caller's IAM policies."""
    port = port or int(os.environ.get("E2E_PORT") or free_port())
    url = f"http://127.0.0.1:{port}"
    scratch = Path(tempfile.mkdtemp(prefix="tickwork-endpoint-"))
    with log.open("wb") as output:
        process = subprocess.Popen(
            [_executable()],
            cwd=scratch,
            env=_environment(port, scratch, roles_enforced=roles_enforced),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_until_healthy(url, process, log)
        yield Running(url, process.pid)
    finally:
        _stop(process)
        shutil.rmtree(scratch, ignore_errors=True)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _executable() -> str:
    """`.venv-ministack` of this checkout, or the one that TICKWORK_MINISTACK_VENV names."""
    venv = Path(os.environ.get("TICKWORK_MINISTACK_VENV") or ROOT / ".venv-ministack")
    executable = venv / "bin" / "ministack"
    if not executable.exists():
        raise SystemExit(f"{executable} is missing: run `make setup`, or give ENDPOINT=... of a running endpoint")
    return str(executable)


def _environment(port: int, scratch: Path, *, roles_enforced: bool) -> dict[str, str]:
    """Only what it needs: the functions inherit it, and must not find anything that AWS would not give them.

    Its temporary directories (one for each function's code) land in `scratch`, and go with it.
    """
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_REGION": REGION,
        "AUTH": "true" if roles_enforced else "false",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "LOG_LEVEL": os.environ.get("MINISTACK_LOG_LEVEL", "WARNING"),
    }


def _wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + HEALTHY_WITHIN_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{url}/_ministack/health", timeout=2) as answer:
                json.load(answer)
                return
        except (urllib.error.URLError, OSError, ValueError):
            time.sleep(0.1)
    raise RuntimeError(f"the local endpoint did not come up; its log ends with:\n{log.read_text()[-2_000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask, then insist. The functions' workers are in its process group, and go with it."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOPS_WITHIN_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOPS_WITHIN_S)
