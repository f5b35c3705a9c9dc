"""The child processes of `tickwork dev`: started, watched, started again when they die, ended in order.

Each is tethered: it ends by itself when the process that started it has gone (`tether.py`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tickwork.core.errors import TickworkError
from tickwork.local.tether import GRACE_S

TETHER = "tickwork.local.tether"
ENDS_WITHIN_S = 15.0
RESTARTS_MAX = 20
RESTART_PAUSE_S = 1.0


class KeepsDying(TickworkError):
    """A part has died so often that starting it again would hide a fault."""


@dataclass(slots=True)
class Child:
    """One of tickwork's own processes. Its stderr is its log."""

    name: str
    arguments: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    module: str = "tickwork.cli.main"
    restarts: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", TETHER, str(os.getpid()), str(GRACE_S), self.module, *self.arguments],
                env={**os.environ, **self.environ},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


class Supervisor:
    """Starts children, and starts again those that died, up to a bound: a child that keeps dying is a fault to see."""

    def __init__(self, children: Sequence[Child]) -> None:
        self.children = list(children)

    def start(self) -> None:
        for child in self.children:
            child.start()

    def look_after(self) -> list[str]:
        """Restart what died; messages for the person who watches."""
        messages = []
        for child in self.children:
            if child.is_running:
                continue
            if child.restarts >= RESTARTS_MAX:
                raise KeepsDying(f"{child.name} died {RESTARTS_MAX} times: see {child.log}")
            child.restarts += 1
            time.sleep(RESTART_PAUSE_S)
            child.start()
            messages.append(f"{child.name} had died and was started again (its log: {child.log})")
        return messages

    def stop(self) -> None:
        """Ask all to end, wait, and kill what does not."""
        running = [child.process for child in self.children if child.process is not None and child.is_running]
        for process in running:
            process.send_signal(signal.SIGTERM)
        deadline_s = time.monotonic() + ENDS_WITHIN_S
        for process in running:
            try:
                process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
