"""Planted bugs in `cancel_other`: who is asked to end, for whom, and what becomes of the one that is replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import buffering, chain
from tickwork.core.dispatch import giving_way as deciding
from tickwork.core.dispatch import releasing as heads
from tickwork.core.jobs import overlap
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.writes import Put
from tickwork.flows.dispatch import giving_way as asking
from tickwork.flows.dispatch import releasing

_LATEST_MS = 10**15


def _nobody_asks() -> Sequence[Patch]:
    return [(releasing, "ask_to_end", lambda *_: False)]


def _only_what_is(*statuses: str) -> Sequence[Patch]:
    right = deciding.giving_way

    def wrong(job: Any, run: Any, *rest: Any) -> Any:
        return right(job, run, *rest) if run.status in statuses else None

    return [(deciding, "giving_way", wrong)]


def _queued_ones_are_not_asked() -> Sequence[Patch]:
    return _only_what_is(lifecycle.RUNNING, lifecycle.WAITING)


def _running_ones_are_not_asked() -> Sequence[Patch]:
    return _only_what_is(lifecycle.PENDING, lifecycle.WAITING)


def _under_every_policy() -> Sequence[Patch]:
    """What is asked is asked whatever the job says of overlap."""
    right, asks = deciding.giving_way, asking.ask_to_end

    def decides(job: Any, *rest: Any) -> Any:
        return right(replace(job, overlap=overlap.CANCEL_OTHER), *rest)

    def wrong(ports: Any, job: Any, *rest: Any) -> Any:
        return asks(ports, replace(job, overlap=overlap.CANCEL_OTHER), *rest)

    return [(deciding, "giving_way", decides), (releasing, "ask_to_end", wrong)]


def _who_is_asked_holds_no_more() -> Sequence[Patch]:
    right = overlap.holds
    return [
        (overlap, "holds", lambda item, now_ms: right(item, now_ms) and not (item or {}).get("cancel_requested")),
    ]


def _replaced_without_a_record() -> Sequence[Patch]:
    right = buffering.put_behind

    def wrong(job: Any, *rest: Any) -> Any:
        buffer, writes = right(job, *rest)
        gone = job.overlap == overlap.CANCEL_OTHER and job.buffer is not None
        return buffer, tuple(one for one in writes if not gone or _reason_of(one) != overlap.REPLACED)

    return [(buffering, "put_behind", wrong)]


def _reason_of(write: Any) -> str:
    return "" if isinstance(write, Put) else str(write.set.get("reason", ""))


def _nobody_is_to_look_at_what_replaces() -> Sequence[Patch]:
    right = buffering.put_behind

    def wrong(job: Any, *rest: Any) -> Any:
        buffer, writes = right(job, *rest)
        replaces = job.overlap == overlap.CANCEL_OTHER and job.buffer is not None
        return buffer, tuple(one for one in writes if not (replaces and isinstance(one, Put)))

    return [(buffering, "put_behind", wrong)]


def _the_newer_one_is_skipped() -> Sequence[Patch]:
    return [(chain, "is_room", lambda job: job.buffer is None)]


def _the_replaced_one_names_nobody() -> Sequence[Patch]:
    right = buffering.end_replaced

    def wrong(*arguments: Any) -> Any:
        end = right(*arguments)
        return replace(end, set={name: value for name, value in end.set.items() if name != "replaced_by"})

    return [(buffering, "end_replaced", wrong)]


def _replaced_by_what_is_to_come() -> Sequence[Patch]:
    def wrong(job: Any, due: Any, _: int, shards: int) -> bool:
        return job.overlap == overlap.CANCEL_OTHER and chain._has_due_successors(job, due, 1, _LATEST_MS, shards)

    return [(chain, "_is_replaced", wrong)]


def _the_oldest_of_several_goes() -> Sequence[Patch]:
    right = heads.head_of

    def wrong(job: Any, *rest: Any) -> Any:
        several = job.overlap == overlap.CANCEL_OTHER and job.buffer is not None and job.buffer.count > 1
        return right(replace(job, overlap=overlap.BUFFER_ALL) if several else job, *rest)

    return [(heads, "head_of", wrong)]


BUGS = (
    Bug("nobody asks who holds the job to end", _nobody_asks),
    Bug("what is queued is not cancelled for a newer one", _queued_ones_are_not_asked),
    Bug("what runs is not asked to end for a newer one", _running_ones_are_not_asked),
    Bug("who holds a job is cancelled under every policy", _under_every_policy),
    Bug("who was asked to end is not waited for", _who_is_asked_holds_no_more),
    Bug("what is replaced has no record", _replaced_without_a_record),
    Bug("nobody is to look at what replaces another", _nobody_is_to_look_at_what_replaces),
    Bug("a newer one is skipped where it is to replace", _the_newer_one_is_skipped),
    Bug("what is replaced names nobody", _the_replaced_one_names_nobody),
    Bug("what is due is replaced by what is to come", _replaced_by_what_is_to_come),
    Bug("of several that wait the oldest goes", _the_oldest_of_several_goes),
)
