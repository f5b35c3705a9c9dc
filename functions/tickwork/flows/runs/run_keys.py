"""Client keys of runs that were asked for: what a client calls its own request by, within its job (A10).

Owns the row of such a key. Protects one-run: one key is one run, also when the run's record is gone.
"""

from __future__ import annotations

from tickwork.core.errors import AlreadyExists
from tickwork.core.ids import split_job_id
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import LedgerKey, client_key_of, parse_ref
from tickwork.core.ledger.tables import CLIENT_KEYS
from tickwork.core.ledger.writes import Absent, Put
from tickwork.flows.ledger.reading import read_many
from tickwork.flows.runs.client_keys import KEPT_BEYOND_RETENTION_S
from tickwork.ports import Ports


def _row_key(job_id: str, client_key: str) -> str:
    """A timer's key that is spelt so meets a row with another content, and is refused: it gets nobody's answer."""
    team, name = split_job_id(job_id)
    return client_key_of(team, f"#run#{name}#{client_key}")


def claim(key: LedgerKey, client_key: str, fingerprint: str, retention_s: int) -> Put:
    """The row that gives a run its client key. `timer_id`: what an older version calls its owner, should a timer's
    request ask for just this key."""
    item = {
        "client_key": _row_key(key.job_id, client_key),
        "timer_id": key.job_id,
        "ref": key.ref,
        "fingerprint": fingerprint,
        "expires_at_s": key.fire_second + retention_s + KEPT_BEYOND_RETENTION_S,
    }
    return Put(CLIENT_KEYS, item, Absent())


def first_answer(ports: Ports, job_id: str, client_key: str, fingerprint: str) -> LedgerKey | None:
    """Where the run is that the same request has made; None when the key is free, AlreadyExists when another has it."""
    (row,) = read_many(ports, CLIENT_KEYS, [{"client_key": _row_key(job_id, client_key)}])
    if row is None:
        return None
    if row["fingerprint"] != fingerprint:
        raise AlreadyExists(
            f"client_key {client_key!r} was used for another run of {job_id}",
            field="client_key",
            remedy="use a new client_key for a new run, or repeat the first request unchanged",
        )
    try:
        return parse_ref(str(row["ref"]))
    except (KeyError, ValueError) as error:
        raise Unreadable(f"client key {row['client_key']!r}: it names no run") from error
