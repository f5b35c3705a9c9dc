"""`tickwork serve windows`, with every delivery sent twice: what SQS may do, made certain."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Sequence

from tickwork.aws.wiring import aws_ports
from tickwork.local.signals import LineSignals, log_lines_to_stderr
from tickwork.local.windows import Windows
from tickwork.ports import TICKS_QUEUE, OutMessage, Sender, SendReport
from tickwork.settings import Settings


class DoublingSender:
    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        report = self._sender.send(queue, messages)
        if queue != TICKS_QUEUE:
            self._sender.send(queue, messages)
        return report


def main() -> None:
    log_lines_to_stderr()
    ports = aws_ports(Settings.from_environ(), LineSignals(), receives=True)
    ports = dataclasses.replace(ports, sender=DoublingSender(ports.sender))
    windows = Windows(ports)
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: windows.stop())
    windows.run()


if __name__ == "__main__":
    main()
