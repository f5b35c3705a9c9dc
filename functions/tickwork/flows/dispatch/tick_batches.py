"""Serving batches of tick messages: the windows they ask for, and which ticks must come again, and when.

Shared by the scanner Lambda and the embedded scanner. Knows a queue only as a `ports.Receiver`, and how windows may run
side by side only as what it is given (`Serving`). Protects bounded-lag: whatever a message holds, the others of its
batch are served.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.messages import Tick
from tickwork.flows.dispatch.windows import BACKLOG_MS_MAX, latest_due, run_window
from tickwork.ports import TICKS_QUEUE, InMessage, Ports

AGAIN_S_MAX = 30
"""The longest that a tick which comes back is hidden: what holds it up, a lease or an early tick, is over by then or
worth another look."""
SHOWN_CHARS_MAX = 200
"""Of a body that is no tick, in the log: enough to see who sent it."""

AT_ONCE_MS_MIN = SECOND_MS
"""What each of some windows that are served side by side has at least for what was missed, and for what was set aside:
the next window of its slice begins with the next second."""

type Window = Callable[[], int | None]
"""Serves a slice. None when its ticks have done their work, else how long to wait before they come again."""

type Serving = Callable[[Sequence[Window]], list[int | None]]
"""Runs some windows and answers in their order."""


def one_by_one(windows: Sequence[Window]) -> list[int | None]:
    return [window() for window in windows]


class TickBatch:
    """Runs the windows of a batch of ticks, one for each slice: the latest second that is due serves the earlier ones,
    and those that are early come again."""

    def __init__(self, ports: Ports, serving: Serving = one_by_one, *, at_once: bool = False) -> None:
        """`at_once`: windows are served side by side, and do not wait for each other."""
        self._ports = ports
        self._serving = serving
        self._backlog_ms_min = AT_ONCE_MS_MIN if at_once else 0

    def serve(self, messages: Mapping[str, InMessage], *, budget_ms: int) -> list[str]:
        """The ids of the messages that must be delivered again; each has been hidden for a short while. The caller
        deletes the others."""
        until_ms = self._ports.clock.monotonic_ms() + budget_ms
        by_slice = self._by_slice(messages)
        backlog_ms = max(BACKLOG_MS_MAX // max(1, len(by_slice)), self._backlog_ms_min)
        served = [latest_due(self._ports, seconds.values()) for seconds in by_slice.values()]
        windows = [
            partial(self._window, self._ports.in_cell(cell), slice_no, second, until_ms, backlog_ms)
            for (cell, slice_no), second in zip(by_slice, served, strict=True)
        ]
        again: list[str] = []
        for seconds, done, wait_ms in zip(by_slice.values(), served, self._serving(windows), strict=True):
            for message_id, second in seconds.items():
                if wait_ms is None and second <= done:
                    continue
                # One that was early comes again, also when it became due while the window ran: nobody has served it.
                early_ms = second * SECOND_MS - self._ports.clock.now_ms() if second > done else 0
                self._hide(messages[message_id].receipt, max(wait_ms or 0, early_ms))
                again.append(message_id)
        return again

    def _by_slice(self, messages: Mapping[str, InMessage]) -> dict[tuple[str, int], dict[str, int]]:
        """The seconds that the ticks of each slice ask for, by the ids of their messages."""
        found: dict[tuple[str, int], dict[str, int]] = {}
        for message_id, message in messages.items():
            tick = self._read(message.body)
            if tick is not None:
                found.setdefault((tick.cell, tick.slice_no), {})[message_id] = tick.second
        return found

    def _read(self, body: str) -> Tick | None:
        """None when the body is no tick of ours: it is counted, logged, and done with."""
        shown = body[:SHOWN_CHARS_MAX]
        try:
            tick = Tick.from_json(body)
        except ValueError as error:
            self._ports.signals.count("scheduler.bad_ticks_total")
            self._ports.signals.log("bad_tick", why=str(error), body=shown)
            return None
        slices = {shape.name: shape.slices for shape in self._ports.layout.shapes}
        if not 0 <= tick.slice_no < slices.get(tick.cell, 0):
            self._ports.signals.count("scheduler.bad_ticks_total")
            self._ports.signals.log("foreign_tick", body=json.dumps(shown))
            return None
        return tick

    def _window(self, ports: Ports, slice_no: int, second: int, until_ms: int, backlog_ms: int) -> int | None:
        """None when the tick has done its work, else how long to wait before it comes again."""
        budget_ms = max(0, until_ms - ports.clock.monotonic_ms())
        try:
            report = run_window(ports, slice_no, second, budget_ms=budget_ms, backlog_ms=backlog_ms)
        except WorldError as error:
            ports.signals.count("scheduler.windows_failed_total")
            ports.signals.log("window_failed", slice=ports.layout.label(slice_no), second=second, error=repr(error))
            return SECOND_MS
        return report.wait_ms if report.needs_retry else None

    def _hide(self, receipt: str, wait_ms: int) -> None:
        """A tick that comes back waits as long as makes sense, not for the whole visibility timeout."""
        seconds = min(AGAIN_S_MAX, max(1, -(-wait_ms // SECOND_MS)))
        try:
            self._ports.receiver.hide(TICKS_QUEUE, receipt, seconds)
        except WorldError as error:
            self._ports.signals.log("tick_not_delayed", error=repr(error))  # it comes back later: lag, no loss
