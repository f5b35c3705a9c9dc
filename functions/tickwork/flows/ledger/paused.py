"""What is paused beyond single jobs, as windows and starts know it.

A window reads it once, consistently, before it fires the first thing: a read unit where nothing is paused. A start
goes by what its process has read within `TRUSTED_MS`, so that where nothing is paused a process pays a read in that
time, whatever it starts; before it refuses anything it reads anew. While the table cannot be read, a process goes by
the last it knows: a busy table is to stop nobody's dispatch, and to end nobody's pause. One that never knew goes no
further.
"""

from __future__ import annotations

from tickwork.core.access.teams import PAUSES
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.scopes import NONE, Paused, PausedScope, paused_of
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Item
from tickwork.flows.ledger.commit import pause_ms
from tickwork.flows.ledger.reading import pages
from tickwork.ports import Ports, Remembered

PLACE = (PAUSES, "*")
"""Where a process remembers it, among what else it has read of the table `teams`."""

TRUSTED_MS = 5 * SECOND_MS
"""So long after a pause was acknowledged may a run that is queued already start."""

READ_TRIES_MAX = 2
"""Beyond what the client library repeats itself."""

_PAGE = 200
"""Scopes that are paused, or were in the last week: some hundred teams and their pools at the most."""

ALL_SCOPES = ("!", "~")
"""Sort-key bounds (inclusive) of all of them: they begin with a team's name."""


def read_paused(ports: Ports) -> Paused:
    """As it stands now, in all cells; while it cannot be read, as it was when this process last read it."""
    for tries in range(1, READ_TRIES_MAX + 1):
        try:
            return _read(ports)
        except WorldError as error:
            if tries < READ_TRIES_MAX:
                ports.clock.sleep_ms(pause_ms(tries))
                continue
            ports.signals.count("scheduler.pauses_unread_total")
            ports.signals.log("pauses_unread", why=repr(error))
            known = ports.registry.get(PLACE)
            if known is None or known.item is None:
                raise
            return _readable(ports, known.item["scopes"])
    raise AssertionError("unreachable: the last try returns or raises")


def known_paused(ports: Ports) -> Paused:
    """As it was at most `TRUSTED_MS` ago."""
    known = ports.registry.get(PLACE)
    if known is None or known.item is None or ports.clock.monotonic_ms() - known.asked_at_ms >= TRUSTED_MS:
        return read_paused(ports)
    return _readable(ports, known.item["scopes"])


def shown_paused(ports: Ports) -> Paused:
    """As an answer shows it that is about something else: where nothing is known, nothing is shown."""
    try:
        return known_paused(ports)
    except WorldError:
        return NONE


def _read(ports: Ports) -> Paused:
    asked_at_ms = ports.clock.monotonic_ms()
    found: list[Item] = []
    for page in pages(ports, TEAMS, PAUSES, *ALL_SCOPES, limit=_PAGE):
        found += page.items
    ports.registry[PLACE] = Remembered({"scopes": found}, asked_at_ms)
    return _readable(ports, found)


def _readable(ports: Ports, found: list[Item]) -> Paused:
    """Those that this version can read. What it cannot read, it does not know of."""
    scopes: list[PausedScope] = []
    for item in found:
        try:
            scopes.append(PausedScope.from_item(item))
        except Unreadable as error:
            ports.signals.count("scheduler.pauses_unread_total")
            ports.signals.log("pauses_unread", why=str(error))
    return paused_of(scopes)
