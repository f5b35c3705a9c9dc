"""Planted bugs where only a tight bound, somebody who comes between, or a worker's own answers show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.audit import passes
from tickwork.core.dispatch import slices
from tickwork.core.jobs import changes
from tickwork.core.ledger.writes import Is, all_of
from tickwork.core.runs import waiters
from tickwork.flows.runs import waking
from tickwork.worker import beating, context, delivery


def _lease_given_back_by_anybody() -> Sequence[Patch]:
    right = slices.give_back

    def wrong(lease: Any) -> Any:
        write = right(lease)
        return type(write)(write.table, write.key, Is("slice", lease.slice), set=write.set)

    return [(slices, "give_back", wrong)]


def _change_overwrites_a_moved_next() -> Sequence[Patch]:
    return [(changes, "as_read", lambda job: all_of(Is("version", job.version), Is("status", job.status)))]


def _nobody_is_woken() -> Sequence[Patch]:
    return [(waking, "wake_oldest", lambda *_: None)]


def _retries_lose_their_place() -> Sequence[Patch]:
    right = waiters.still_waits
    return [(waiters, "still_waits", lambda one, run, now: right(one, run, now) and not (run and run.retry_at_ms))]


def _looks_grow_without_end() -> Sequence[Patch]:
    right = passes.next_look

    def wrong(row: Any, now_s: int) -> Any:
        look = right(row, now_s)
        return type(look)(look.slice, 2 * look.look_at_s - row.since_s, look.bucket, look.since_s, look.tries)

    return [(passes, "next_look", wrong)]


def _stopped_after_three_failed_beats() -> Sequence[Patch]:
    return [(beating, "FAILED_BEATS_MAX", 3)]


def _failed_beats_are_never_forgotten() -> Sequence[Patch]:
    right = delivery.Delivery.extend

    def wrong(self: Any, answer: Any, asked_at_s: float) -> None:
        failed = self.failed_beats
        right(self, answer, asked_at_s)
        self.failed_beats = failed

    return [(delivery.Delivery, "extend", wrong)]


def _fences_compare_as_numbers_only() -> Sequence[Patch]:
    fence = property(lambda self: f"{self.scheduled_at:%Y-%m-%dT%H:%M:%S}#{self.token}")
    return [(context.Context, "fence", fence)]


BUGS = (
    Bug("anybody gives a lease back", _lease_given_back_by_anybody),
    Bug("a change overwrites a next that has moved", _change_overwrites_a_moved_next),
    Bug("nobody is woken by a slot that is freed", _nobody_is_woken),
    Bug("a retry that waits for a slot loses its place", _retries_lose_their_place),
    Bug("the looks at an open minute grow without end", _looks_grow_without_end),
    Bug("a worker stops after three failed heartbeats", _stopped_after_three_failed_beats),
    Bug("failed heartbeats are never forgotten", _failed_beats_are_never_forgotten),
    Bug("fences are in no order as text", _fences_compare_as_numbers_only),
)
