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
from tickwork.ports import Ports

TRUSTED_MS = 30 * SECOND_MS
"""Revocation is to hold within 60 s everywhere: half of it leaves room for whoever caches in front of us."""
KNOWN_MAX = 1_000
"""Keys that a process remembers. Beyond it all are forgotten, and read again when they come."""


@dataclass(frozen=True, slots=True)
class _Known:
    key: ApiKey
    read_at_ms: int
    """By the monotonic clock: of before the read."""


class KnownKeys:
    """The keys a process has read lately. One for all threads that serve a process's requests."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._lock = threading.Lock()

    def actor_of(self, ports: Ports, text: str) -> Actor:
        """Unauthenticated, of the kind that says why, when the text is no key that is valid now."""
        key_id, digest = api_keys.read_key(text)
        key = self._read(ports, key_id, digest)
        actor = api_keys.actor_of(key, ports.clock.now_ms())
        self._note_use(ports, key)
        return actor

    def _read(self, ports: Ports, key_id: str, digest: str) -> ApiKey:
        asked_ms = ports.clock.monotonic_ms()
        with self._lock:
            known = self._known.get(digest)
        if known is not None and asked_ms - known.read_at_ms < TRUSTED_MS:
            return known.key
        key = api_keys.stored_key(ports.store.get(KEYS, {"key_id": key_id}), key_id, digest)
        self._remember(digest, _Known(key, asked_ms))
        return key

    def _remember(self, digest: str, known: _Known) -> None:
        with self._lock:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[digest] = known

    def _note_use(self, ports: Ports, key: ApiKey) -> None:
        """That it was used, at most once an hour. A call is not refused because this could not be written."""
        now_ms = ports.clock.now_ms()
        write = api_keys.use(key, now_ms)
        if write is None:
            return
        if warning := key.warning_at(now_ms):
            ports.signals.log("key_expires_soon", key_id=key.key_id, warning=warning)
        try:
            noted = ports.store.commit([write])
        except WorldError as error:
            ports.signals.log("key_use_not_noted", key_id=key.key_id, error=repr(error))
            return
        item = noted.item if isinstance(noted, Committed) else noted.only
        if item is not None:
            # As it now stands: a revocation in it counts at once. A refusal is another process that was first.
            self._remember(key.hash, _Known(ApiKey.from_item(item), ports.clock.monotonic_ms()))
