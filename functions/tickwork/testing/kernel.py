"""Virtual time: a heap of events, and plain synchronous code that is parked in greenlets.

Owns the order of things: whoever calls a port is parked, and the heap decides who goes on. Equal instants go on in
the order in which they were parked, so a history is a function of its seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush

from greenlet import getcurrent, greenlet

EVENTS_MAX = 400_000
"""Of one seed. A seed that needs more is a livelock, and is reported as one."""


class Livelock(Exception):
    """The history does not come to an end."""


class Kernel:
    """The clock of the world, and its event loop. Instants are true time, in milliseconds."""

    def __init__(self, now_ms: int, events_max: int = EVENTS_MAX) -> None:
        self.now_ms = now_ms
        self._events_max = events_max
        self.events = 0
        self.stopped = False
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._sequence = 0
        self.hub = getcurrent()

    def at(self, when_ms: int, action: Callable[[], object]) -> None:
        """Do something at an instant (now, if it has passed)."""
        self._sequence += 1
        heappush(self._heap, (when_ms, self._sequence, action))

    def park(self, duration_ms: int) -> None:
        """Called inside a process: let the others run, go on after the duration."""
        self._sequence += 1
        heappush(self._heap, (self.now_ms + duration_ms, self._sequence, getcurrent().switch))
        self.hub.switch()

    def wait(self, waiters: list[Callable[[], None]], duration_ms: int) -> bool:
        """Called inside a process: wait until somebody calls what this adds to `waiters` (True), or the duration has
        passed (False)."""
        waiting = getcurrent()
        outcome: list[bool] = []

        def go_on(is_called: bool) -> None:
            if not outcome:
                outcome.append(is_called)
                waiting.switch()

        def wake() -> None:
            self.at(self.now_ms, lambda: go_on(True))

        waiters.append(wake)
        self.at(self.now_ms + duration_ms, lambda: go_on(False))
        self.hub.switch()
        if wake in waiters:
            waiters.remove(wake)
        return outcome[0]

    def side_by_side(self, tasks: Sequence[Callable[[], object]]) -> None:
        """Called inside a process: run some tasks of it as processes of their own, and go on when all have ended."""
        waiting, left = getcurrent(), len(tasks)

        def run(task: Callable[[], object]) -> None:
            nonlocal left
            task()
            left -= 1
            if not left:
                self.at(self.now_ms, waiting.switch)

        for task in tasks:
            self.at(self.now_ms, greenlet(partial(run, task), self.hub).switch)
        self.hub.switch()

    def run_until(self, until_ms: int) -> None:
        """Everything up to and including an instant."""
        heap = self._heap
        while heap and heap[0][0] <= until_ms and not self.stopped:
            when_ms, _, action = heappop(heap)
            self.now_ms = max(self.now_ms, when_ms)
            self.events += 1
            if self.events > self._events_max:
                raise Livelock(f"{self._events_max} events and no end")
            action()
        if not self.stopped:
            self.now_ms = max(self.now_ms, until_ms)
