"""API keys: how one is written, what is stored of it, and what it is worth at an instant.

`tw_<team>_<43 characters><6 characters>`: 256 random bits and a checksum of all before it, in base 62, so that a
secret scanner finds keys and nothing else, and a mistyped one is refused without asking the store. Stored is a hash: of
256 random bits none can be guessed from it, so it needs no salt and no slowness. Refuses to know the store. Protects:
what is stored opens nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tickwork.core.access.actors import ROLES, Actor, Role
from tickwork.core.errors import ExpiredKey, InvalidField, MalformedKey, RevokedKey, UnknownKey
from tickwork.core.ids import check_slug
from tickwork.core.instants import DAY_MS, HOUR_MS, SECOND_MS, iso
from tickwork.core.ledger.items import Record, Unreadable, always, read_by
from tickwork.core.ledger.tables import KEYS
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import AllOf, AnyOf, Below, Is, Missing, Update

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SECRET_BITS = 256
SECRET_CHARS, CHECK_CHARS = 43, 6
"""62**43 > 2**256, and 62**6 > 2**32."""
KEY_CHARS_MAX = len("tw_") + 63 + len("_") + SECRET_CHARS + CHECK_CHARS
PATTERN = rf"tw_([a-z0-9][a-z0-9._-]{{0,62}})_([0-9A-Za-z]{{{SECRET_CHARS}}})([0-9A-Za-z]{{{CHECK_CHARS}}})"
"""What a secret scanner looks for; the last six characters tell keys from what only looks like one."""
_KEY = re.compile(PATTERN, re.ASCII)
ID_CHARS = 16

KEYS_PER_TEAM_MAX = 100
"""With those that have ended and are still shown. A list of a team's keys is one page."""
LIFE_DAYS_DEFAULT, LIFE_DAYS_MAX = 365, 400
WARNED_BEFORE_MS = 14 * DAY_MS
USE_NOTED_EVERY_MS = HOUR_MS
"""The last use is written at most so often: a write for each call would cost more than most calls do."""
SHOWN_AFTER_END_S = 90 * 24 * 3_600
"""How long a key that has ended still answers as expired or revoked; then it is unknown."""


@dataclass(frozen=True, slots=True)
class ApiKey(Record):
    """What is stored of a key."""

    key_id: str = always("")
    """`team:` and the first sixteen digits of the hash."""
    team: str = always("")
    role: str = always("")
    hash: str = always("")
    name: str = ""
    pools: tuple[str, ...] = ()
    created_at_ms: int = 0
    created_by: str = ""
    ends_at_ms: int = always(0)
    revoked_at_ms: int = 0
    revoked_by: str = ""
    used_at_ms: int = 0
    expires_at_s: int = read_by(whole, 0)
    """Time to live, some time after it has ended."""
    audit_head: str = ""
    """The last entry of its audit."""

    def status_at(self, now_ms: int) -> str:
        if self.revoked_at_ms:
            return "revoked"
        return "expired" if self.ends_at_ms <= now_ms else "valid"

    def warning_at(self, now_ms: int) -> str | None:
        """What its owner has to do soon, if anything."""
        if self.status_at(now_ms) != "valid" or self.ends_at_ms - now_ms > WARNED_BEFORE_MS:
            return None
        return f"it expires at {iso(self.ends_at_ms)}: rotate it (`tickwork keys rotate {self.key_id}`)"


def key_text(team: str, secret: bytes) -> str:
    """The key of 32 random bytes, as it is shown once."""
    body = f"tw_{team}_{_base62(int.from_bytes(secret), SECRET_CHARS)}"
    return body + _checksum(body)


def secret_of(draws: Sequence[str]) -> bytes:
    """32 bytes from at least 256 bits of unguessable text."""
    return hashlib.sha256("|".join(draws).encode()).digest()


def read_key(text: str) -> tuple[str, str]:
    """(key_id, hash) of a well-formed key. MalformedKey for anything else, without asking anybody."""
    found = _KEY.fullmatch(text) if len(text) <= KEY_CHARS_MAX else None
    if found is None or not hmac.compare_digest(_checksum(text[:-CHECK_CHARS]), found[3]):
        raise MalformedKey(
            "this is no API key: a part of it is missing or changed", remedy="copy the whole key, `tw_` included"
        )
    digest = hash_of(text)
    return key_id_of(found[1], digest), digest


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def key_id_of(team: str, digest: str) -> str:
    return f"{team}:{digest[:ID_CHARS]}"


