"""A ticker whose queue takes some of its ticks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.scenarios.stage import NOW_MS, Stage
from tickwork.core.instants import SECOND_MS
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.ports import OutMessage, SendReport


class TakesOne:
    """A queue that takes the first message, and then no other."""

    def __init__(self) -> None:
        self._has_taken = False

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        first, self._has_taken = int(not self._has_taken), True
        return SendReport(failed=tuple(range(first, len(messages))), why="busy")


def test_ticks_of_which_the_queue_took_only_some_do_not_count_as_issued() -> None:
    stage = Stage()
    stage.timers(3, NOW_MS + 90 * SECOND_MS)
    stage.tick()
    issued = stage.lease().ticked
    stage.at_ms += 60 * SECOND_MS
    for n in range(6):
        stage.timers(1, stage.at_ms + (130 + 7 * n) * SECOND_MS)
    sent = issue_ticks(replace(stage.process().ports, sender=TakesOne()))
    assert sent == 1
    assert stage.lease().ticked == issued, "the next run issues what the queue did not take"
    stage.tick()
    assert stage.lease().ticked > issued
