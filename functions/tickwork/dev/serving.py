"""The API and the windows as processes that end on SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable

from tickwork.api.app import build_app
from tickwork.aws.wiring import aws_ports, sqs_client
from tickwork.dev.server import serve
from tickwork.dev.signals import LineSignals, log_lines_to_stderr
from tickwork.dev.windows import Windows
from tickwork.settings import Settings


def serve_api_until_told(port: int) -> None:
    log_lines_to_stderr()
    ports = aws_ports(Settings.from_environ(), LineSignals(), receives=True)
    server = serve(lambda: build_app(ports), port)
    # `shutdown` waits for the loop of `serve_forever`, which is this thread's: it needs another.
    _on_end(lambda: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.1)
    server.server_close()


def serve_windows_until_told() -> None:
    log_lines_to_stderr()
    settings = Settings.from_environ()
    windows = Windows(aws_ports(settings, LineSignals()), sqs_client(long_poll=True), settings.prefix)
    _on_end(windows.stop)
    windows.run()


def _on_end(stop: Callable[[], None]) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stop())
