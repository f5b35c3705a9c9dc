"""Long polls of a server that answers few requests at a time: some may wait, the others are answered at once.

Knows nothing of leases. A call that may not wait still takes what is there: nobody is worse off than with a poll of no
seconds.
"""

from __future__ import annotations

import threading

from tickwork.ports import InMessage, Receiver


class FewLongPolls:
    """A `ports.Receiver` over another, of whose calls `at_once` wait for a message, and no more."""

    def __init__(self, receiver: Receiver, at_once: int) -> None:
        self._receiver = receiver
        self._free = threading.BoundedSemaphore(at_once)

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        if not wait_s or not self._free.acquire(blocking=False):
            return self._receiver.receive(queue, limit=limit, wait_s=0, hide_s=hide_s)
        try:
            return self._receiver.receive(queue, limit=limit, wait_s=wait_s, hide_s=hide_s)
        finally:
            self._free.release()

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        self._receiver.hide(queue, receipt, seconds)

    def delete(self, queue: str, receipt: str) -> None:
        self._receiver.delete(queue, receipt)
