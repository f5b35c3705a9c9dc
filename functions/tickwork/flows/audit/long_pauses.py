"""Pauses of scopes, as the reconciler sees them: those that nobody seems to remember are told, those that nothing can
ask for any more are forgotten."""

from __future__ import annotations

from tickwork.core.errors import WorldError
from tickwork.core.instants import DAY_MS, iso_ms
from tickwork.core.jobs.pauses import pause_in_force
from tickwork.core.jobs.scopes import PausedScope, scope_key
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.writes import Delete, Is
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.paused import read_paused
from tickwork.ports import Ports

LONG_MS = DAY_MS
"""A pause without an end is told from then on: what waits for it goes on waiting until somebody resumes it."""


def look_at_pauses(ports: Ports) -> None:
    """Tell those that have no end and are long; forget those that ended long ago."""
    try:
        for one in read_paused(ports).scopes:
            _look_at(ports, one, ports.clock.now_ms())
    except WorldError as error:  # the next run looks again
        ports.signals.log("pauses_unread", why=repr(error))


def _look_at(ports: Ports, one: PausedScope, now_ms: int) -> None:
    pause = pause_in_force(one.pauses, now_ms)
    if pause is not None and not pause.until_ms and pause.from_ms + LONG_MS <= now_ms:
        ports.signals.count("scheduler.pauses_without_end_total", kind=one.scope.kind)
        ports.signals.log(
            "pause_without_end", scope=one.scope.key, by=pause.by, reason=pause.reason, since=iso_ms(pause.from_ms)
        )
    if one.is_forgotten(now_ms):
        commit(ports, Delete(TEAMS, scope_key(one.scope), Is("version", one.version)))
