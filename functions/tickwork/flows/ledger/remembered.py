"""Items of the table `teams` as this process has read them lately: one read serves many calls.

Owns how long what was read is trusted. Refuses to know what the items say.
"""

from __future__ import annotations

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Item
from tickwork.ports import Ports, Remembered

TRUSTED_MS = 30 * SECOND_MS
REMEMBERED_MAX = 2_000
"""Items that a process remembers. Beyond it all are forgotten, and read again when they are asked for."""


def read(ports: Ports, keys: list[Item], *, anew: bool = False) -> list[Item | None]:
    """Items of the table `teams`, those that were read lately as they were then: in one call for all others."""
    now_ms = ports.clock.monotonic_ms()
    known = {} if anew else {place: found for key in keys if (found := ports.registry.get(place := _place(key)))}
    fresh = {place: one.item for place, one in known.items() if now_ms - one.asked_at_ms < TRUSTED_MS}
    missing = [key for key in keys if _place(key) not in fresh]
    if missing:
        for key, item in zip(missing, ports.store.get_many(TEAMS, missing), strict=True):
            remember(ports, key, item, now_ms)
            fresh[_place(key)] = item
    return [fresh[_place(key)] for key in keys]


def remember(ports: Ports, key: Item, item: Item | None, asked_at_ms: int | None = None) -> None:
    """What a process knows from now on. What it has just written is as good as read."""
    if len(ports.registry) >= REMEMBERED_MAX:
        ports.registry.clear()
    asked_at_ms = ports.clock.monotonic_ms() if asked_at_ms is None else asked_at_ms
    ports.registry[_place(key)] = Remembered(item, asked_at_ms)


def known(ports: Ports, key: Item) -> Item | None:
    """What was read last, however long ago; None also where nothing was."""
    found = ports.registry.get(_place(key))
    return found.item if found else None


def _place(key: Item) -> tuple[str, str]:
    return str(key["cell"]), str(key["team"])
