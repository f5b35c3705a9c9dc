"""The end of a worker: what runs is finished, reported, or handed back.

First the jobs get their grace. What still runs then is told to stop, and handed back as soon as it has (W12). What has
ended is reported, and what has stopped handed back, as long as its lease holds. A job that does not stop keeps its
lease until the very end: then the process has to go, and the run is handed back for the moment at which it will be gone
(W3). Heartbeats go on through all of this. A crash or a kill anywhere leaves what it leaves at any time: a lease that
lapses.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from tickwork.worker.clock import WorkerClock
from tickwork.worker.context import Interrupted
from tickwork.worker.delivery import Delivery

log = logging.getLogger("tickwork.worker")

LOOK_S = 0.05
PAUSE_S = 1.0
"""Before a release that found no answer is tried again."""
EXIT_S = 5
"""So long after a run was handed back whose job still goes on, the process must have ended."""

type HandBack = Callable[[list[Delivery], int], list[Delivery]]


class ShuttingDown:
    """`active` are the runs that this worker holds; `stopped` takes out those that have stopped because they were told
    to; `hand_back` gives some to the platform and returns those to try again; `let_go` is called for what it took."""

    def __init__(
        self,
        active: Callable[[], Iterable[Delivery]],
        stopped: Callable[[], list[Delivery]],
        hand_back: HandBack,
        let_go: Callable[[Delivery], object],
        clock: WorkerClock,
    ) -> None:
        self._active, self._stopped, self._hand_back, self._let_go = active, stopped, hand_back, let_go
        self._clock = clock
        self._never = threading.Event()
        self._to_hand_back: list[Delivery] = []
        self._next_try_s = 0.0

    def drain(self, deadline_s: float, clean_up_s: float) -> None:
        """Wait for what runs, then for what was told to stop, then for what is still to be told: as long as its lease
        holds, also one that no heartbeat has reached, for until then nobody else has it."""
        self._wait_until(deadline_s, self.active)
        for delivery in self._running():
            delivery.call.stop(Interrupted)
        self._wait_until(self._clock.now_s() + clean_up_s, lambda: self._running() or self._to_hand_back)
        last_s = max((one.lease_ends_s for one in self._to_tell()), default=0.0)
        self._wait_until(last_s, self._to_tell)

    def hand_back_the_rest(self) -> None:
        """The last act: within `EXIT_S` of it the process must have ended."""
        rest = [one for one in self.active() if not one.ended_at_s and not one.stop.is_lost]
        if rest:
            self._try(rest, EXIT_S)

    def active(self) -> list[Delivery]:
        return list(self._active())

    def _running(self) -> list[Delivery]:
        """Those whose function has not ended."""
        waiting = {id(one) for one in self._to_hand_back}
        return [one for one in self.active() if not one.ended_at_s and id(one) not in waiting]

    def _to_tell(self) -> list[Delivery]:
        """What has ended or stopped, and the platform does not know yet."""
        return [*self._to_hand_back, *(one for one in self.active() if one.ended_at_s)]

    def _wait_until(self, deadline_s: float, waits: Callable[[], object]) -> None:
        """Hand back what has stopped, until there is nothing to wait for, or time is up."""
        while True:
            self._hand_back_stopped()
            if not waits() or self._clock.now_s() >= deadline_s:
                return
            self._clock.wait(self._never, LOOK_S)

    def _hand_back_stopped(self) -> None:
        now_s = self._clock.now_s()
        waiting = [*self._to_hand_back, *self._stopped()]
        self._to_hand_back = [one for one in waiting if now_s < one.lease_ends_s]
        for lapsed in (one for one in waiting if now_s >= one.lease_ends_s):
            self._let_go(lapsed)
        if self._to_hand_back and self._clock.now_s() >= self._next_try_s:
            self._to_hand_back = self._try(self._to_hand_back, 0)
            self._next_try_s = self._clock.now_s() + PAUSE_S if self._to_hand_back else 0.0

    def _try(self, deliveries: list[Delivery], stops_in_s: int) -> list[Delivery]:
        again = self._hand_back(deliveries, stops_in_s)
        waiting = {id(one) for one in again}
        for delivery in deliveries:
            if not stops_in_s and id(delivery) not in waiting:
                self._let_go(delivery)
        return again
