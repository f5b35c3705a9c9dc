"""The local AWS endpoint: MiniStack in an environment of its own, bound to 127.0.0.1.

The one launcher: `make run` keeps its state from session to session, the end-to-end tests and the load test deploy the
real stacks onto one that is fresh. It runs behind a guard and saves its state at short intervals (`emulator.py`); it is
asked to end all the same, and given time for it. It has its own Python environment because it pins botocore, and
because whatever can be imported there can be imported in every function it runs: what is missing from the package would
not be noticed.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Self

import urllib3

from tickwork.core.errors import TickworkError
from tickwork.local import environment, guard, snapshots

PROGRAM = Path(__file__).with_name("emulator.py")
SERVICES = ("dynamodb", "sqs")
"""All that tickwork's processes use. A service that is there can be asked to run code, as Lambda can."""
HEALTHY_WITHIN_S = 60.0
SAVES_WITHIN_S = 20.0
ENDS_WITHIN_S = 8.0
"""With nothing to save: what is still busy then is a function that nobody waits for."""
LOG_CHARS_SHOWN = 2_000
REGION = "us-east-1"
_INHERITED = ("PATH", "LANG", "LC_ALL", "TZ")


class EndpointFailed(TickworkError):
    """The local endpoint did not start."""


@cache
def session_key() -> str:
    """The access key of the endpoints that this process starts: whoever has it is let in, so it is in no file, and goes
    to our own processes by their environment."""
    return f"TICKWORK{secrets.token_hex(16)}"


def client_environ(port: int) -> dict[str, str]:
    """What a process needs to talk to the endpoint with boto3."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": session_key(),
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
    }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Endpoint:
    """A MiniStack process, and the functions that it runs as its children.

    `python`: the interpreter of its environment. `state`: where it keeps its state; without, it starts empty and leaves
    nothing. `roles_enforced`: it has every service, and checks each call against the caller's IAM policies; without, it
    has `SERVICES`, for those who have this session's key.
    """

    def __init__(
        self,
        *,
        log: Path,
        port: int | None = None,
        python: Path | None = None,
        state: Path | None = None,
        roles_enforced: bool = False,
    ) -> None:
        self.port = port or free_port()
        self._log, self._roles_enforced = log, roles_enforced
        self._state = None if state is None else state.absolute()
        self._python = (python or default_python()).absolute()
        self._scratch: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start and wait until it is healthy. EndpointFailed says where its log is, and how it ends."""
        if not self._python.exists():
            raise EndpointFailed(f"{self._python} is missing: run `make setup`, or name it with TICKWORK_MINISTACK")
        if self._state is not None:
            self._state.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._state.chmod(0o700)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        self._scratch = Path(tempfile.mkdtemp(prefix="tickwork-endpoint-"))
        with self._log.open("ab") as log:
            # A session of its own: Ctrl-C reaches tickwork, which then ends it in order.
            self._process = subprocess.Popen(
                [self._python, "-P", PROGRAM],
                cwd=self._scratch,
                env=self._environ(self._scratch),
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
            )
        self._wait_until_healthy()

    def stop(self) -> bool:
        """End it; False when it had to be killed (what was written since its last save is then lost)."""
        process, ended = self._process, True
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                ended = _ends(process, ENDS_WITHIN_S if self._state is None else SAVES_WITHIN_S)
            with suppress(ProcessLookupError):  # the functions are in its process group, and go with it
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(ENDS_WITHIN_S)
            self._process = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
        return ended

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def unsaved_s(self) -> float:
        """How long ago what is on disk was what the endpoint has: what its sudden end would cost."""
        assert self._state is not None
        with suppress(FileNotFoundError):
            return max(0.0, time.time() - (self._state / snapshots.MARK).stat().st_mtime)
        return 0.0

    def cannot_save(self) -> bool:
        assert self._state is not None
        return (self._state / snapshots.MARK_OF_FAILURE).exists()

    def _environ(self, scratch: Path) -> Mapping[str, str]:
        """Only what it needs: the functions inherit it, and must not find anything that AWS would not give them. Its
        temporary folders (one for each function's code) land in `scratch`, and go with it."""
        environ = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environ |= {
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_REGION": REGION,
            "AUTH": "true" if self._roles_enforced else "false",
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "TICKWORK_PARENT": str(os.getpid()),
            "LOG_LEVEL": os.environ.get("MINISTACK_LOG_LEVEL", "WARNING"),
        }
        if not self._roles_enforced:
            environ |= {"SERVICES": ",".join(SERVICES), "TICKWORK_ENDPOINT_KEY": session_key()}
        if self._state is not None:
            environ |= {
                "PERSIST_STATE": "1",
                "STATE_DIR": str(self._state),
                "S3_PERSIST": "1",
                "S3_DATA_DIR": str(self._state / "s3"),
            }
        return environ

    def _wait_until_healthy(self) -> None:
        deadline_s = time.monotonic() + HEALTHY_WITHIN_S
        while time.monotonic() < deadline_s:
            if not self.is_running():
                raise self._ended_at_once()
            if is_healthy(self.url):
                return
            time.sleep(0.1)
        raise self._failed(f"was not healthy within {HEALTHY_WITHIN_S:.0f} s")

    def _ended_at_once(self) -> EndpointFailed:
        assert self._process is not None
        if self._process.returncode == snapshots.UNREADABLE:
            return self._failed(
                "does not start, so that the jobs in it are not overwritten: put a copy of its state in place, or move "
                f"the folder away to begin without any job (mv {self._state} {self._state}.damaged)"
            )
        return self._failed(f"ended at once (is port {self.port} taken?)")

    def _failed(self, how: str) -> EndpointFailed:
        self.stop()
        end = self._log.read_text(encoding="utf-8", errors="replace")[-LOG_CHARS_SHOWN:].strip()
        return EndpointFailed(
            f"the AWS endpoint {how}; its log is {self._log}" + (f" and ends with\n{end}" if end else "")
        )


def _ends(process: subprocess.Popen[bytes], within_s: float) -> bool:
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def is_healthy(url: str) -> bool:
    try:
        headers = guard.key_header(session_key())
        answer = urllib3.request("GET", url + guard.HEALTH, headers=headers, timeout=1.0, retries=False)
    except urllib3.exceptions.HTTPError:
        return False
    return answer.status == 200


def default_python() -> Path:
    """The interpreter of the endpoint's environment, in a clone: whether it is there is asked when it starts."""
    return environment.existing() or Path(sys.prefix).parent / ".venv-ministack" / "bin" / "python"
