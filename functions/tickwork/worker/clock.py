"""The worker's only clock and its only way to wait: monotonic, so that a step of the wall clock moves no heartbeat."""

from __future__ import annotations

import threading
import time
import uuid

_SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", None)
"""Of Linux: goes on while the machine sleeps, as leases do. The monotonic clock stands still then, and a lease that
lapsed overnight would be trusted for the rest of it in the morning."""


class WorkerClock:
    """Tests pass one that they move themselves."""

    def now_s(self) -> float:
        return time.monotonic() if _SINCE_BOOT is None else time.clock_gettime(_SINCE_BOOT)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Until the event is set (True) or the seconds have passed (False)."""
        return event.wait(seconds)

    def unique(self) -> str:
        """A text nobody else will ever get: names a claim."""
        return uuid.uuid4().hex
