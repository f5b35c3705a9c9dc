"""Planted bugs in overlap: who looks at whom, and what a write compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.jobs import overlap
from tickwork.core.jobs.asked_for import joining
from tickwork.core.jobs.overlap import Holding
from tickwork.flows.dispatch import creating, overlapping, stepping
from tickwork.flows.runs import asking, dead_letters


def _steps_do_not_look() -> Sequence[Patch]:
    return [(stepping, "holdings", lambda _, jobs: {job.job_id: Holding() for job in jobs if not job.may_overlap})]


def _replays_do_not_look() -> Sequence[Patch]:
    return [(dead_letters, "holding_of", lambda *_: None)]


def _a_waiting_run_holds_nothing() -> Sequence[Patch]:
    right = overlap.holds
    return [(overlap, "holds", lambda item, now_ms: right(item, now_ms) and item["status"] != "waiting")]


def _what_allow_has_fired_is_not_looked_for() -> Sequence[Patch]:
    return [(overlapping, "_passed_unseen", lambda *_: [])]


def _runs_by_hand_do_not_look() -> Sequence[Patch]:
    return [(asking, "holding_of", lambda *_: None)]


def _runs_by_hand_hold_nothing() -> Sequence[Patch]:
    return [(asking, "joining", lambda job, run, live: joining(job, replace(run, beside=True), live))]


def _runs_by_hand_are_not_seen_to() -> Sequence[Patch]:
    return [(asking, "creating", SimpleNamespace(prepare_slices=creating.prepare_slices, follow_up=lambda *_: None))]


BUGS = (
    Bug("a run by hand does not look who holds its job", _runs_by_hand_do_not_look),
    Bug("a run by hand does not become the holder", _runs_by_hand_hold_nothing),
    Bug("who asks for a run does not see to it", _runs_by_hand_are_not_seen_to),
    Bug("a step does not look who holds its job", _steps_do_not_look),
    Bug("a replay does not look who holds its job", _replays_do_not_look),
    Bug("a run that waits for its retry holds nothing", _a_waiting_run_holds_nothing),
    Bug("what was fired as allow is not looked for", _what_allow_has_fired_is_not_looked_for),
)
