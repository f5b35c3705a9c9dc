"""Sending: what failed is tried again, what is refused is set aside, what is early waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.support.fakes import NOW_MS, fake_ports
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.messages import ReadyMessage, Tick
from tickwork.core.ledger.work import Work
from tickwork.flows.dispatch.sending import DELAY_S_MAX, SEND_TRIES_MAX, Sent, delay_s, send_ready, send_ticks
from tickwork.ports import OutMessage, SendReport


def message(number: int, due_ms: int = NOW_MS, pool: str = "default") -> ReadyMessage:
    key = LedgerKey("main", 0, due_ms, "pay", f"job-{number}", due_ms)
    return ReadyMessage(key, Work(pool, "job"), 1, NOW_MS, "test")


class Scripted:
    """A sender that answers with one report after the other, and then that all went well."""

    def __init__(self, *reports: SendReport) -> None:
        self.reports = list(reports)
        self.sizes: list[int] = []
        self.bodies: list[list[str]] = []

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        self.sizes.append(len(messages))
        self.bodies.append([message.body for message in messages])
        return self.reports.pop(0) if self.reports else SendReport()


def test_only_what_failed_is_sent_again() -> None:
    sender = Scripted(SendReport(failed=(1, 3)), SendReport(failed=(0,)))
    sent = send_ready(replace(fake_ports(), sender=sender), [message(n) for n in range(4)])
    assert (sent, sender.sizes) == (Sent(sent=4), [4, 2, 1])


def test_what_fails_again_and_again_is_what_goes_in_the_end_and_what_is_left() -> None:
    """no-lost-timer: a report names messages by their places in its own try."""
    fails = (SendReport(failed=(1, 2, 3)), SendReport(failed=(1, 2)), SendReport(failed=(1,)))
    sender = Scripted(*fails, *(SendReport(failed=(0,)) for _ in range(SEND_TRIES_MAX)))
    messages = [message(n) for n in range(4)]
    sent = send_ready(replace(fake_ports(), sender=sender), messages)
    accepted = [
        body
        for bodies, report in zip(sender.bodies, (*fails, SendReport(failed=(0,))), strict=False)
        for place, body in enumerate(bodies)
        if place not in report.failed
    ]
    assert sorted(accepted) == sorted(one.to_json() for one in messages if one not in sent.left)
    assert sent.left == (messages[3],)


def test_what_is_refused_is_set_aside_and_said_so() -> None:
    ports = replace(fake_ports(), sender=Scripted(SendReport(refused=((0, "no such queue"),), failed=(1,))))
    assert send_ready(ports, [message(0), message(1)]) == Sent(sent=1, set_aside=1)
    assert ports.signals.counts["scheduler.set_aside_total"] == 1


def test_patience_has_an_end_and_what_is_left_is_reported() -> None:
    sender = Scripted(*(SendReport(failed=(0,)) for _ in range(99)))
    assert send_ready(replace(fake_ports(), sender=sender), [message(0)]) == Sent(unsent=1)
    assert len(sender.sizes) == SEND_TRIES_MAX


def test_each_pool_has_its_queue() -> None:
    ports = fake_ports()
    send_ready(ports, [message(0), message(1, pool="payments"), message(2)])
    assert [queue for queue, _ in ports.sender.sent] == ["ready-default", "ready-default", "ready-payments"]


def test_a_message_ahead_of_its_time_is_delayed_and_never_early() -> None:
    assert delay_s(message(0, NOW_MS + 1_000), NOW_MS + 1) == 1
    assert delay_s(message(0, NOW_MS + 1_000), NOW_MS - 1) == 2
    assert delay_s(message(0, NOW_MS - 5_000), NOW_MS) == 0
    assert delay_s(message(0, NOW_MS + 3_600_000), NOW_MS) == DELAY_S_MAX


def test_the_message_of_a_retry_waits_for_the_time_of_its_retry() -> None:
    """no-early-fire: a creator sends it ahead when a scanner whose clock is ahead has passed its second."""
    retried = replace(message(0, NOW_MS - 60_000), attempt=2)
    place = replace(retried.key, fire_at_ms=NOW_MS + 20_000, kind="retry.2")
    assert delay_s(replace(retried, retry_ref=place.ref), NOW_MS) == 20


def test_ticks_go_in_order_each_visible_at_its_second() -> None:
    ports = fake_ports()
    second = NOW_MS // 1_000
    assert send_ticks(ports, {Tick("main", 1, second + 9), Tick("main", 0, second + 60), Tick("main", 0, second)}) == 3
    assert [(body["slice"], body["second"] - second) for body in ports.sender.bodies("ticks")] == [
        (0, 0),
        (0, 60),
        (1, 9),
    ]
    assert [out.delay_s for _, out in ports.sender.sent] == [0, 60, 9]
