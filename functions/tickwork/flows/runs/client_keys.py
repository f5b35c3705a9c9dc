"""Client keys: what a team calls its own requests by, so that a repeat is known again and gets the first answer (A2).

Owns the row of a key, and what a key that is taken says of a request. Refuses to know what time it is: a repeat is
recognised however late it comes. Protects one-run: one key is one timer, also when the timer's record is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tickwork.core.errors import AlreadyExists
from tickwork.core.ids import parse_one_shot_name, split_job_id
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, client_key_of
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import CLIENT_KEYS, TIMERS
from tickwork.core.ledger.writes import Absent, Item, Put
from tickwork.flows.ledger.reading import read_many
from tickwork.ports import Ports

KEPT_BEYOND_RETENTION_S = 7 * 86_400
"""A key is remembered until this long after a record is kept of a timer that ended when it was due: as long as there
is a record, and then for a client that repeats what it found in a queue a week old."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A request to create a timer, as far as it tells one wish from another. `as_written`: its fingerprint as versions
    took it that went by the words of a request; they compare it still, when both run side by side."""

    team: str
    client_key: str
    fingerprint: str
    as_written: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """The timer that a request has created before. `run` is None when its record has expired."""

    key: LedgerKey
    run: Run | None


def claim(asked: Asked, key: LedgerKey, retention_s: int) -> Put:
    """The row that gives a timer its client key."""
    item = {
        "client_key": client_key_of(asked.team, asked.client_key),
        "timer_id": key.job_id,
        "fingerprint": asked.as_written or asked.fingerprint,
        "meaning": asked.fingerprint,
        "expires_at_s": key.fire_second + retention_s + KEPT_BEYOND_RETENTION_S,
    }
    return Put(CLIENT_KEYS, item, Absent())


def first_answers(ports: Ports, asked: Sequence[Asked]) -> list[Known | AlreadyExists | None]:
    """What the keys of these requests say, in their order: the timer that the same request has made, the refusal of a
    key that another has used, or None for one that is free. Keys must differ; two reads for all."""
    rows = read_many(ports, CLIENT_KEYS, [{"client_key": client_key_of(one.team, one.client_key)} for one in asked])
    found = [None if row is None else _judged(row, one) for row, one in zip(rows, asked, strict=True)]
    keys = [one for one in found if isinstance(one, LedgerKey)]
    items = dict(zip(keys, read_many(ports, TIMERS, [key.as_item() for key in keys]), strict=True))
    return [Known(one, _run(items[one])) if isinstance(one, LedgerKey) else one for one in found]


def _run(item: Item | None) -> Run | None:
    return None if item is None else Run.from_item(item)


def _judged(row: Item, asked: Asked) -> LedgerKey | AlreadyExists:
    if _is_of(row, asked):
        if (place := place_of(str(row["timer_id"]))) is None:
            raise Unreadable(f"client key {row['client_key']!r}: {row['timer_id']!r} is no timer")
        return place
    return AlreadyExists(
        f"client_key {asked.client_key!r} was used for another timer ({row['timer_id']})",
        field="client_key",
        remedy="use a new client_key for a new timer, or repeat the first request unchanged",
    )


def _is_of(row: Item, asked: Asked) -> bool:
    """Whether the row is of the same request: by its meaning, or, of an older version's, by its words."""
    return asked.fingerprint in (row.get("meaning"), row["fingerprint"]) or asked.as_written == row["fingerprint"]


def place_of(timer_id: str) -> LedgerKey | None:
    """Where the ledger item of a one-shot is. None when the id is not a one-shot's."""
    team, name = split_job_id(timer_id, "timer_id")
    parsed = parse_one_shot_name(name)
    if parsed is None:
        return None
    cell, shard, second, _ = parsed
    return LedgerKey(cell, shard, second * SECOND_MS, team, name, second * SECOND_MS)
