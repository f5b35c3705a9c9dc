"""API keys: make, list, rotate, revoke."""

from __future__ import annotations

from typing import cast

from tickwork.api.fields import NoBody, NoQuery
from tickwork.api.keys.answers import KeysAnswer, KeyShown, NewKey, RevokedKeyShown
from tickwork.api.keys.bodies import KeyIn, KeysQuery, RotateIn
from tickwork.api.routing import Call, PathPart, Route
from tickwork.core.access.actors import ROLES
from tickwork.core.access.api_keys import ApiKey, check_key_id
from tickwork.core.access.pools import resolve
from tickwork.core.errors import Forbidden, InvalidField, NotFound, QuotaExceeded, TooMany, UnknownTeam
from tickwork.core.ids import check_slug
from tickwork.core.instants import DAY_MS, iso_ms
from tickwork.flows.access import keys, registry
from tickwork.flows.access.keys import Wanted


def create_key(call: Call[KeyIn, NoQuery]) -> tuple[int, NewKey]:
    """Make an API key. The answer shows it; nothing else ever does.

    Each request makes another key: one whose answer was lost can be revoked by its id.
    """
    body = call.body
    check_slug(body.team, "team")
    registry.check_team(call.ports, body.team)
    wanted = Wanted(body.team, body.role, _end_in(call, body.expires_in_days), body.name, _pools(call))
    made = keys.create_key(call.ports, wanted, call.actor)
    registry.note_unregistered(call.ports, [body.team])
    return 201, _new(call, *made)


def _pools(call: Call[KeyIn, NoQuery]) -> tuple[str, ...]:
    body, deployed = call.body, call.ports.layout.pools
    return tuple(dict.fromkeys(resolve(pool, body.team, deployed, "pools") for pool in body.pools))


def list_keys(call: Call[NoBody, KeysQuery]) -> tuple[int, KeysAnswer]:
    """A team's keys: what they are for, when they were last used, when they expire."""
    now_ms = call.ports.clock.now_ms()
    return 200, {"keys": [_view(key, now_ms) for key in keys.list_keys(call.ports, call.query.team)]}


def rotate_key(call: Call[RotateIn, NoQuery]) -> tuple[int, NewKey]:
    """Make a key like another one. Both are valid until the old one is revoked, or expires."""
    old = keys.get_key(call.ports, call.path["key_id"])
    role = next((role for role in ROLES if role == old.role), None)
    if role is None or old.revoked_at_ms:
        raise InvalidField("a key that was revoked is not followed by another", field="key_id", remedy="make a new key")
    wanted = Wanted(old.team, role, _end_in(call, call.body.expires_in_days), old.name, old.pools)
    return 201, _new(call, *keys.create_key(call.ports, wanted, call.actor, successor_of=old.key_id))


def revoke_key(call: Call[NoBody, NoQuery]) -> tuple[int, RevokedKeyShown]:
    """Revoke a key. Within a minute it opens nothing anywhere; again is a no-op."""
    key, changed = keys.revoke_key(call.ports, call.path["key_id"], call.actor)
    return 200, cast("RevokedKeyShown", {**_view(key, call.ports.clock.now_ms()), "changed": changed})


def _end_in[B: KeyIn | RotateIn](call: Call[B, NoQuery], days: int) -> int:
    return call.ports.clock.now_ms() + days * DAY_MS


def _new[B: KeyIn | RotateIn](call: Call[B, NoQuery], key: ApiKey, text: str) -> NewKey:
    return cast("NewKey", {**_view(key, call.ports.clock.now_ms()), "key": text})


def _view(key: ApiKey, now_ms: int) -> KeyShown:
    return {
        "key_id": key.key_id,
        "team": key.team,
        "role": key.role,
        "name": key.name,
        "pools": list(key.pools),
        "status": key.status_at(now_ms),
        "created_at": iso_ms(key.created_at_ms),
        "created_by": key.created_by,
        "expires_at": iso_ms(key.ends_at_ms),
        "last_used_at": iso_ms(key.used_at_ms) if key.used_at_ms else None,
        "revoked_at": iso_ms(key.revoked_at_ms) if key.revoked_at_ms else None,
        "revoked_by": key.revoked_by or None,
        "warning": key.warning_at(now_ms),
    }


_AT = (
    PathPart(
        "key_id",
        "A key as `team:` and the first digits of its hash",
        "payments:0123456789abcdef",
        lambda text, _: check_key_id(text),
    ),
)

ROUTES = (
    Route(
        "POST",
        "/keys",
        create_key,
        KeyIn,
        NoQuery,
        NewKey,
        {201: "It is made."},
        errors=(TooMany, QuotaExceeded, Forbidden, UnknownTeam),
    ),
    Route("GET", "/keys", list_keys, NoBody, KeysQuery, KeysAnswer),
    Route(
        "POST",
        "/keys/{key_id}/rotate",
        rotate_key,
        RotateIn,
        NoQuery,
        NewKey,
        {201: "It is made; the old one stays valid."},
        at=_AT,
        errors=(NotFound, TooMany, QuotaExceeded, Forbidden),
    ),
    Route("DELETE", "/keys/{key_id}", revoke_key, NoBody, NoQuery, RevokedKeyShown, at=_AT, errors=(NotFound,)),
)
