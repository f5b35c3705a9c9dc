"""A session of `tickwork dev` on a terminal of its own, which may be ended in any way."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from pathlib import Path

from tickwork.client import ApiClient, ApiRefused, ApiUnreachable

ROOT = Path(__file__).parents[2]


def processes_of(state: Path) -> dict[int, str]:
    """Those that have the state's folder in their command line or environment, by pid: each part of a session has."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            if command and str(state).encode() in command + (folder / "environ").read_bytes():
                found[int(folder.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    found.pop(os.getpid(), None)
    return found


def _parent_of(pid: int) -> int | None:
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        return int(status.split("\nPPid:\t")[1].split("\n")[0])
    return None


class TerminalSession:
    def __init__(self, state: Path, port: int, endpoint_port: int, *options: str) -> None:
        self.state, self.port, self.endpoint_port = state, port, endpoint_port
        self.api = ApiClient(f"http://127.0.0.1:{port}", auth="none")
        self.shown = bytearray()
        self._closing = threading.Event()
        master, slave = pty.openpty()
        ports = ["--port", str(port), "--endpoint-port", str(endpoint_port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tickwork.cli.main", "dev", "--demo", *ports, "--state", str(state), *options],
            cwd=ROOT, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"},
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self._reader = threading.Thread(target=self._read, args=(master,), daemon=True)
        self._reader.start()

    def _read(self, master: int) -> None:
        with suppress(OSError):
            while not self._closing.is_set():
                if select.select([master], [], [], 0.05)[0]:
                    self.shown += os.read(master, 65_536)
        os.close(master)

    def close_terminal(self) -> None:
        """What happens to a session whose window is closed: SIGHUP, and nothing to write to."""
        self._closing.set()
        self._reader.join(5)

    def text(self) -> str:
        return self.shown.decode(errors="replace")

    def answers(self) -> bool:
        """Only this session's own API counts, and no one that is just ending."""
        if self.process.poll() is not None:
            return False
        try:
            self.api.call("GET", "/health", repeat=False)
        except (ApiUnreachable, ApiRefused):
            return False
        return b"ready after" in self.shown

    def endpoint_pid(self) -> int | None:
        """Not its copy, which saves and looks the same."""
        found = (pid for pid, line in processes_of(self.state).items() if "local/emulator.py" in line)
        return next((pid for pid in found if _parent_of(pid) == self.process.pid), None)

    def kill_all(self) -> None:
        for pid in processes_of(self.state):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.close_terminal()
