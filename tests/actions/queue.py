"""A ready queue in virtual time, and as one process has it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.scenarios.stage import Process, Stage
from tickwork.core.instants import SECOND_MS
from tickwork.ports import InMessage, OutMessage

_XML = re.compile("[\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")


def is_xml(body: str) -> bool:
    """Whether SQS takes it: "A message can include only XML, JSON, and unformatted text", of these characters."""
    return _XML.fullmatch(body) is not None


@dataclass(slots=True)
class _Message:
    body: str
    visible_ms: int
    gone: bool = False


class Queue:
    """A ready queue. Receipts are good as long as the message is there; a handle names it for ever."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.messages: list[_Message] = []

    def put(self, message: OutMessage) -> None:
        self.messages.append(_Message(message.body, self._stage.at_ms + message.delay_s * SECOND_MS))

    def has_visible(self) -> bool:
        return any(not message.gone and message.visible_ms <= self._stage.at_ms for message in self.messages)

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        found: list[InMessage] = []
        for number, message in enumerate(self.messages):
            if message.gone or message.visible_ms > self._stage.at_ms or len(found) == limit:
                continue
            message.visible_ms = self._stage.at_ms + hide_s * SECOND_MS
            found.append(InMessage(f"handle/{number}", message.body))
        return found

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        self._of(receipt).visible_ms = self._stage.at_ms + seconds * SECOND_MS

    def delete(self, queue: str, receipt: str) -> None:
        self._of(receipt).gone = True

    def _of(self, receipt: str) -> _Message:
        return self.messages[int(receipt.partition("/")[2])]


class Received:
    """The queue as one process has it: its calls are port calls like any other."""

    def __init__(self, process: Process, queue: Queue) -> None:
        self._process, self._queue = process, queue

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        return self._process.call(
            "receive", queue, limit, lambda: self._queue.receive(queue, limit=limit, wait_s=wait_s, hide_s=hide_s)
        )

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        self._process.call("hide", queue, receipt, lambda: self._queue.hide(queue, receipt, seconds))

    def delete(self, queue: str, receipt: str) -> None:
        self._process.call("delete", queue, receipt, lambda: self._queue.delete(queue, receipt))
