"""A change of a pool with its entry: what both write is one transaction (see `recording`)."""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.access import pools
from tickwork.core.access.diffs import differences
from tickwork.core.access.entries import Change
from tickwork.core.access.pools import Pool
from tickwork.core.ledger.writes import Put
from tickwork.flows.access.recording import recorded
from tickwork.ports import Ports


def recorded_pool(ports: Ports, before: Pool | None, after: Pool, action: str) -> tuple[Pool, Put]:
    """(the pool with the head of its stream; the entry's write). Of one that is closed the entry says what it was."""
    change = Change(
        after.owner,
        "pool",
        after.name,
        f"pool.{action}",
        head=after.audit_head,
        version_before=before.version if before else 0,
        version=after.version,
        changes=differences(pools.told(before) if before else None, None if after.closed_at_ms else pools.told(after)),
    )
    entry, head = recorded(ports, change)
    return replace(after, audit_head=head), entry
