"""Cursors: where a list goes on, as opaque text. A client hands them back; one that could not be ours is refused."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from tickwork.api.decoding import read_json
from tickwork.core.errors import CallerError, InvalidField
from tickwork.core.ids import split_job_id
from tickwork.core.instants import LATEST_INSTANT_MS, SECOND_MS, iso_ms
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key
from tickwork.core.ledger.tables import SORT_KEY_BYTES_MAX
from tickwork.flows.audit.group_lists import MemberPlace
from tickwork.flows.audit.history import EndsOf, Place
from tickwork.flows.ledger.bad_ends import EndPlace
from tickwork.flows.ledger.minutes import Spot

_SECOND = re.compile(r"\d{10}#[\x21-\x7e]*\Z", re.ASCII)
"""What each sort key of the ledger begins with."""


def to_cursor(position: object) -> str | None:
    """An opaque cursor; clients hand it back as it is."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")


def from_cursor(text: str | None, *shape: type) -> Any:
    """The position of a cursor (a list of the given types, or the one value); None without one."""
    if text is None:
        return None
    position = _decoded(text)
    parts = position if isinstance(position, list) else [position]
    if [type(part) for part in parts] != list(shape) or not all(_could_be_ours(part) for part in parts):
        raise not_a_cursor()
    return tuple(parts) if len(shape) > 1 else parts[0]


def _decoded(text: str) -> object:
    try:
        return read_json(base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True).decode())
    except (binascii.Error, ValueError, CallerError):
        return None


def _could_be_ours(part: object) -> bool:
    """Whether a cursor can hold it: the store refuses a key that is empty or too long, and a number of forty digits."""
    if isinstance(part, int):
        return 0 <= part <= LATEST_INSTANT_MS
    return str(part).isascii() and 0 < len(str(part)) <= SORT_KEY_BYTES_MAX


def after_name(cursor: str | None, team: str) -> str | None:
    """The cursor of a list of a team's things by name: the id of the last one."""
    after: str | None = from_cursor(cursor, str)
    if after is None:
        return None
    try:
        owner, _ = split_job_id(after)
    except InvalidField:
        owner = ""
    if owner != team:
        raise not_a_cursor()
    return after


def after_run(cursor: str | None, job_id: str) -> tuple[int, str, str] | None:
    """The cursor of a job's runs: nominal instant and keys of the last one, which is a run of this very job."""
    after: tuple[int, str, str] | None = from_cursor(cursor, int, str, str)
    if after is None:
        return None
    scheduled_at_ms, pk, sk = after
    key = _key_of(pk, sk)
    if (key.job_id, key.scheduled_at_ms) != (job_id, scheduled_at_ms):
        raise not_a_cursor()
    return after


def _key_of(pk: str, sk: str) -> LedgerKey:
    try:
        return parse_ledger_key(pk, sk)
    except ValueError:
        raise not_a_cursor() from None


def to_place(place: Place | None) -> str | None:
    """The cursor of a list of runs or timers."""
    match place:
        case Spot(bucket, shard, sk):
            return to_cursor(["due", bucket, shard, sk])
        case EndsOf(first, last, EndPlace(ended_at_ms, partition, pk, sk)):
            return to_cursor(["ended", first, last, ended_at_ms, partition, pk, sk])
        case EndsOf(first):
            return to_cursor(["teams", first])
    return None


def after_place(cursor: str | None) -> Place | None:
    """The place of such a cursor."""
    if cursor is None:
        return None
    kind = _kind_of(cursor)
    if kind == "due":
        _, bucket, shard, sk = from_cursor(cursor, str, int, int, str)
        if not _SECOND.match(sk):
            raise not_a_cursor()
        return Spot(bucket, shard, sk)
    if kind == "ended":
        _, first, last, ended_at_ms, partition, pk, sk = from_cursor(cursor, str, str, str, int, str, str, str)
        _key_of(pk, sk)
        return EndsOf(first, last, EndPlace(ended_at_ms, partition, pk, sk))
    if kind != "teams":
        raise not_a_cursor()
    return EndsOf(from_cursor(cursor, str, str)[1], "")


def to_member(place: MemberPlace | None) -> str | None:
    """The cursor of a list of a group's timers."""
    return None if place is None else to_cursor(["member", place.due_ms, place.spread, place.pk, place.sk])


def after_member(cursor: str | None) -> MemberPlace | None:
    """The place of such a cursor."""
    if cursor is None:
        return None
    word, due_ms, spread, pk, sk = from_cursor(cursor, str, int, int, str, str)
    if word != "member" or _key_of(pk, sk).scheduled_at_ms != due_ms:
        raise not_a_cursor()
    return MemberPlace(due_ms, spread, pk, sk)


def _kind_of(cursor: str) -> str:
    position = _decoded(cursor)
    return str(position[0]) if isinstance(position, list) and position else ""


def reached(place: Place | None) -> str | None:
    """How far a list has come that goes on after a place."""
    if isinstance(place, Spot):
        return iso_ms(place.second * SECOND_MS)
    return iso_ms(place.end.ended_at_ms) if place is not None and place.end is not None else None


def not_a_cursor() -> InvalidField:
    return InvalidField("this is not a cursor of this list", field="cursor", remedy="use the cursor of the last page")
