"""Sending ready messages: by pool, what failed again, what can never go set aside and said so.

What fails for one pool costs that pool only: each is tried once before any is tried again, and what is left of each is
said by message, for the window to set aside.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.messages import ReadyMessage, Tick
from tickwork.flows.ledger.commit import pause_ms
from tickwork.ports import TICKS_QUEUE, OutMessage, Ports, ready_queue

SEND_TRIES_MAX = 5
"""With the pauses between, a second and a half. A window waits for them once: it then leaves that pool in peace."""

DELAY_S_MAX = 900
"""SQS's own limit; an emulator may accept more, and AWS would then refuse it at 3 a.m."""


@dataclass(frozen=True, slots=True)
class Sent:
    """How many went out, how many never will (set aside, alarmed, left to the audit), how many failed every try.

    `left` are the messages that failed every try, and those to a queue that is not there: it may come back."""

    sent: int = 0
    set_aside: int = 0
    unsent: int = 0
    left: tuple[ReadyMessage, ...] = field(default=(), compare=False)


@dataclass(slots=True)
class _Outbox:
    """Messages to one queue: those still to go, by number, and what became of the others."""

    queue: str
    outgoing: Sequence[OutMessage]
    left: list[int]
    aside: int = 0
    why: str = ""
    closed: bool = False
    """The queue itself refuses everything."""

    @property
    def went(self) -> int:
        return len(self.outgoing) - self.aside - len(self.left)


def send_ready(
    ports: Ports,
    messages: Sequence[ReadyMessage],
    tries_max: int = SEND_TRIES_MAX,
    is_crowd: Callable[[str], bool] = lambda _: False,
) -> Sent:
    """Send each run's message to its pool's queue. A message ahead of its time is delayed, never early. Those of a team
    that sends a crowd name it to the queue, which serves others' first (SQS fair queues); nobody else sees it."""
    by_pool: dict[str, list[ReadyMessage]] = defaultdict(list)
    for message in messages:
        by_pool[message.work.pool].append(message)
    now_ms = ports.clock.now_ms()
    boxes = {pool: _outbox(ready_queue(pool), group, now_ms, is_crowd) for pool, group in by_pool.items()}
    _send_patiently(ports, list(boxes.values()), tries_max)
    left = tuple(by_pool[pool][index] for pool, box in boxes.items() for index in box.left)
    closed = sum(len(box.left) for box in boxes.values() if box.closed)
    aside = sum(box.aside for box in boxes.values()) + closed
    return Sent(sum(box.went for box in boxes.values()), aside, len(left) - closed, left)


def _outbox(queue: str, messages: Sequence[ReadyMessage], now_ms: int, is_crowd: Callable[[str], bool]) -> _Outbox:
    outgoing = [
        OutMessage(m.to_json(), delay_s(m, now_ms), m.key.team if is_crowd(m.key.team) else None) for m in messages
    ]
    return _Outbox(queue, outgoing, list(range(len(outgoing))))


def delay_s(message: ReadyMessage, now_ms: int) -> int:
    """Whole seconds until the message may be seen: retries fire by their own time, which `retry_ref` carries."""
    fire_at_ms = message.due_ms
    return min(max(0, -(-(fire_at_ms - now_ms) // SECOND_MS)), DELAY_S_MAX)


def send_ticks(ports: Ports, ticks: Iterable[Tick]) -> int:
    """Issue ticks, each visible at its second, in order (a set's own order differs from process to process, and a
    history must be able to repeat itself). A tick that fails every try is only lag: returns how many went."""
    now_ms = ports.clock.now_ms()
    outgoing = [
        OutMessage(tick.to_json(), min(max(0, -(-(tick.second * SECOND_MS - now_ms) // SECOND_MS)), DELAY_S_MAX))
        for tick in sorted(ticks)
    ]
    box = _Outbox(TICKS_QUEUE, outgoing, list(range(len(outgoing))))
    _send_patiently(ports, [box], SEND_TRIES_MAX)
    return box.went


def _send_patiently(ports: Ports, boxes: Sequence[_Outbox], tries_max: int) -> None:
    """Try what failed again. Every queue gets its first try before any gets its second."""
    for tries in range(1, tries_max + 1):
        waiting = [box for box in boxes if box.left and not box.closed]
        for box in waiting:
            _send_once(ports, box)
        if tries < tries_max and any(box.left and not box.closed for box in waiting):
            ports.clock.sleep_ms(pause_ms(tries))
    for box in boxes:
        if box.left:
            ports.signals.count("scheduler.unsent_total", len(box.left))
            ports.signals.log("messages_unsent", queue=box.queue, unsent=len(box.left), why=box.why)


def _send_once(ports: Ports, box: _Outbox) -> None:
    report = ports.sender.send(box.queue, [box.outgoing[index] for index in box.left])
    box.why = report.why
    if report.closed:
        box.closed = True
        ports.signals.count("scheduler.set_aside_total", len(box.left))
        ports.signals.log("queue_closed", queue=box.queue, messages=len(box.left), why=report.why)
        return
    for index, why in report.refused:
        box.aside += 1
        ports.signals.count("scheduler.set_aside_total")
        body = box.outgoing[box.left[index]].body[:200]
        ports.signals.log("message_set_aside", queue=box.queue, why=why, body=body)
    box.left = [box.left[index] for index in report.failed]
