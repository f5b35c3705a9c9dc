"""Planted bugs in the platform's defaults: which version an occurrence goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.dispatch import chain
from tickwork.core.jobs import occurrences
from tickwork.core.jobs.definitions import Definition, Job
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import Work
from tickwork.flows.dispatch import stepping
from tickwork.flows.ledger import platform_defaults
from tickwork.ports import Ports


def _steps_go_by_what_is_in_force() -> Sequence[Patch]:
    return [
        (stepping, "as_planned", lambda _, runs, jobs, __: (list(runs), jobs)),
        (stepping, "as_due", lambda _, job, __: job),
    ]


def _attempts_go_by_what_is_in_force() -> Sequence[Patch]:
    def wrong(ports: Ports, definition: Definition, run: Run) -> Work:
        if not isinstance(definition, Job):
            return definition.work
        (job,) = platform_defaults.applied(ports, [definition])
        return job.work if run else definition.work

    return [(platform_defaults, "work_by", wrong)]


def _an_item_does_not_say_what_planned_it() -> Sequence[Patch]:
    right = occurrences.materialise

    def wrong(*arguments: Any) -> Any:
        put = right(*arguments)
        return replace(put, item={name: value for name, value in put.item.items() if name != "defaults"})

    return [(chain, "materialise", wrong)]


BUGS = (
    Bug("a step goes by the defaults that are in force", _steps_go_by_what_is_in_force),
    Bug("an attempt goes by the defaults that are in force", _attempts_go_by_what_is_in_force),
    Bug("an item does not say which defaults planned it", _an_item_does_not_say_what_planned_it),
)
