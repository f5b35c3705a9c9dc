"""The creator's trace travels with a timer to the job that runs it."""

from __future__ import annotations

import pytest

from tests.support.http import ApiUnderTest
from tests.support.runs_world import World
from tickwork.core.ledger.keys import LedgerKey
from tickwork.worker.delivery import Delivery

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def traced(header: str | None) -> str | None:
    """What the context of a timer's run says, when the timer was created under this header."""
    world = World()
    api = ApiUnderTest(world.ports)
    api.headers = {"traceparent": header} if header is not None else {}
    body = {"team": "shop", "delay_s": 5, "target": {"pool": "default", "handler": "job"}}
    status, created = api.call("POST", "/timers:batch", {"timers": [body]})
    assert status == 201, created
    world.after(6)
    world.scan()
    (message,) = world.outbox.bodies("ready-default")
    return Delivery.of("r", message, "claim").context(None).traceparent


def test_the_run_of_a_timer_carries_on_its_creators_trace() -> None:
    assert traced(TRACE) == TRACE


@pytest.mark.parametrize("header", [None, "", "nonsense", TRACE.upper(), TRACE + "-x", "00-" + "0" * 32 + TRACE[35:]])
def test_a_header_that_is_no_trace_is_ignored(header: str | None) -> None:
    assert traced(header) is None


def test_a_ledger_item_without_one_is_no_larger() -> None:
    world = World()
    key: LedgerKey = world.timer(5)
    assert "traceparent" not in world.item(key)["work"]
