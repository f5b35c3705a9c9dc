"""Waking the oldest waiter of a resource: by whoever has freed a slot, or found a free one that is not its own to take.

A crash before the message is sent, or a store that is busy, costs time only: the message that the waiter's run came
with is still there, and becomes visible by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from tickwork.core.errors import WorldError
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.keys import parse_ref, wait_range
from tickwork.core.ledger.messages import ReadyMessage
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import RESOURCES
from tickwork.core.ledger.writes import Committed
from tickwork.core.runs import waiters
from tickwork.core.runs.endings import retry_key
from tickwork.core.runs.waiters import Waiter
from tickwork.flows.dispatch.sending import send_ready
from tickwork.flows.ledger import reading, versions
from tickwork.flows.ledger.commit import commit
from tickwork.ports import Ports

BY = "slot"
"""Who sent the message, as its run records it."""
TRIES_MAX = 5
"""Rows that one call looks behind: left over ones, and those that somebody else has just woken."""


def wake_oldest(ports: Ports, resources: Iterable[str]) -> None:
    """One slot of each of these (partition keys) may be free: wake whoever has waited longest for it. Never fails: what
    frees a slot is the end of an attempt, and has been accepted."""
    for resource in resources:
        try:
            _wake_one(ports, resource)
        except WorldError as error:
            ports.signals.log("waiter_not_woken", resource=resource, error=repr(error))


def _wake_one(ports: Ports, resource: str) -> None:
    first, last = wait_range()
    waiting: list[Waiter] = []
    for page in reading.pages(ports, RESOURCES, resource, first, last, limit=waiters.LOOKED_AT_MAX):
        waiting += [Waiter.from_item(item) for item in page.items]
        if len(waiting) >= waiters.LOOKED_AT_MAX:  # a page may be short, and hold nothing but what was left over
            break
    for waiter in islice(waiters.to_wake(waiting, ports.clock.now_ms()), TRIES_MAX):
        if _woken(ports, waiter):
            return


def _woken(ports: Ports, waiter: Waiter) -> bool:
    """Whether the waiter has been woken; False: it is nobody, or somebody else's."""
    now_ms = ports.clock.now_ms()
    try:
        key = parse_ref(waiter.ref)
    except ValueError:  # of no run: it is in nobody's way any more
        commit(ports, waiters.leave(waiter))
        return False
    try:
        run = reading.read_run(ports, key)
        if run is None or not waiters.still_waits(waiter, run, now_ms):
            commit(ports, waiters.leave(waiter))
            return False
        work = versions.work_of(ports, run)
    except Unreadable as error:
        ports.signals.log("waiter_unreadable", ref=waiter.ref, why=str(error))
        commit(ports, waiters.wake(waiter, now_ms))
        return False
    if not isinstance(commit(ports, waiters.wake(waiter, now_ms)), Committed) or work is None:
        return False
    send_ready(ports, [ReadyMessage(run.key, work, run.attempt + 1, now_ms, BY, retry_ref=_retry_ref(run))])
    ports.signals.count("resources.woken_total", team=run.key.team)
    return True


def _retry_ref(run: Run) -> str:
    return retry_key(run.key, run.retry_at_ms, run.attempt + 1).ref if run.status == lifecycle.WAITING else ""
