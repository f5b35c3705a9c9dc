"""A batch of ticks: one window for a slice, and nothing that somebody put into the queue holds up the others."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support.fakes import NOW_MS, KeptSignals, fake_ports
from tickwork.core.errors import Throttled
from tickwork.core.instants import second_of
from tickwork.core.ledger.messages import TICK_CHARS_MAX, Tick
from tickwork.flows.dispatch import tick_batches
from tickwork.flows.dispatch.tick_batches import AGAIN_S_MAX, AT_ONCE_MS_MIN, SHOWN_CHARS_MAX, TickBatch
from tickwork.flows.dispatch.windows import BACKLOG_MS_MAX, WindowReport
from tickwork.ports import TICKS_QUEUE, InMessage, Layout, NoReceiver, Ports

BUDGET_MS = 8_000
HOSTILE = (
    "[" * 100_000,
    '{"cell":' * 100_000,
    '{"v":1,"cell":"main","slice":0,"second":1e999}',
    '{"v":1,"cell":"main","slice":0,"second":Infinity}',
    '{"v":1,"cell":"main","slice":0,"second":true}',
    '{"v":1,"cell":"main","slice":"0","second":1793318400}',
    '{"v":1,"cell":["main"],"slice":0,"second":1793318400}',
    '{"v":1,"cell":"main","slice":0,"second":' + "9" * 100_000 + "}",
    '{"v":1}',
    '["cell","slice","second"]',
    "17",
    "",
    "\udcff",
    "not JSON",
)


class _Hidden(NoReceiver):
    """Remembers what was hidden, or is throttled."""

    def __init__(self, throttled: bool = False) -> None:
        self.hidden: list[tuple[str, str, int]] = []
        self._throttled = throttled

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        if self._throttled:
            raise Throttled("hide")
        self.hidden.append((queue, receipt, seconds))


def _tick(slice_no: int, second: int = second_of(NOW_MS), cell: str = "main") -> str:
    return Tick(cell, slice_no, second).to_json()


def _messages(*bodies: str) -> dict[str, InMessage]:
    return {f"id-{n}": InMessage(f"receipt-{n}", body) for n, body in enumerate(bodies)}


def _done_through(ports: Ports) -> dict[int, int]:
    signals = ports.signals
    assert isinstance(signals, KeptSignals)
    return {n: signals.counts[name] for n, name in enumerate(("scheduler.windows_total", "scheduler.bad_ticks_total"))}


@pytest.mark.parametrize("body", HOSTILE, ids=[body[:20] for body in HOSTILE])
def test_whatever_is_in_the_queue_is_no_tick_and_the_others_are_served(body: str) -> None:
    ports = fake_ports()
    again = TickBatch(ports).serve(_messages(_tick(0), body, _tick(1)), budget_ms=BUDGET_MS)
    assert again == []
    assert _done_through(ports) == {0: 2, 1: 1}
    assert isinstance(ports.signals, KeptSignals)
    (line,) = (facts for action, facts in ports.signals.lines if action == "bad_tick")
    assert len(str(line["body"])) <= SHOWN_CHARS_MAX


@pytest.mark.parametrize("body", HOSTILE, ids=[body[:20] for body in HOSTILE])
def test_what_is_no_tick_is_a_value_error(body: str) -> None:
    with pytest.raises(ValueError):
        Tick.from_json(body)


def test_a_tick_with_the_fields_of_a_later_version_is_read_up_to_the_bound() -> None:
    longer = _tick(0)[:-1] + ',"later":"'
    fits = longer + "x" * (TICK_CHARS_MAX - len(longer) - 2) + '"}'
    assert Tick.from_json(fits).slice_no == 0
    with pytest.raises(ValueError, match="at most 1000"):
        Tick.from_json(fits[:-2] + 'x"}')


def test_the_ticks_of_one_slice_are_one_window() -> None:
    ports = fake_ports()
    now = second_of(NOW_MS)
    assert (
        TickBatch(ports).serve(_messages(_tick(0, now - 2), _tick(0, now), _tick(0, now - 1)), budget_ms=BUDGET_MS)
        == []
    )
    assert _done_through(ports) == {0: 1, 1: 0}


def test_a_tick_of_another_cell_or_slice_is_served_by_nobody() -> None:
    ports = fake_ports()
    foreign = _messages(_tick(0, cell="other"), _tick(-1), _tick(ports.layout.slices))
    assert TickBatch(ports).serve(foreign, budget_ms=BUDGET_MS) == []
    assert _done_through(ports) == {0: 0, 1: 3}


def test_a_tick_that_comes_too_early_is_hidden_for_a_while_and_delivered_again() -> None:
    receiver = _Hidden()
    ports = dataclasses.replace(fake_ports(), receiver=receiver)
    early = _messages(_tick(0, second_of(NOW_MS) + 12), _tick(1), _tick(0, second_of(NOW_MS) + 3_600))
    assert TickBatch(ports).serve(early, budget_ms=BUDGET_MS) == ["id-0", "id-2"]
    assert receiver.hidden == [(TICKS_QUEUE, "receipt-0", 12), (TICKS_QUEUE, "receipt-2", AGAIN_S_MAX)]


def test_a_tick_that_becomes_due_while_the_window_of_an_earlier_one_runs_is_delivered_again() -> None:
    receiver, now = _Hidden(), second_of(NOW_MS)
    ports = dataclasses.replace(fake_ports(), receiver=receiver)

    def slow(windows):  # type: ignore[no-untyped-def]
        waits = [window() for window in windows]  # up to now, and then failed sends take their time
        ports.clock.sleep_ms(20_000)
        return waits

    batch = _messages(_tick(0, now), _tick(0, now + 12))
    assert TickBatch(ports, slow).serve(batch, budget_ms=BUDGET_MS) == ["id-1"]
    assert receiver.hidden == [(TICKS_QUEUE, "receipt-1", 1)]


def test_a_tick_that_cannot_be_hidden_is_delivered_again_all_the_same() -> None:
    ports = dataclasses.replace(fake_ports(), receiver=_Hidden(throttled=True))
    early = _messages(_tick(0, second_of(NOW_MS) + 12))
    assert TickBatch(ports).serve(early, budget_ms=BUDGET_MS) == ["id-0"]
    assert isinstance(ports.signals, KeptSignals)
    assert [action for action, _ in ports.signals.lines if action == "tick_not_delayed"]


@pytest.mark.parametrize(("at_once", "each_ms"), [(False, BACKLOG_MS_MAX // 4), (True, AT_ONCE_MS_MIN)])
def test_windows_side_by_side_have_a_second_each_for_what_was_missed(
    monkeypatch: pytest.MonkeyPatch, at_once: bool, each_ms: int
) -> None:
    given: list[int] = []

    def run(ports: Ports, slice_no: int, second: int, *, budget_ms: int, backlog_ms: int) -> WindowReport:
        given.append(backlog_ms)
        return WindowReport("served", second)

    monkeypatch.setattr(tick_batches, "run_window", run)
    ports = fake_ports(layout=Layout(shards=4, slices=4, pools=("default",)))
    TickBatch(ports, at_once=at_once).serve(_messages(*map(_tick, range(4))), budget_ms=BUDGET_MS)
    assert given == [each_ms] * 4


def test_windows_are_run_by_what_the_process_gives() -> None:
    served: list[int] = []

    def serving(windows):  # type: ignore[no-untyped-def]
        served.append(len(windows))
        return [window() for window in windows]

    TickBatch(fake_ports(), serving).serve(_messages(_tick(0), _tick(1)), budget_ms=BUDGET_MS)
    assert served == [2]
