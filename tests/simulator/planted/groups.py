"""Planted bugs in groups: each lets something of a cancelled group start, or touches what is none of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import chain
from tickwork.core.jobs import changes, occurrences
from tickwork.core.jobs.scopes import Scope
from tickwork.core.ledger.epochs import Group, Label
from tickwork.core.runs.attempts import Declined
from tickwork.flows.dispatch import cancelled_groups, catching_up, firing
from tickwork.flows.jobs import cancelling_groups
from tickwork.flows.ledger import groups
from tickwork.flows.ledger.reading import read_run
from tickwork.flows.runs import cancelled_starts, timers, worker_calls


def _starts_do_not_look() -> Sequence[Patch]:
    return [(cancelled_starts, "unless_cancelled", lambda _, __: None)]


def _starts_look_before_they_write() -> Sequence[Patch]:
    """What is cancelled, and answered, between the look and the write starts."""
    right = worker_calls.start

    def wrong(ports: Any, request: Any, payload_id: Any = None) -> Any:
        run = read_run(ports, request.key)
        known = {} if run is None else groups.read_groups(ports, [groups.label_of(run)])
        if run is not None and run.group and groups.cancelled(known, run) is not None:
            return Declined("cancelled", discard=False)
        return right(ports, request, payload_id)

    return [*_starts_do_not_look(), (worker_calls, "start", wrong)]


def _only_first_attempts_look() -> Sequence[Patch]:
    right = cancelled_starts.unless_cancelled
    return [(cancelled_starts, "unless_cancelled", lambda ports, run: right(ports, run) if run.attempt == 1 else None)]


def _every_label_is_one_teams() -> Sequence[Patch]:
    """A team's cancellation is every team's."""
    return [
        (groups, "label_of", lambda run: Label("pay", run.group)),
        (groups, "label_of_job", lambda job: Label("pay", job.group)),
    ]


def _what_is_made_reads_no_epoch() -> Sequence[Patch]:
    return [(groups, "epoch_of", lambda _, __: 0)]


def _the_present_epoch_counts_as_cancelled() -> Sequence[Patch]:
    return [(Group, "has_cancelled", lambda self, epoch: epoch <= self.epoch)]


def _a_second_cancellation_is_none() -> Sequence[Patch]:
    """It is answered as the first was, and the epoch stays."""
    right = cancelling_groups.cancel_group

    def wrong(ports: Any, label: Any, by: str, reason: str) -> Any:
        standing = cancelling_groups.get_group(ports, label)
        return standing if standing.epoch else right(ports, label, by, reason)

    return [(cancelling_groups, "cancel_group", wrong)]


def _chains_go_on() -> Sequence[Patch]:
    def wrong(_: Any, jobs: Any, __: Any) -> Any:
        return dict(jobs)

    return [(module, "marked", wrong) for module in (cancelled_groups, firing)]


def _occurrences_carry_no_epoch() -> Sequence[Patch]:
    """Of a job that is part of its group anew, all are taken for cancelled."""
    right = occurrences.materialise

    def wrong(job: Any, key: Any, now_ms: int) -> Any:
        return right(replace(job, epoch=0), key, now_ms)

    return [(module, "materialise", wrong) for module in (occurrences, chain, changes)]


def _creations_are_not_looked_at_again() -> Sequence[Patch]:
    """What is cancelled while it is being made is answered as made."""
    return [(timers, "_as_they_end", lambda _, fates: list(fates))]


def _registering_again_changes_nothing() -> Sequence[Patch]:
    """The job is active again, in the epoch that was cancelled."""
    right = groups.epoch_of

    def wrong(known: Any, label: Any) -> int:
        return max(0, right(known, label) - 1)

    return [(groups, "epoch_of", wrong)]


def _a_pause_of_a_group_covers_nothing() -> Sequence[Patch]:
    right = Scope.covers
    return [(Scope, "covers", lambda self, *lies: self.kind != "group" and right(self, *lies))]


def _rows_of_groups_are_served_for_others() -> Sequence[Patch]:
    return [(catching_up, "_may_be_of", lambda item, names: not names or item.get("group") not in names)]


def _passed_without_being_cancelled() -> Sequence[Patch]:
    """Windows pass whatever bears a label."""

    def wrong(_: Any, runs: Any, __: Any) -> Any:
        return [run for run in runs if run.is_of_job or not run.group]

    return [(module, "pass_cancelled", wrong) for module in (cancelled_groups, firing)]


BUGS = (
    Bug("a start does not look at its group", _starts_do_not_look),
    Bug("a start looks at its group before its write", _starts_look_before_they_write),
    Bug("only first attempts look at their group", _only_first_attempts_look),
    Bug("a group is every team's", _every_label_is_one_teams),
    Bug("what is made reads no epoch", _what_is_made_reads_no_epoch),
    Bug("the present epoch counts as cancelled", _the_present_epoch_counts_as_cancelled),
    Bug("a second cancellation is none", _a_second_cancellation_is_none),
    Bug("the chain of a cancelled job goes on", _chains_go_on),
    Bug("occurrences carry no epoch", _occurrences_carry_no_epoch),
    Bug("creations do not look at their group again", _creations_are_not_looked_at_again),
    Bug("what is made carries the epoch before", _registering_again_changes_nothing),
    Bug("a pause of a group covers nothing", _a_pause_of_a_group_covers_nothing),
    Bug("the row of a paused group is served for others", _rows_of_groups_are_served_for_others),
    Bug("windows pass whatever bears a label", _passed_without_being_cancelled),
)
