"""From the key that a caller shows to the actor it stands for.

A malformed key is refused without a read. What was read is trusted for `TRUSTED_MS`, so that a call costs no read and a
revocation holds within a minute in every process; whether a key has expired is asked of the clock at each call.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from tickwork.core.access import api_keys
from tickwork.core.access.actors import Actor
from tickwork.core.access.api_keys import ApiKey
from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import KEYS
from tickwork.core.ledger.writes import Committed
from tickwork.ports import Clock, Ports

TRUSTED_MS = 30 * SECOND_MS
"""Revocation is to hold within 60 s everywhere: half of it leaves room for whoever caches in front of us."""
KNOWN_MAX = 1_000
"""Keys that a process remembers. Beyond it all are forgotten, and read again when they come."""


@dataclass(frozen=True, slots=True)
class Instant:
    """One instant by both clocks. A process that was frozen may find that its monotonic clock stood still with it, and
    a wall clock may be set back: what was read is young while both say so."""

    now_ms: int
    monotonic_ms: int

    @classmethod
    def of(cls, clock: Clock) -> Instant:
        return cls(clock.now_ms(), clock.monotonic_ms())

    def is_within(self, duration_ms: int, since: Instant) -> bool:
        passed = (self.now_ms - since.now_ms, self.monotonic_ms - since.monotonic_ms)
        return all(0 <= one < duration_ms for one in passed)


@dataclass(frozen=True, slots=True)
class _Known:
    key: ApiKey
    read_at: Instant
    """Of before the read."""


class SeenKeys:
    """The keys a process has read lately. One for all threads that serve a process's requests. Only looks: no use is
    noted, and nothing is written."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def actor_of(self, ports: Ports, text: str) -> Actor:
        """Unauthenticated, of the kind that says why, when the text is no key that is valid now."""
        return api_keys.actor_of(self._key_of(ports, text), ports.clock.now_ms())

    def _key_of(self, ports: Ports, text: str) -> ApiKey:
        key_id, digest = api_keys.read_key(text)
        return self._read(ports, key_id, digest)

    def _read(self, ports: Ports, key_id: str, digest: str) -> ApiKey:
        asked_at = Instant.of(ports.clock)
        with self._lock:
            known = self._known.get(digest)
        if known is not None and asked_at.is_within(TRUSTED_MS, known.read_at):
            return known.key
        key = api_keys.stored_key(ports.store.get(KEYS, {"key_id": key_id}), key_id, digest)
        self._remember(digest, _Known(key, asked_at))
        return key

    def _remember(self, digest: str, known: _Known) -> None:
        with self._lock:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[digest] = known


class KnownKeys(SeenKeys):
    """The same for who acts upon them: that a key is used is noted."""

    def actor_of(self, ports: Ports, text: str) -> Actor:
        key = self._key_of(ports, text)
        actor = api_keys.actor_of(key, ports.clock.now_ms())
        self._note_use(ports, key)
        return actor

    def _note_use(self, ports: Ports, key: ApiKey) -> None:
        """That it was used, at most once an hour. A call is not refused because this could not be written."""
        now_ms = ports.clock.now_ms()
        write = api_keys.use(key, now_ms)
        if write is None:
            return
        if warning := key.warning_at(now_ms):
            ports.signals.log("key_expires_soon", key_id=key.key_id, warning=warning)
        asked_at = Instant.of(ports.clock)
        try:
            noted = ports.store.commit([write])
        except WorldError as error:
            ports.signals.log("key_use_not_noted", key_id=key.key_id, error=repr(error))
            return
        item = noted.item if isinstance(noted, Committed) else noted.only
        if item is not None:
            # As it now stands: a revocation in it counts at once. A refusal is another process that was first.
            self._remember(key.hash, _Known(ApiKey.from_item(item), asked_at))
