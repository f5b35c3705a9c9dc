"""Whoever has failed in a window is not tried again in it (F14): each try costs pauses, and they are everybody's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.support.worlds import create_job, create_timer, make_world, move, sent_refs, serve
from tickwork.core.errors import Throttled
from tickwork.core.ledger.tables import SET_ASIDE
from tickwork.core.ledger.writes import Put, Write
from tickwork.flows.dispatch.sending import SEND_TRIES_MAX
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.ports import OutMessage, Ports, SendReport
from tickwork.testing.memory import MemoryStore

QUEUE = "ready-default"


class TakesNothing:
    """A sender whose one ready queue takes nothing. `tries`: how many messages each try was for."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.tries: list[int] = []

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        if queue != QUEUE:
            report: SendReport = self._inner.send(queue, messages)
            return report
        self.tries.append(len(messages))
        return SendReport(failed=tuple(range(len(messages))), why="denied")


def some_timers(ports: Ports) -> None:
    """More than a page of them."""
    for n in range(1_200):
        create_timer(ports, 5 + n % 20, f"key-{n}")


def some_chains(ports: Ports) -> None:
    """Each of them steps again and again to an instant that has passed."""
    for n in range(3):
        create_job(ports, {"rate": "2 seconds"}, name=f"often-{n}")


@pytest.mark.parametrize("make", [some_timers, some_chains])
def test_a_queue_that_takes_nothing_is_tried_once_a_window_whatever_there_is_for_it(make: Any) -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    make(ports)
    move(ports, 30)
    sender = TakesNothing(ports.sender)
    serve(replace(ports, sender=sender))
    assert len(sender.tries) == SEND_TRIES_MAX, "one send, with its repetitions"


@pytest.mark.parametrize("make", [some_timers, some_chains])
def test_what_was_left_in_peace_goes_when_the_queue_takes_again(make: Any) -> None:
    ports, _ = make_world()
    issue_ticks(ports)
    make(ports)
    move(ports, 30)
    serve(replace(ports, sender=TakesNothing(ports.sender)))
    for _ in range(12):  # rows are tried at growing distance, and a page at a time
        move(ports, 60)
        issue_ticks(ports)
        serve(ports)
    sender: Any = ports.sender
    refs = {body["ref"] for body in sender.bodies(QUEUE)}
    if make is some_timers:
        assert len(refs) == 1_200
    else:
        assert {f"often-{n}" for n in range(3)} <= {ref.split("#")[4] for ref in refs}


class OneJobBusy:
    """Tables that refuse every commit which touches one job."""

    def __init__(self, tables: MemoryStore, job_id: str) -> None:
        self._tables, self._job_id = tables, job_id

    def commit(self, writes: Sequence[Write]) -> Any:
        places = [write.item if isinstance(write, Put) else write.key for write in writes]
        if any(place.get("job_id") == self._job_id for place in places):
            raise Throttled(self._job_id)
        return self._tables.commit(writes)

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._tables, verb)


@pytest.mark.parametrize("stuck", ["job-0", "job-2", "job-4"])
def test_of_jobs_whose_steps_share_a_transaction_the_busy_one_is_left_and_the_others_go(stuck: str) -> None:
    ports, tables = make_world()
    issue_ticks(ports)
    for n in range(5):
        create_job(ports, {"rate": "20 seconds"}, name=f"job-{n}")
    move(ports, 25)
    serve(replace(ports, store=OneJobBusy(tables, f"pay:{stuck}")))
    sent = {ref.split("#")[4] for ref in sent_refs(ports)}
    assert sent == {f"job-{n}" for n in range(5)} - {stuck}
    assert [row["who"] for row in tables.items(SET_ASIDE)] == [f"job#pay:{stuck}"], "the cursor has not forgotten it"
