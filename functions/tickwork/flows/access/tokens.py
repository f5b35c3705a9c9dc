"""From a token (JWT) of a configured issuer to the actor that its claims make of its bearer.

The issuer's keys are kept: asked for again when they are old, or when a token names one that is not among them, and
used on while the issuer cannot be reached. Each request is judged by its own clock; no verdict is kept. Refuses to know
the network and how signatures are checked. Protects: whatever is sent, the issuer is asked at most once in `AGAIN_MS`.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.access import tokens
from tickwork.core.access.actors import Actor
from tickwork.core.access.issuers import Issuer, actor_of_claims
from tickwork.core.access.tokens import Head, Key
from tickwork.core.errors import BadToken, IssuerAway, MalformedKey
from tickwork.core.instants import HOUR_MS, MINUTE_MS, SECOND_MS
from tickwork.flows.access.authenticating import Instant, SeenKeys
from tickwork.ports import KeyDesk, Ports

FRESH_MS = 15 * MINUTE_MS
"""A key that an issuer withdraws is used for so long at most, while the issuer answers."""
AGAIN_MS = 10 * SECOND_MS
"""Between two questions, whatever comes: an issuer publishes a key before it signs with it, and flooding us does not
flood it."""
KEPT_MS = 24 * HOUR_MS
"""How long an issuer that does not answer is believed what it said last. Its tokens end much earlier; whoever holds a
key that was withdrawn must not gain for ever by keeping us from hearing of it."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What an issuer has said of its keys, and when: before it was asked."""

    keys: Sequence[Key]
    at: Instant


class Tokens:
    """The tokens of one issuer. One for all threads that serve a process's requests."""

    def __init__(self, issuer: Issuer, desk: KeyDesk) -> None:
        self._issuer, self._desk = issuer, desk
        self._said: _Said | None = None
        self._asked_at: Instant | None = None
        self._one_at_a_time = threading.Lock()

    def actor_of(self, ports: Ports, text: str) -> Actor:
        """BadToken, ExpiredToken or Forbidden when it makes nobody of its bearer; IssuerAway when that is not known."""
        head = tokens.read_head(text)
        claims = self._desk.proven(text, self._key_for(ports, head), self._issuer)
        tokens.check_times(claims, ports.clock.now_ms())
        return actor_of_claims(claims, self._issuer)

    def _key_for(self, ports: Ports, head: Head) -> Key:
        with self._one_at_a_time:
            now = Instant.of(ports.clock)
            said = self._said
            found = None if said is None else tokens.key_for(head, said.keys)
            is_fresh = said is not None and now.is_within(FRESH_MS, said.at)
            if (found is None or not is_fresh) and self._may_ask(now):
                said = self._ask(ports, now)
                found = None if said is None else tokens.key_for(head, said.keys)
        if said is None or not now.is_within(KEPT_MS, said.at):
            raise IssuerAway(f"the keys of {self._issuer.url} are not known")
        if found is None:
            raise BadToken(
                f"this token is not taken: {self._issuer.url} has no key {head.key_id[:80]!r} for {head.algorithm}",
                remedy="sign in again; is it a token of this issuer?",
            )
        return found

    def _may_ask(self, now: Instant) -> bool:
        return self._asked_at is None or not now.is_within(AGAIN_MS, self._asked_at)

    def _ask(self, ports: Ports, now: Instant) -> _Said | None:
        """What the issuer says now, or what it said last."""
        self._asked_at = now
        try:
            keys = tokens.read_keys(self._desk.published(self._issuer))
        except (OSError, ValueError) as error:
            ports.signals.log("issuer_not_asked", issuer=self._issuer.url, error=repr(error)[:300])
            return self._said
        ports.signals.log("issuer_keys_read", issuer=self._issuer.url, keys=len(keys))
        self._said = _Said(keys, now)
        return self._said


class Credentials:
    """Whatever somebody may show: an API key, or a token where an issuer is configured."""

    def __init__(self, keys: SeenKeys, tokens_of_issuer: Tokens | None = None) -> None:
        self._keys, self._tokens = keys, tokens_of_issuer

    def actor_of(self, ports: Ports, text: str) -> Actor:
        if text.startswith("tw_") or not tokens.looks_like_one(text):
            return self._keys.actor_of(ports, text)
        if self._tokens is None:
            raise MalformedKey(
                "this is a token, and no issuer of tokens is configured here", remedy="show an API key (`tw_...`)"
            )
        return self._tokens.actor_of(ports, text)
