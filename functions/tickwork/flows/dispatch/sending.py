"""Sending ready messages: by pool, what failed again, what can never go set aside and said so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.messages import ReadyMessage, Tick
from tickwork.flows.ledger.commit import pause_ms
from tickwork.ports import TICKS_QUEUE, OutMessage, Ports, ready_queue

SEND_TRIES_MAX = 5
DELAY_S_MAX = 900
"""SQS's own limit; an emulator may accept more, and AWS would then refuse it at 3 a.m."""


@dataclass(frozen=True, slots=True)
class Sent:
    """How many went out, how many never will (set aside, alarmed, left to the audit), how many failed every try."""

    sent: int = 0
    set_aside: int = 0
    unsent: int = 0


def send_ready(ports: Ports, messages: Sequence[ReadyMessage]) -> Sent:
    """Send each run's message to its pool's queue. A message ahead of its time is delayed, never early."""
    by_pool: dict[str, list[ReadyMessage]] = defaultdict(list)
    for message in messages:
        by_pool[message.work.pool].append(message)
    now_ms = ports.clock.now_ms()
    sent = set_aside = unsent = 0
    for pool, group in by_pool.items():
        outgoing = [OutMessage(m.to_json(), delay_s(m, now_ms)) for m in group]
        went, aside, left = _send_patiently(ports, ready_queue(pool), outgoing)
        sent, set_aside, unsent = sent + went, set_aside + aside, unsent + left
    return Sent(sent, set_aside, unsent)


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
    went, _, _ = _send_patiently(ports, TICKS_QUEUE, outgoing)
    return went


def _send_patiently(ports: Ports, queue: str, outgoing: Sequence[OutMessage]) -> tuple[int, int, int]:
    """(sent, set aside, unsent) after trying what failed again."""
    left = list(outgoing)
    aside = 0
    why = ""
    for tries in range(1, SEND_TRIES_MAX + 1):
        if not left:
            break
        report = ports.sender.send(queue, left)
        for index, why in report.refused:
            aside += 1
            ports.signals.count("scheduler.set_aside_total")
            ports.signals.log("message_set_aside", queue=queue, why=why, body=left[index].body[:200])
        left, why = [left[index] for index in report.failed], report.why
        if left and tries < SEND_TRIES_MAX:
            ports.clock.sleep_ms(pause_ms(tries))
    if left:
        ports.signals.count("scheduler.unsent_total", len(left))
        ports.signals.log("messages_unsent", queue=queue, unsent=len(left), why=why)
    return len(outgoing) - aside - len(left), aside, len(left)
