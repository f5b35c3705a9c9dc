"""Loops in threads that nothing ends but the word to stop: what a step raises is logged, and the loop goes on.

A Lambda that raises is started again by its trigger; a thread that dies is missed by nobody, while the process around
it looks healthy. Protects bounded-lag.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from tickwork.core.errors import WorldError, told_error, told_way
from tickwork.ports import Signals

FIRST_PAUSE_S = 1.0
PAUSE_S_MAX = 30.0
"""A part that is broken for long is tried about as often as a tick that comes back."""


def keep_doing(
    step: Callable[[], object], *, name: str, stopping: threading.Event, signals: Signals, every_s: float = 0.0
) -> None:
    """Do a step over and over until told to stop, `every_s` apart. One that failed is tried again after a second, then
    after twice as long each time, up to half a minute."""
    pause_s = FIRST_PAUSE_S
    while not stopping.is_set():
        try:
            step()
        except Exception as error:  # noqa: BLE001 - the thread must not die of it
            _tell(signals, name, error)
            stopping.wait(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)
        else:
            pause_s = FIRST_PAUSE_S
            stopping.wait(every_s)


def run_together(loops: Sequence[Callable[[], None]]) -> None:
    """Each in a thread of its own. Returns when all have ended."""
    threads = [threading.Thread(target=loop) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _tell(signals: Signals, name: str, error: Exception) -> None:
    """The world's errors are a line; any other is a fault of ours, counted, with the way that led to it."""
    facts = {"thread": name, "error": told_error(error)}
    if not isinstance(error, WorldError):
        signals.count("local.threads_failed_total")
        facts["traceback"] = told_way(error)
    signals.log("thread_failed", **facts)
