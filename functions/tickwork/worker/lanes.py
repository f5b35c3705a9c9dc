"""Several lanes of a pool as one source: what is transactional first, and nobody starves.

Each lane has a source of its own. Which is asked first goes turn by turn (`core/ledger/lanes.py`); what it leaves room
for, the others fill. While none has anything, one after the other is waited for, shortly: a queue tells only whoever
asks it. Protects W2 as its sources do: a run goes back to the lane it came from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Protocol

from tickwork.core.ledger.lanes import IDLE_TURNS, LANES, TURNS
from tickwork.worker.delivery import Delivery
from tickwork.worker.sources import Source

IDLE_POLL_S = 1
"""A long poll of a lane while the others may get something: each is a call that is paid, some 2.6 million a month."""


class LaneSource(Source, Protocol):
    """A source that can be asked without waiting, or waited for as long as is said."""

    def take(self, most: int, wait_s: int | None = None) -> list[Delivery]: ...


class LanedSource:
    """The lanes of a pool by their names."""

    def __init__(self, lanes: Mapping[str, LaneSource]) -> None:
        self._lanes = {lane: lanes[lane] for lane in LANES if lane in lanes}
        self._turns = cycle([lane for lane in TURNS if lane in self._lanes])
        self._idle_turns = cycle([lane for lane in IDLE_TURNS if lane in self._lanes])
        self._is_idle = False

    def take(self, most: int) -> list[Delivery]:
        """What there is, the lane whose turn it is first. Waits only after a turn that brought nothing."""
        if self._is_idle:
            taken = self._from(next(self._idle_turns), most, IDLE_POLL_S)
        else:
            taken = []
            first = next(self._turns)
            for lane in (first, *(lane for lane in self._lanes if lane != first)):
                if len(taken) < most:
                    taken += self._from(lane, most - len(taken), 0)
        self._is_idle = not taken
        return taken

    def _from(self, lane: str, most: int, wait_s: int) -> list[Delivery]:
        deliveries = self._lanes[lane].take(most, wait_s)
        for delivery in deliveries:
            delivery.lane = lane
        return deliveries

    def hold(self, deliveries: Sequence[Delivery]) -> None:
        for lane, own in self._by_lane(deliveries):
            self._lanes[lane].hold(own)

    def drop(self, deliveries: Sequence[Delivery]) -> None:
        for lane, own in self._by_lane(deliveries):
            self._lanes[lane].drop(own)

    def give_back(self, deliveries: Sequence[Delivery], seconds: int) -> None:
        for lane, own in self._by_lane(deliveries):
            self._lanes[lane].give_back(own, seconds)

    def close(self) -> None:
        for source in self._lanes.values():
            source.close()

    def _by_lane(self, deliveries: Sequence[Delivery]) -> list[tuple[str, list[Delivery]]]:
        found = [(lane, [one for one in deliveries if one.lane == lane]) for lane in self._lanes]
        return [(lane, own) for lane, own in found if own]
