"""What a newcomer has open: a session as `make run` starts it, and a terminal in a folder of his own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.docs.blocks import ROOT
from tests.support.machine import eventually, free_port
from tickwork.client import DEFAULT_URL, ApiClient

STAYS = ("tickwork worker ", "tickwork dev ")
"""Commands that run until they are ended: a newcomer gives them a terminal of their own."""
ENDS_WITHIN_S = 60
COMMANDS_WITHIN_S = 120


class Session:
    """`make run`, on free ports and with a state of its own. What it shows is in `text()`."""

    def __init__(self, folder: Path) -> None:
        self._port, self._log, self.state = free_port(), folder / "session.log", folder / "state"
        self.url = f"http://127.0.0.1:{self._port}"
        self.api = ApiClient(self.url, auth="none")
        ports = ["--port", str(self._port), "--endpoint-port", str(free_port()), "--state", str(self.state)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tickwork.cli.main", "dev", "--demo", *ports],
                cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"}, stdout=log, stderr=log,
            )  # fmt: skip

    def text(self) -> str:
        return self._log.read_text(encoding="utf-8")

    def end(self) -> None:
        self._process.send_signal(signal.SIGINT)
        assert self._process.wait(ENDS_WITHIN_S) == 0, self.text()


class Terminal:
    """Runs commands as they stand on a page, but for the address of the API, in a folder that has `examples/`."""

    def __init__(self, folder: Path, url: str, environ: Mapping[str, str]) -> None:
        self.folder, self._url = folder, url
        folder.mkdir()
        (folder / "examples").symlink_to(ROOT / "examples")
        path = os.pathsep.join([str(Path(sys.executable).parent), environ["PATH"]])
        self._environ = {**environ, "PATH": path, "TICKWORK_API_URL": url, "COLUMNS": "200"}
        self._staying: list[tuple[str, subprocess.Popen[bytes]]] = []

    def run(self, commands: str) -> str:
        """What they write. Those that stay are started first; the others must succeed."""
        lines = commands.replace(DEFAULT_URL, self._url).splitlines()
        for line in lines:
            if line.startswith(STAYS):
                self._staying.append((line, self._start(line)))
        script = "\n".join(line for line in lines if not line.startswith(STAYS))
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder, env=self._environ, capture_output=True, text=True, timeout=COMMANDS_WITHIN_S,
        )  # fmt: skip
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _start(self, line: str) -> subprocess.Popen[bytes]:
        with (self.folder / "staying.log").open("ab") as log:
            return subprocess.Popen(
                shlex.split(line, comments=True), cwd=self.folder, env=self._environ, stdout=log, stderr=log
            )

    def end(self) -> None:
        """What stays must still be there, and end well when it is told to."""
        for line, process in self._staying:
            eventually(lambda process=process: has_ended(process) or heeds_sigterm(process.pid), bool, within_s=60)
            assert not has_ended(process), f"{line} has ended: {(self.folder / 'staying.log').read_text()}"
            process.send_signal(signal.SIGTERM)
            code = process.wait(ENDS_WITHIN_S)
            assert code == 0, f"{line} ended with {code}: {(self.folder / 'staying.log').read_text()}"


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def heeds_sigterm(pid: int) -> bool:
    """Whether a process has come so far that it ends in order: before, the signal just ends it."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    caught = int(status.split("\nSigCgt:\t")[1].split("\n")[0], 16)
    return bool(caught >> (signal.SIGTERM - 1) & 1)


@contextmanager
def session_in(folder: Path) -> Iterator[Session]:
    session = Session(folder)
    try:
        yield session
    finally:
        session.end()
