"""Planted bugs in the reconciler, its audit, and setting aside what cannot be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.audit import passes
from tickwork.core.dispatch import slices
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.records import Retry, Run
from tickwork.core.ledger.writes import Item, Put
from tickwork.flows.audit import auditing, checking_jobs, mending, reconciling
from tickwork.flows.dispatch import windows
from tickwork.flows.jobs import registering
from tickwork.ports import Ports


def _no_audit() -> Sequence[Patch]:
    return [(reconciling, "audit_ledger", lambda *_: None)]


def _audit_only_once() -> Sequence[Patch]:
    return [(auditing, "AUDITS", {"audited": 300})]


def _audit_moves_on() -> Sequence[Patch]:
    right = auditing._audit_some

    def wrong(*arguments: Any) -> Any:
        _, passed = right(*arguments)
        return [], passed

    return [(auditing, "_audit_some", wrong), (auditing, "AUDITS", {"audited": 300})]


def _open_buckets_forgotten() -> Sequence[Patch]:
    return [(reconciling, "look_at_open_buckets", lambda *_: None)]


def _retry_not_restored() -> Sequence[Patch]:
    return [(mending, "_restore_retry", lambda *_: 0)]


def _audit_begins_at_cursor() -> Sequence[Patch]:
    right = slices.first_lease

    def wrong(slice_id: str, second: int) -> Put:
        write = right(slice_id, second)
        late: Item = dict.fromkeys(passes.AUDITS, second - 1)
        return replace(write, item={**write.item, **late})

    return [(slices, "first_lease", wrong)]


def _lapsed_not_woken() -> Sequence[Patch]:
    return [(mending, "_wakings", lambda *_: [])]


def _deleted_job_stops_pass() -> Sequence[Patch]:
    right = checking_jobs._replace_next

    def wrong(ports: Ports, read: Any) -> int:
        registering.get_job(ports, read.job_id)
        return right(ports, read)

    return [(checking_jobs, "_replace_next", wrong)]


def _poison_stops_slice() -> Sequence[Patch]:
    def wrong(ports: Ports, items: Any) -> list[Any]:
        pending = [item for item in items if item["status"] == lifecycle.PENDING]
        return [Retry.from_item(item) if "run_ref" in item else Run.from_item(item) for item in pending]

    return [(windows, "read_items", wrong)]


BUGS = (
    Bug("no ledger audit", _no_audit),
    Bug("the ledger is audited once only", _audit_only_once),
    Bug("the audit moves on past what it could not send", _audit_moves_on),
    Bug("the audit begins at the cursor", _audit_begins_at_cursor),
    Bug("a lapsed run is not woken", _lapsed_not_woken),
    Bug("a deleted job stops the reconciler", _deleted_job_stops_pass),
    Bug("an unreadable item stops its slice", _poison_stops_slice),
)
