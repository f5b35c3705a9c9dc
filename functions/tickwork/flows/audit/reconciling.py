"""The reconciler: what should be true is checked against the tables every five minutes, repaired, and counted (O1).

Four passes, each with a time of its own and a place that it keeps, so that none starves another and none begins anew:
the ledger audit first, for on it rests that nothing is lost; then the buckets that it has left open; then the seal of
the teams' audits, which has something to do once a day; then the definitions. What fails for one slice, bucket, team or
definition costs that one: the run goes on, and ends as failed.
"""

from __future__ import annotations

import dataclasses

from tickwork.core.errors import Throttled, WorldError
from tickwork.flows.audit.auditing import audit_ledger, look_at_open_buckets
from tickwork.flows.audit.checking_jobs import check_jobs
from tickwork.flows.audit.giving_back import sweep_counters
from tickwork.flows.audit.long_pauses import look_at_pauses
from tickwork.flows.audit.repairs import Deadline, Repairs, deadline_in
from tickwork.flows.audit.sealing import seal_audit
from tickwork.flows.runs import backfill_stopping
from tickwork.ports import Ports

BUDGET_MS = 240_000
"""Of a run: under the function's timeout (infra) by what the last page, its repairs and their patience may take."""

_AUDIT_PERCENT, _OPEN_PERCENT, _SEAL_PERCENT = 50, 15, 10
"""Shares of the budget after which a pass makes room for the next; what one does not need is the next one's."""


def reconcile(ports: Ports, *, budget_ms: int = BUDGET_MS) -> Repairs:
    """One run: everything that the passes find to do, as far as their time goes.

    Raises Throttled at its very end when something could not be read or written: the next run tries again, and the
    failed one is seen. What could not be sent is put down, and counted where it is sent.
    """
    repairs, end = Repairs(), deadline_in(ports, budget_ms)
    audit_ledger(ports, repairs, deadline_in(ports, budget_ms * _AUDIT_PERCENT // 100))
    look_at_open_buckets(ports, repairs, deadline_in(ports, budget_ms * _OPEN_PERCENT // 100))
    sweep_counters(ports)
    _see_to_backfills(ports, repairs)
    look_at_pauses(ports)
    _seal(ports, repairs, deadline_in(ports, budget_ms * _SEAL_PERCENT // 100))
    _check_definitions(ports, repairs, end)
    ports.signals.observe("scheduler.definitions_without_next_timer", repairs.without_next)
    ports.signals.log("reconciled", **dataclasses.asdict(repairs))
    if repairs.failed:
        raise Throttled(f"{repairs.failed} slices, buckets or definitions could not be read or repaired")
    return repairs


def _see_to_backfills(ports: Ports, repairs: Repairs) -> None:
    try:
        repairs.failed += backfill_stopping.see_to_all(ports)
    except WorldError as error:  # of their list: the next run reads it
        repairs.failed += 1
        ports.signals.log("backfills_not_seen_to", error=repr(error))


def _seal(ports: Ports, repairs: Repairs, end: Deadline) -> None:
    try:
        seal_audit(ports, repairs, end)
    except WorldError as error:  # of the list of teams: the next run reads it
        repairs.failed += 1
        ports.signals.log("audit_not_sealed", error=repr(error))


def _check_definitions(ports: Ports, repairs: Repairs, end: Deadline) -> None:
    try:
        check_jobs(ports, repairs, end)
    except WorldError as error:  # of the scan itself, or of the place: what the audit has found still counts
        repairs.failed += 1
        ports.signals.log("definitions_not_walked", error=repr(error))
