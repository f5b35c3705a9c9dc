"""Holding back at dispatch what would start in a freeze: late, to be caught up with, or to be tried again.

What is held back waits for a retry item at the end of the freeze (core/runs/putting_off), under the fence of whoever
fires. It happens after the step of the chain and instead of the send, so a crash between the two finds the item pending
and passed by its job, like one whose message is missing, and holds it back then. A start asks once more: messages may
lie in their queue until a freeze has begun. Costs a look at the job's calendars, and nothing where none is hard.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tickwork.core.errors import WorldError
from tickwork.core.instants import iso
from tickwork.core.jobs.definitions import Job
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.writes import TRANSACTION_WRITES_MAX, Committed, Write
from tickwork.core.runs import putting_off
from tickwork.core.runs.putting_off import PutOff
from tickwork.flows.dispatch.fencing import commit_fenced, left_busy
from tickwork.flows.dispatch.fired import Fenced, Fired, Firing
from tickwork.ports import Ports


@dataclass(frozen=True, slots=True)
class _Held:
    """An item that is held back: the one that was due, its run, and what is written."""

    due: LedgerKey
    run: LedgerKey
    put_off: PutOff


def hold_back(
    ports: Ports,
    messages: Sequence[ReadyMessage],
    jobs: Mapping[str, Job],
    retried: Mapping[str, Run | None],
    firing: Firing,
    fired: Fired,
) -> list[ReadyMessage]:
    """The messages that may go; the others' runs wait for the end of their freeze."""
    hard = {job_id: job for job_id, job in jobs.items() if job.is_hard}
    if not hard:
        return list(messages)
    going: list[ReadyMessage] = []
    held: list[_Held] = []
    for message in messages:
        job = hard.get(message.key.job_id)
        one = None if job is None else _held(ports, message, job, retried)
        if one is None:
            going.append(message)
        else:
            held.append(one)
    _write(ports, held, firing, fired)
    return going


def _held(ports: Ports, message: ReadyMessage, job: Job, retried: Mapping[str, Run | None]) -> _Held | None:
    now_ms, retry = ports.clock.now_ms(), parse_ref(message.retry_ref) if message.retry_ref else None
    run = retried.get(message.key.ref) if retry else Run(message.key)
    assert run is not None, "a retry has a message when its run is there"
    freeze = putting_off.freeze_for(run, job.calendars, retry, now_ms)
    if freeze is None:
        return None
    due_ms = putting_off.due_after(freeze, job.job_id, job.tolerance_s, now_ms)
    if retry is None:
        return _Held(run.key, run.key, putting_off.put_off_pending(run, freeze, due_ms, now_ms))
    put_off = putting_off.put_off_retry(run, retry, freeze, due_ms, now_ms, ports.layout.retention_s)
    return _Held(retry, run.key, put_off)


def _write(ports: Ports, held: Sequence[_Held], firing: Firing, fired: Fired) -> None:
    """Many to a transaction; those of a refused one each alone."""
    batch: list[_Held] = []
    size = 0
    for one in held:
        if size + len(one.put_off.writes) > TRANSACTION_WRITES_MAX - 1:
            _commit(ports, batch, firing, fired)
            batch, size = [], 0
        batch.append(one)
        size += len(one.put_off.writes)
    if batch:
        _commit(ports, batch, firing, fired)


def _commit(ports: Ports, batch: Sequence[_Held], firing: Firing, fired: Fired) -> None:
    if not firing.keep():
        raise Fenced
    writes: list[Write] = [write for one in batch for write in one.put_off.writes]
    try:
        is_done = isinstance(commit_fenced(ports, writes, firing, fired), Committed)
    except WorldError:
        if len(batch) == 1:
            left_busy(ports, batch[0].due, fired)
            return
        is_done = False
    if not is_done and len(batch) > 1:
        for one in batch:
            _commit(ports, [one], firing, fired)
        return
    for one in batch:  # a refused one was started or cancelled meanwhile, or put off by our own commit, its reply lost
        fired.materialised.append(one.put_off.retry)
        if is_done:
            note_put_off(ports, one.run, one.put_off.retry)


def note_put_off(ports: Ports, run: LedgerKey, retry: LedgerKey) -> None:
    """Say that a start waits for the end of a freeze."""
    ports.signals.count("runs.put_off_total", team=run.team)
    ports.signals.log("run_put_off", ref=run.ref, until=iso(retry.fire_at_ms))
