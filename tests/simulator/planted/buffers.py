"""Planted bugs in what waits until its job is free: who buffers, who looks, who lets go, and what each compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import buffering, chain
from tickwork.core.dispatch import releasing as deciding
from tickwork.core.jobs import overlap
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.tables import JOBS
from tickwork.core.ledger.writes import Put, Update
from tickwork.flows.dispatch import releasing, stepping
from tickwork.flows.ledger.commit import commit


def _nobody_is_to_look() -> Sequence[Patch]:
    right = buffering.put_behind

    def wrong(*arguments: Any) -> Any:
        buffer, writes = right(*arguments)
        return buffer, tuple(one for one in writes if not isinstance(one, Put))

    return [(buffering, "put_behind", wrong)]


def _newer_before_older() -> Sequence[Patch]:
    def wrong(_: Any, holding: Any) -> Any:
        return None if holding is None else holding.by

    return [
        (chain, "_held_up", wrong),
        (releasing, "free", lambda *_: ([], set())),
        (stepping, "is_overtaking", lambda *_: False),
    ]


def _compares_next_alone() -> Sequence[Patch]:
    return [(overlap, "as_read", lambda *_: ())]


def _released_beside_the_holder() -> Sequence[Patch]:
    right = deciding.head_of
    return [(deciding, "head_of", lambda job, run, _, now_ms: right(job, run, None, now_ms))]


def _a_look_does_not_move_on() -> Sequence[Patch]:
    def wrong(ports: Any, run: Any, key: Any, *_: Any) -> None:
        commit(ports, releasing._spent(ports, key))

    return [(releasing, "_move_on", wrong)]


def _nobody_sends_what_had_to_wait() -> Sequence[Patch]:
    """The look alone is missed by a crash between a release and its send, which some thousand seeds may not show; it is
    a unit test's (tests/unit/dispatch/test_buffer_one.py)."""
    return [(releasing, "_is_dispatched", lambda *_: False), (releasing, "_told", lambda *_: [])]


def _released_in_a_pause() -> Sequence[Patch]:
    return [(deciding, "_not_now", lambda *_: "")]


def _released_however_late() -> Sequence[Patch]:
    return [(deciding, "_too_late", lambda *_: "")]


def _dropped_without_a_record() -> Sequence[Patch]:
    right = deciding.head_writes

    def wrong(job: Any, run: Any, head: Any, *rest: Any) -> Any:
        writes = right(job, run, head, *rest)
        return tuple(one for one in writes if one.table is JOBS) if head.does == deciding.DROP else writes

    return [(deciding, "head_writes", wrong)]


def _released_and_holds_nothing() -> Sequence[Patch]:
    right = deciding.head_writes

    def wrong(*arguments: Any) -> Any:
        job, *others = right(*arguments)
        assert isinstance(job, Update)
        kept = {name: value for name, value in job.set.items() if name not in ("holders", "held_through_ms")}
        return (replace(job, set=kept), *others)

    return [(deciding, "head_writes", wrong)]


def _any_number_waits() -> Sequence[Patch]:
    return [(chain, "is_room", lambda _: True)]


def _a_deletion_lets_it_go() -> Sequence[Patch]:
    right = deciding.head_of
    return [(deciding, "head_of", lambda job, *rest: right(replace(job, status="active"), *rest))]


def _what_has_ended_is_not_forgotten() -> Sequence[Patch]:
    right = deciding.head_of

    def wrong(job: Any, run: Any, *rest: Any) -> Any:
        return None if run is not None and run.status != lifecycle.BUFFERED else right(job, run, *rest)

    return [(deciding, "head_of", wrong), (chain, "is_room", lambda job: job.buffer is None)]


BUGS = (
    Bug("nobody is to look at what waits", _nobody_is_to_look),
    Bug("what is due goes before what waits", _newer_before_older),
    Bug("what waits and who holds are not compared", _compares_next_alone),
    Bug("what waits is let go beside the holder", _released_beside_the_holder),
    Bug("a look at what waits does not move on", _a_look_does_not_move_on),
    Bug("nobody sends what had to wait when it goes", _nobody_sends_what_had_to_wait),
    Bug("what waits is let go in a pause", _released_in_a_pause),
    Bug("what waits is let go however late it is", _released_however_late),
    Bug("what waits is dropped without a record", _dropped_without_a_record),
    Bug("what had to wait holds nothing when it goes", _released_and_holds_nothing),
    Bug("any number waits", _any_number_waits),
    Bug("a deletion lets go what waits", _a_deletion_lets_it_go),
    Bug("what has ended while it waits is not forgotten", _what_has_ended_is_not_forgotten),
)
