"""Who uses a state's folder and the ports: one session at a time, and the next one is told which process it is.

Owns the lock of a state, and what a session that was killed leaves for a moment: its endpoint, which saves before it
ends. Protects the state from a second writer.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from tickwork.core.errors import TickworkError

PREDECESSOR_WITHIN_S = 20.0
"""How long a start waits for what a killed session has left: its parts notice within a second, and save."""
ENDS_WITHIN_S = 60.0
_LISTENS = "0A"
"""The state of a listening socket in /proc/net/tcp."""


class NotStarted(TickworkError):
    """A part of the session did not come up."""


@contextmanager
def only_session_of(state: Path) -> Iterator[bool]:
    """Holds the lock of a state; gives whether the session before was killed. NotStarted while another one holds it."""
    os.umask(0o077)  # payloads, secrets and logs are their owner's
    ours = not state.exists() or (state / "lock").exists()
    state.mkdir(parents=True, exist_ok=True)
    if ours:
        state.chmod(0o700)  # one that an older version made
    with (state / "lock").open("a+", encoding="utf-8") as lock:
        before = _pid_in(lock)
        if not _locked(lock):
            raise NotStarted(
                f"another session ({_named(before)}) uses {state}: end it with `make stop`, "
                "or name another folder with --state"
            )
        _write(lock, str(os.getpid()))
        try:
            yield before is not None
        finally:
            _write(lock, "")


def end_session_of(state: Path) -> str:
    """Ask the session on a state to end, and wait until it has; what came of it, in words."""
    if not (state / "lock").exists():
        return f"no session uses {state}"
    with (state / "lock").open("a+", encoding="utf-8") as lock:
        if _locked(lock):
            return f"no session uses {state}"
        pid = _pid_in(lock)
        if pid is None:
            raise NotStarted(f"the session on {state} is just starting or ending: try again")
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline_s = time.monotonic() + ENDS_WITHIN_S
        while not _locked(lock):
            if time.monotonic() > deadline_s:
                raise NotStarted(f"the session (pid {pid}) did not end within {ENDS_WITHIN_S:.0f} s: see {state}/logs")
            time.sleep(0.1)
    return f"the session (pid {pid}) has ended; its state stays in {state}"


def require_free(port: int, what: str, variable: str, within_s: float = 0.0) -> None:
    """NotStarted when something listens on the port, and goes on to for so long."""
    deadline_s = time.monotonic() + within_s
    while (why := _why_taken(port)) is not None:
        if time.monotonic() >= deadline_s:
            raise NotStarted(
                f"port {port} cannot be had for {what} ({why}): {_named(holder_of(port))} holds it. End that, "
                f"or name another with {variable}=..."
            )
        time.sleep(0.1)


def _why_taken(port: int) -> str | None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have just ended do not count
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def holder_of(port: int) -> int | None:
    """The process that listens on a port; None where that cannot be told (no /proc, another user's)."""
    inodes = set(_listening(port))
    for folder in Path("/proc").glob("[0-9]*") if inodes else ():
        with suppress(OSError):  # it has ended, or is not ours to look into
            for fd in (folder / "fd").iterdir():
                with suppress(OSError):
                    if os.readlink(fd) in inodes:
                        return int(folder.name)
    return None


def _listening(port: int) -> Iterator[str]:
    with suppress(OSError):
        for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(f":{port:04X}") and fields[3] == _LISTENS:
                yield f"socket:[{fields[9]}]"


def _named(pid: int | None) -> str:
    return "a process that cannot be told" if pid is None else f"pid {pid}"


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _pid_in(lock: IO[str]) -> int | None:
    lock.seek(0)
    text = lock.read().strip()
    return int(text) if text.isascii() and text.isdigit() else None


def _write(lock: IO[str], text: str) -> None:
    lock.seek(0)
    lock.truncate()
    lock.write(text)
    lock.flush()
