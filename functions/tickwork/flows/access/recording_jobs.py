"""A change of a job with its entry: what both write is one transaction (see `access.recording`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tickwork.core.jobs.definitions import Job
from tickwork.core.jobs.told import PAYLOAD, change_of
from tickwork.core.ledger.writes import Put
from tickwork.flows.access.recording import hashed_payload, recorded
from tickwork.ports import Ports


def recorded_job(
    ports: Ports, before: Job | None, after: Job, action: str, facts: Mapping[str, Any] | None = None
) -> tuple[Job, Put]:
    """(what the job becomes, with the head of its stream; the entry's write)."""
    change = change_of(before, after, action, ports.clock.now_ms(), facts)
    if PAYLOAD in change.changes:
        hashed = [None if one is None else hashed_payload(ports, one) for one in change.changes[PAYLOAD]]
        change = replace(change, changes={**change.changes, PAYLOAD: hashed})
    entry, head = recorded(ports, change)
    return replace(after, audit_head=head), entry
