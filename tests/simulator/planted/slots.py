"""Planted bugs in concurrency tags and in the bound on an attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch, one_by_one
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.writes import Anyway, Is, Put, Update, Write
from tickwork.core.runs import attempts, endings, slots
from tickwork.core.runs.attempts import StartRequest
from tickwork.flows.runs import finishing
from tickwork.flows.runs import taking_slots as taking


def _slot_without_a_condition() -> Sequence[Patch]:
    right = slots._take

    def wrong(*arguments: Any) -> Write:
        write = right(*arguments)
        assert isinstance(write, Put)
        return replace(write, condition=Anyway("planted"))

    return [(slots, "_take", wrong)]


def _end_keeps_slots() -> Sequence[Patch]:
    return [(endings, "release", lambda _: ())]


def _limits_are_not_looked_at() -> Sequence[Patch]:
    right = attempts.first_start

    def wrong(request: StartRequest, now_ms: int) -> Update:
        return replace(right(request, now_ms), condition=Is("status", "pending"))

    return [(attempts, "first_start", wrong)]


def _everybody_is_an_orphan() -> Sequence[Patch]:
    return [(slots, "is_orphan", lambda *_: True)]


def _lapsed_holder_is_not_ended() -> Sequence[Patch]:
    def wrong(ports: Any, resource: Any, standing: Any, claim: str) -> Any:
        grab = right(ports, resource, standing, claim)
        return replace(grab, standing=standing[0], number=standing[0].number) if grab is not None else None

    right = taking._recover_slot
    return [(taking, "_recover_slot", wrong), (taking, "_end_lapsed", lambda *_: True)]


def _slots_beside_the_start() -> Sequence[Patch]:
    return [(finishing, "commit", one_by_one)]


def _reclaim_keeps_the_old_slots() -> Sequence[Patch]:
    right = attempts._reclaim

    def wrong(run: Run, *arguments: Any) -> Any:
        decided = right(run, *arguments)
        return replace(decided, writes=decided.writes[:1])

    return [(attempts, "_reclaim", wrong)]


BUGS = (
    Bug("a slot is taken without a condition", _slot_without_a_condition),
    Bug("the end of an attempt keeps its slots", _end_keeps_slots),
    Bug("a first start does not look at limits", _limits_are_not_looked_at),
    Bug("a slot is taken from a live holder", _everybody_is_an_orphan),
    Bug("a slot is taken before its lapsed holder is ended", _lapsed_holder_is_not_ended),
    Bug("slots are taken beside the start", _slots_beside_the_start),
    Bug("a reclaim keeps the old slots", _reclaim_keeps_the_old_slots),
)
