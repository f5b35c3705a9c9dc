"""Payloads kept apart: a ledger item is rewritten at each step of its run, and pays by its size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from tickwork.core.ledger.keys import LedgerKey, payload_key
from tickwork.core.ledger.tables import PAYLOADS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Item, Put
from tickwork.core.spelling import canonical_text
from tickwork.flows.ledger.commit import commit
from tickwork.ports import Ports

PAYLOAD_KEPT_S = 90 * 86_400
"""A payload kept apart outlives the retention of its run by this, should the run itself be that late."""


PAYLOAD_INLINE_BYTES_MAX = 400
"""A longer payload is kept apart: the ledger item is rewritten at start and at completion, and pays by its size."""


def as_kept(ports: Ports, work: Work, standing: Work) -> Work:
    """The work with the payload that the standing one keeps apart, where its own says the same: read and compared, so
    that one which is gone, or expires, is written anew."""
    if standing.payload_id is None or work.payload is None or len(work.payload.encode()) <= PAYLOAD_INLINE_BYTES_MAX:
        return work
    item = ports.store.get(PAYLOADS, {"payload_id": standing.payload_id})
    if item is None or "payload" not in item or "expires_at_s" in item:
        return work
    is_same = canonical_text(str(item["payload"])) == canonical_text(work.payload)
    return replace(work, payload=None, payload_id=standing.payload_id) if is_same else work


def keep_payload(ports: Ports, work: Work, owner_id: str, version: int, expires_at_s: int = 0) -> Work:
    """Store a payload that is too long for the ledger apart, before anything refers to it. 0: it does not expire."""
    if work.payload is None or len(work.payload.encode()) <= PAYLOAD_INLINE_BYTES_MAX:
        return work
    payload_id = payload_key(owner_id, version, work.payload)
    item: Item = {"payload_id": payload_id, "payload": work.payload}
    if expires_at_s:
        item["expires_at_s"] = expires_at_s
    commit(
        ports,
        Put(PAYLOADS, item, Anyway("its key says what is in it: whoever writes it writes the same")),
    )
    return replace(work, payload=None, payload_id=payload_id)


def keep_own(ports: Ports, work: Work, owner_id: str, expires_at_s: int) -> Work:
    """The work of a job with a payload of its own, for runs that live apart from the job: the job's expires when the
    job has another, and nobody renews it for them. One that is gone already is theirs to tell when they start."""
    if work.payload_id is not None:
        item = ports.store.get(PAYLOADS, {"payload_id": work.payload_id})
        if item is None or "payload" not in item:
            return work
        work = replace(work, payload=str(item["payload"]), payload_id=None)
    return keep_payload(ports, work, owner_id, 0, expires_at_s)


def keep_page(ports: Ports, page_id: str, seconds: Sequence[int], expires_at_s: int) -> None:
    """Store a page of the list of a backfill. Its id says which list: whoever writes it writes the same."""
    item: Item = {"payload_id": page_id, "payload": json.dumps(list(seconds)), "expires_at_s": expires_at_s}
    commit(ports, Put(PAYLOADS, item, Anyway("its id says which list it is a page of")))


def read_page(ports: Ports, page_id: str) -> list[int]:
    """A page of a backfill's list; empty when it is gone."""
    item = ports.store.get(PAYLOADS, {"payload_id": page_id})
    return [] if item is None else [int(second) for second in json.loads(str(item["payload"]))]


def read_payload(ports: Ports, key: LedgerKey, payload_id: str | None) -> str | None:
    """A payload of the run's own job that is kept apart (JSON text); None when it is gone, or is none any more."""
    if payload_id is None or not payload_id.startswith(f"{key.job_id}#"):
        return None
    item = ports.store.get(PAYLOADS, {"payload_id": payload_id})
    if item is None or "payload" not in item:
        return None
    payload = str(item["payload"])
    try:
        json.loads(payload)
    except (ValueError, RecursionError):
        return None
    return payload
