"""First starts under a pause: what was queued before it, or was sent by somebody who knew of none.

Pausing stops starts and nothing else, so a run that has been started is never asked, nor is what is tried again. A
first start waits instead for a retry item a few seconds ahead (core/runs/putting_off): its message dies, and the window
that finds the retry due leaves it in the row of the pause, where it waits without a message, a worker or an attempt
until that is over. An occurrence that the pause has skip is recorded so here, where a window has fired it before it
could know. Protects no-lost-timer: the run's new state and its retry are one transaction.
"""

from __future__ import annotations

from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.pauses import skipping_at
from tickwork.core.jobs.scopes import Paused, is_pausable
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.pending import end_pending
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import ORDINARY
from tickwork.core.runs import putting_off
from tickwork.core.runs.attempts import NOT_DUE, Declined, StartRequest, Try
from tickwork.core.schedule import Freeze
from tickwork.flows.ledger import versions
from tickwork.flows.ledger.paused import known_paused, read_paused
from tickwork.flows.ledger.reading import read_job
from tickwork.ports import Ports

AHEAD_MS = 5 * SECOND_MS
"""When the window is to find it: ahead of what scanners have announced by now, or its creator sends it once more."""


def concerns(ports: Ports, key: LedgerKey) -> bool:
    """Whether the start of a run has to look for a pause, as far as this process knows."""
    paused = known_paused(ports).in_cell(key.cell)
    return is_pausable(key.kind) and paused.concerns(key.team, key.scheduled_at_ms, ports.clock.now_ms())


def unless_paused(ports: Ports, run: Run, request: StartRequest, start: Try) -> Try | Declined:
    """The start of a run that nobody has started; under a pause its wait, or its skip. What is refused is refused by
    what stands there now: a process may know of a pause that is over."""
    if not concerns(ports, run.key):
        return start
    paused, now_ms = read_paused(ports).in_cell(run.key.cell), ports.clock.now_ms()
    team, pool = run.key.team, _pool_of(ports, run, paused)
    skipping = skipping_at(paused.pauses_of(team, pool, run.group), run.key.scheduled_at_ms)
    if skipping is not None and run.is_recurring and run.status == lifecycle.PENDING:
        if _is_unpassed(ports, run):
            return Declined(NOT_DUE, discard=False, retry_after_ms=SECOND_MS)
        why = skipping.skip_reason
        skip = end_pending(run.key, lifecycle.SKIP, why, now_ms, ports.layout.retention_s)
        return Try((skip,), ends=lifecycle.SKIPPED, reason=why)
    scope = paused.in_force(team, pool, run.group, now_ms)
    if scope is None:
        return start
    due_ms = (now_ms + AHEAD_MS) // SECOND_MS * SECOND_MS
    freeze = Freeze(f"pause of {scope.words}", due_ms)
    return putting_off.instead_of_start(run, request, ORDINARY, freeze, due_ms, now_ms, ports.layout.retention_s)


def _is_unpassed(ports: Ports, run: Run) -> bool:
    """Whether a job's chain has still to be stepped past an occurrence whose ref somebody knows: its window skips it
    then, and an item that has ended before would never be stepped (chain-unbroken)."""
    job = read_job(ports, run.key.job_id)
    return job is not None and job.next_key(ports.layout.home) == run.key


def _pool_of(ports: Ports, run: Run, paused: Paused) -> str:
    """The pool that a run needs; of a job it is in its definition, and read where a pool is paused. Of a definition
    that is gone nobody knows."""
    if not paused.has_pools:
        return ""
    work = versions.work_of(ports, run)
    return work.pool if work is not None else ""
