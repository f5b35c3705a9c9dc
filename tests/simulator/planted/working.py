"""Planted bugs of the production worker: what it trusts, tells, hides and hands back; and of what audits leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.audit import passes
from tickwork.worker import shutting_down
from tickwork.worker.claims import Claims, _message
from tickwork.worker.sources import SqsSource
from tickwork.worker.stopping import Stoppable


def _trusted_from_the_answer() -> Sequence[Patch]:
    right = SqsSource._sort

    def wrong(source: SqsSource, deliveries: Any, answers: Any, _: float) -> Any:
        return right(source, deliveries, answers, source._clock.now_s())

    return [(SqsSource, "_sort", wrong)]


def _claims_are_forgotten() -> Sequence[Patch]:
    return [(Claims, "keep", lambda *_: None)]


def _claims_stand_for_ever() -> Sequence[Patch]:
    def wrong(claims: Claims, deliveries: Any) -> None:
        for delivery in deliveries:
            delivery.claim = claims._kept.get(_message(delivery), delivery.claim)

    return [(Claims, "name_again", wrong)]


def _handed_back_while_it_runs() -> Sequence[Patch]:
    return [(shutting_down, "EXIT_S", 0)]


def _begun_though_told() -> Sequence[Patch]:
    return [(Stoppable, "_raise_if_told", lambda _: None)]


def _messages_are_not_hidden() -> Sequence[Patch]:
    return [(SqsSource, "hold", lambda *_: None)]


def _messages_are_kept() -> Sequence[Patch]:
    return [(SqsSource, "drop", lambda *_: None)]


def _rows_begin_anew() -> Sequence[Patch]:
    right = passes.again_soon
    return [(passes, "again_soon", lambda slice_id, bucket, now_s, row=None: right(slice_id, bucket, now_s))]


BUGS = (
    Bug("a worker trusts a lease from when its answer came", _trusted_from_the_answer),
    Bug("a worker forgets the claim of a start that found no answer", _claims_are_forgotten),
    Bug("a worker names a claim again and again", _claims_stand_for_ever),
    Bug("a worker hands back for now what still runs", _handed_back_while_it_runs),
    Bug("a worker begins what it was told to stop", _begun_though_told),
    Bug("a worker does not hide the messages of what it works at", _messages_are_not_hidden),
    Bug("a worker keeps the messages of what has ended", _messages_are_kept),
    Bug("a look that failed forgets those before it", _rows_begin_anew),
)
