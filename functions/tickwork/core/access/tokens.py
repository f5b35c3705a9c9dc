"""A token (JWT) before and after its signature is checked: which key it asks for, and whether its time is now.

Refuses to know how signatures are checked, and what claims mean. Protects: which algorithms there are is said here, and
never by the token.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tickwork.core.errors import BadToken, ExpiredToken
from tickwork.core.instants import SECOND_MS, iso

CHARS_MAX = 8_192
"""API Gateway takes headers of 10,240 bytes in all."""
NOT_BEFORE_SLACK_S = 30
"""By so much the issuer's clock may be ahead of ours. At its end a token has none."""
_SHAPE = re.compile(r"[A-Za-z0-9_-]{1,4096}(?:\.[A-Za-z0-9_-]{1,8192}){2}", re.ASCII)
_KEYS: Mapping[str, Mapping[str, str]] = {"RS256": {"kty": "RSA"}, "ES256": {"kty": "EC", "crv": "P-256"}}
"""The algorithms that are taken, each with the keys that go with it: a token that asks for another key than its
algorithm's gets none."""
ALGORITHMS: tuple[str, ...] = tuple(_KEYS)

type Key = Mapping[str, Any]
"""A public key, as an issuer's document has it (RFC 7517)."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a token says of itself, unproven."""

    algorithm: str
    key_id: str = ""


def looks_like_one(text: str) -> bool:
    return len(text) <= CHARS_MAX and _SHAPE.fullmatch(text) is not None


def read_head(text: str) -> Head:
    """BadToken for what can be no token that we take, without asking anybody for a key."""
    if not looks_like_one(text):
        raise _bad("it does not have the three parts of one, or too much of them")
    try:
        found = json.loads(base64.urlsafe_b64decode(text.partition(".")[0] + "=="))
        algorithm, key_id = found.get("alg"), found.get("kid", "")
    except (ValueError, AttributeError, RecursionError):
        raise _bad("its header cannot be read") from None
    if algorithm not in ALGORITHMS:
        raise _bad(f"it is signed by {str(algorithm)[:20]!r}, and taken are {' and '.join(ALGORITHMS)}")
    if not isinstance(key_id, str):
        raise _bad("its `kid` is no text")
    return Head(algorithm, key_id)


def key_for(head: Head, keys: Sequence[Key]) -> Key | None:
    """The one key that a token asks for. Without a `kid` it is the only one that goes with its algorithm."""
    fitting = [key for key in keys if _fits(head, key)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(head: Head, key: Key) -> bool:
    is_right_kind = all(key.get(name) == value for name, value in _KEYS[head.algorithm].items())
    is_for_signing = key.get("use", "sig") == "sig" and key.get("alg", head.algorithm) == head.algorithm
    return is_right_kind and is_for_signing and (not head.key_id or key.get("kid") == head.key_id)


def read_keys(document: object) -> tuple[Key, ...]:
    """The keys of an issuer's document; what is no public key of a kind we take is passed over. ValueError when it is
    no such document."""
    if not isinstance(document, Mapping) or not isinstance(document.get("keys"), list):
        raise ValueError("it has no list `keys`")
    return tuple(_taken(document["keys"]))


def _taken(listed: Sequence[object]) -> Iterator[Key]:
    for key in listed:
        if isinstance(key, Mapping) and any(key.get("kty") == kind["kty"] for kind in _KEYS.values()):
            yield dict(key)


def check_times(claims: Mapping[str, Any], now_ms: int) -> None:
    """ExpiredToken, or BadToken for one whose time has not come. It must say when it ends."""
    ends_at_ms, begins_at_ms = _instant(claims, "exp"), _instant(claims, "nbf", 0)
    if now_ms >= ends_at_ms:
        raise ExpiredToken(f"the token expired at {iso(ends_at_ms)}", remedy="sign in again")
    if now_ms < begins_at_ms - NOT_BEFORE_SLACK_S * SECOND_MS:
        raise _bad(f"it is not valid before {iso(begins_at_ms)}")


INSTANT_S_MAX = 253_402_300_799
"""The last second of the year 9999."""


def _instant(claims: Mapping[str, Any], name: str, missing: int | None = None) -> int:
    found = claims.get(name, missing)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= INSTANT_S_MAX:
        raise _bad(f"its `{name}` is no instant")
    return int(found * SECOND_MS)


def _bad(why: str) -> BadToken:
    return BadToken(f"this token is not taken: {why}", remedy="sign in again, and send the whole token")
