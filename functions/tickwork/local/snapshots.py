"""The endpoint's state on disk: saved while it runs, and never begun without.

The endpoint saves when it is ended in order, and starts empty when it cannot read what it saved. Owns when its own
saving is called, and what happens when its own loading complains. Runs in the endpoint's interpreter: the standard
library is all there is. Protects no-lost-timer on one machine: a kill -9 of the endpoint costs what was written since
the last save.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tickwork.local.tether import ask_kernel

EVERY_S = 1.0
REST = 20
"""A save is followed by a rest of so many times its length: a large state takes 5% of a core, and is saved less
often."""
SAVES_WITHIN_S = 60
FDS_MAX = 1 << 20
REST_S_MAX = 60.0
MARK = "saved"
"""Its time: all that was written before is on disk."""
MARK_OF_FAILURE = "unsaved"
"""Is there while the last save has failed."""
UNREADABLE = 78
"""The exit code of an endpoint that does not start because of its state."""


class Errors(logging.Handler):
    """What was logged as an error while it listened: the endpoint tells of a failure in no other way."""

    def __init__(self, loggers: Iterable[logging.Logger]) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        self._loggers = list(loggers)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def __enter__(self) -> Errors:
        for logger in self._loggers:
            logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        for logger in self._loggers:
            logger.removeHandler(self)


def read_all(folder: Path, load: Callable[[str], Any], errors: Errors) -> dict[str, Any]:
    """What each file of the state holds; an error for one that holds nothing that can be read."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.json")):
        known = len(errors.lines)
        try:
            found[path.stem] = load(path.stem)
        except Exception as error:  # noqa: BLE001 - whatever it is, the state is not to be overwritten
            errors.lines.append(f"{path}: {error!r}")
        if found.get(path.stem) is None and len(errors.lines) == known:
            errors.lines.append(f"{path} holds no state")
    return found


def refuse_to_start(folder: Path, lines: list[str]) -> None:
    """Ends the process: started empty, it would overwrite what is there."""
    told = "; ".join(lines)
    print(f"the state in {folder} cannot be read, and nothing of it was changed: {told}", file=sys.stderr, flush=True)
    os._exit(UNREADABLE)


class Saver:
    """Saves at short intervals, from a copy of the process that the kernel makes at one instant (fork): the endpoint
    goes on answering meanwhile. `save` writes all files, each whole or not at all, and says whether it could."""

    def __init__(self, folder: Path, save: Callable[[], bool]) -> None:
        self._folder, self._save = folder, save
        self._changed, self._under_way, self._child = False, 0, 0
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around each call: until it has ended it may change something, and when it has, it may have."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._changed = True

    def start(self) -> None:
        """To be called in the endpoint's loop, where its state is changed: between two calls it is whole."""
        self._task = asyncio.get_running_loop().create_task(self._keep_saving())

    async def stop(self) -> None:
        """No save is under way afterwards, so that the last one, the endpoint's own, has the files for itself."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        if self._child:
            with suppress(ProcessLookupError):
                os.kill(self._child, signal.SIGKILL)
            while self._child:
                await asyncio.sleep(0.01)
                self._look_at_child()

    async def _keep_saving(self) -> None:
        pause_s = EVERY_S
        while True:
            await asyncio.sleep(pause_s)
            saved, began_at_s, began_s = True, time.time(), time.monotonic()
            if self._changed or self._under_way:
                self._changed = False
                saved = await self._save_in_copy()
                self._changed = self._changed or not saved
            self._mark(saved, began_at_s)
            pause_s = min(max(EVERY_S, REST * (time.monotonic() - began_s)), REST_S_MAX)

    def _mark(self, saved: bool, began_at_s: float) -> None:
        with suppress(OSError):  # a full disk, perhaps; the next save tries again
            if saved:
                (self._folder / MARK).touch()
                os.utime(self._folder / MARK, (began_at_s, began_at_s))
                (self._folder / MARK_OF_FAILURE).unlink(missing_ok=True)
            else:
                (self._folder / MARK_OF_FAILURE).touch()

    async def _save_in_copy(self) -> bool:
        self._child = os.fork()
        if not self._child:
            self._be_the_copy()
        status = None
        while status is None:
            await asyncio.sleep(0.02)
            status = self._look_at_child()
        return status == 0

    def _look_at_child(self) -> int | None:
        """Its exit status; None while it is at work."""
        try:
            pid, status = os.waitpid(self._child, os.WNOHANG)
        except ChildProcessError:
            pid, status = self._child, 1
        if not pid:
            return None
        self._child = 0
        return status

    def _be_the_copy(self) -> None:
        """Write and end. Nothing here may return: this is the endpoint's loop, a second time."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
                signal.signal(signum, signal.SIG_DFL)
            signal.alarm(SAVES_WITHIN_S)
            ask_kernel(signal.SIGKILL)  # the next endpoint must not meet a copy of the last one
            os.closerange(3, FDS_MAX)  # the port among them
            code = 0 if self._save() else 1
        finally:
            os._exit(code)
