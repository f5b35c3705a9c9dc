"""Planted bugs in pauses of scopes: each leaves out what keeps something from starting, or from being forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.simulator.planted.bug import Bug, Patch
from tickwork.core.jobs.scopes import Paused
from tickwork.flows.dispatch import catching_up
from tickwork.flows.dispatch.fired import Firing
from tickwork.flows.dispatch.pauses_seen import PausesSeen
from tickwork.flows.runs import paused_starts, worker_calls


def _starts_ask_nobody() -> Sequence[Patch]:
    """What was queued before, or was sent by somebody without a lease, starts."""
    return [(paused_starts, "concerns", lambda _, __: False)]


def _first_starts_alone_are_asked() -> Sequence[Patch]:
    """A start that was put off goes when its retry is sent: by an old scanner, or by the audit."""
    right = worker_calls._decide_on

    def wrong(ports: Any, request: Any, run: Any) -> Any:
        if request.retry is None:
            return right(ports, request, run)
        (_, name, fake), before = _starts_ask_nobody()[0], paused_starts.concerns
        setattr(paused_starts, name, fake)
        try:
            return right(ports, request, run)
        finally:
            paused_starts.concerns = before

    return [(worker_calls, "_decide_on", wrong), *_windows_know_of_none()]


def _windows_know_of_none() -> Sequence[Patch]:
    return [(PausesSeen, "told", lambda _, firing: firing)]


def _left_without_a_row() -> Sequence[Patch]:
    """What is paused is not fired, and not set aside: the cursor passes it."""
    right = Firing.takes

    def wrong(self: Any, key: Any, work: Any, group: str, fired: Any, **named: Any) -> bool:
        before = dict(fired.left)
        taken = right(self, key, work, group, fired, **named)
        if not taken and any(who.kind == "pause" for who in fired.left.keys() - before.keys()):
            fired.left.clear()
            fired.left.update(before)
        return taken

    return [(Firing, "takes", wrong)]


def _nobody_looks_for_the_end() -> Sequence[Patch]:
    return [(PausesSeen, "is_over", lambda _, __: False)]


def _rows_of_another_team() -> Sequence[Patch]:
    """What a row waits for is looked for among another team's."""
    right = catching_up._wanted

    def wrong(who: Any) -> Any:
        return (lambda item: "#pay#" not in str(item["sk"])) if who.kind == "pause" else right(who)

    return [(catching_up, "_wanted", wrong)]


def _a_pause_covers_nothing_in_a_pool() -> Sequence[Patch]:
    """A start never learns in which pool its run is."""
    return [(Paused, "has_pools", property(lambda _: False))]


BUGS = (
    Bug("starts ask nobody what is paused", _starts_ask_nobody),
    Bug("a start that was put off asks nobody what is paused", _first_starts_alone_are_asked),
    Bug("what is paused is left without a row", _left_without_a_row),
    Bug("nobody finds out that a pause is over", _nobody_looks_for_the_end),
    Bug("the row of a pause is served for others", _rows_of_another_team),
    Bug("a start does not learn its pool", _a_pause_covers_nothing_in_a_pool),
)