def check_key_id(text: str) -> str:
    team, colon, digits = text.partition(":")
    if not colon or not re.fullmatch(rf"[0-9a-f]{{{ID_CHARS}}}", digits, re.ASCII):
        raise InvalidField(
            f"{text[:80]!r} is no key's id", field="key_id", remedy="give it as `tickwork keys list` shows it"
        )
    check_slug(team, "key_id")
    return text


def new_key(
    text: str, role: Role, *, name: str, pools: tuple[str, ...], by: str, now_ms: int, ends_at_ms: int
) -> ApiKey:
    key_id, digest = read_key(text)
    return ApiKey(
        key_id=key_id,
        team=key_id.partition(":")[0],
        role=role,
        hash=digest,
        name=name,
        pools=pools,
        created_at_ms=now_ms,
        created_by=by,
        ends_at_ms=ends_at_ms,
        expires_at_s=ends_at_ms // SECOND_MS + SHOWN_AFTER_END_S,
    )


def revoked(key: ApiKey, by: str, now_ms: int) -> ApiKey:
    kept_until_s = now_ms // SECOND_MS + SHOWN_AFTER_END_S
    return replace(key, revoked_at_ms=now_ms, revoked_by=by, expires_at_s=min(key.expires_at_s, kept_until_s))


def revocation(key: ApiKey) -> Update:
    """The write of a key that `revoked` made. Once it is revoked that stays as it is."""
    changed = {name: getattr(key, name) for name in ("revoked_at_ms", "revoked_by", "expires_at_s", "audit_head")}
    condition = AllOf((Is("hash", key.hash), Missing("revoked_at_ms")))
    return Update(KEYS, {"key_id": key.key_id}, condition, set=changed)


def told(key: ApiKey, now_ms: int) -> dict[str, Any]:
    """A key as the audit tells of it."""
    said = {"role": key.role, "name": key.name, "pools": list(key.pools), "expires_at": iso(key.ends_at_ms)}
    return {name: value for name, value in said.items() if value} | {"status": key.status_at(now_ms)}


def use(key: ApiKey, now_ms: int) -> Update | None:
    """The write that notes a use; None while the last one noted is young enough."""
    if key.used_at_ms + USE_NOTED_EVERY_MS > now_ms:
        return None
    unused = AnyOf((Missing("used_at_ms"), Below("used_at_ms", now_ms - USE_NOTED_EVERY_MS + 1)))
    condition = AllOf((Is("hash", key.hash), unused))
    return Update(KEYS, {"key_id": key.key_id}, condition, set={"used_at_ms": now_ms})


def stored_key(item: Mapping[str, Any] | None, key_id: str, digest: str) -> ApiKey:
    """The record of a key that a caller has shown. UnknownKey when there is none, or its hash is another's."""
    key = None if item is None else ApiKey.from_item(dict(item))
    if key is None or not hmac.compare_digest(key.hash, digest):
        raise UnknownKey(f"there is no key {key_id}", remedy="have a new one made (`tickwork keys create`)")
    return key


def actor_of(key: ApiKey, now_ms: int) -> Actor:
    """Whom a key stands for now. ExpiredKey or RevokedKey when it stands for nobody any more."""
    status = key.status_at(now_ms)
    if status == "revoked":
        raise RevokedKey(
            f"the key {key.key_id} was revoked at {iso(key.revoked_at_ms)}", remedy="use the key that replaced it"
        )
    if status == "expired":
        raise ExpiredKey(f"the key {key.key_id} expired at {iso(key.ends_at_ms)}", remedy="have a new one made")
    role = next((role for role in ROLES if role == key.role), None)
    if role is None:
        raise Unreadable(f"key {key.key_id} has the role {key.role[:40]!r}, which this version does not know")
    return Actor(f"key:{key.key_id}", key.team, role, key.pools)


def _checksum(text: str) -> str:
    return _base62(zlib.crc32(text.encode()), CHECK_CHARS)


def _base62(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, rest = divmod(number, len(_DIGITS))
        digits = _DIGITS[rest] + digits
    return digits
