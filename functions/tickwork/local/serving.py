"""The API and the windows as processes that end on SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from tickwork.api.app import build_app
from tickwork.api.gate import KeyGate, OpenGate
from tickwork.aws.push_http import SocketPoster
from tickwork.aws.wiring import aws_ports, credentials
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.flows.runs.pushing import Pusher, push_some
from tickwork.flows.watch.watching import watch
from tickwork.local.long_polls import FewLongPolls
from tickwork.local.loops import keep_doing, run_together
from tickwork.local.server import LONG_POLLS, serve
from tickwork.local.signals import LineSignals, log_lines_to_stderr
from tickwork.local.windows import Windows
from tickwork.ports import PUSH_POOL
from tickwork.settings import BadSetting, PushSecrets, Settings

PUSH_WAIT_S = 5
WATCHDOG_EVERY_S = 60.0


def serve_api_until_told(port: int, *, auth: bool = False) -> None:
    """`auth`: who calls shows an API key. Without it everybody on this machine is `local`, and may do anything."""
    log_lines_to_stderr()
    ports = aws_ports(Settings.from_environ(), LineSignals(), receives=True)
    ports = replace(ports, receiver=FewLongPolls(ports.receiver, LONG_POLLS))
    shown = credentials(Settings.from_environ(), KnownKeys())
    gate = KeyGate(shown) if auth else OpenGate(shown)  # one for all resolvers, which serve in threads
    server = serve(lambda: build_app(ports, gate), port)
    # `shutdown` waits for the loop of `serve_forever`, which is this thread's: it needs another.
    _on_end(lambda: threading.Thread(target=server.shutdown).start())
    server.serve_forever(poll_interval=0.1)
    server.server_close()


def serve_windows_until_told() -> None:
    log_lines_to_stderr()
    settings = Settings.from_environ()
    windows = Windows(aws_ports(settings, LineSignals(), receives=True))
    _on_end(windows.stop)
    windows.run()


def serve_watch_until_told() -> None:
    """The watchdog, each minute."""
    log_lines_to_stderr()
    ports = aws_ports(Settings.from_environ(), LineSignals())
    ending = threading.Event()
    _on_end(ending.set)
    keep_doing(partial(watch, ports), name="watchdog", stopping=ending, signals=ports.signals, every_s=WATCHDOG_EVERY_S)


def serve_push_until_told(threads: int) -> None:
    """Push runs to their URLs: some threads, each with one message at a time."""
    log_lines_to_stderr()
    settings = Settings.from_environ()
    if PUSH_POOL not in settings.layout().pools:
        raise BadSetting(f"TICKWORK_POOLS is {settings.pools!r}: without {PUSH_POOL} there is no queue of pushes")
    ports = aws_ports(settings, LineSignals(), receives=True)
    pusher = Pusher(SocketPoster(allow_private=settings.push_private), PushSecrets.from_environ().secrets)
    ending = threading.Event()
    _on_end(ending.set)
    push = partial(push_some, ports, pusher, PUSH_POOL, wait_s=PUSH_WAIT_S)
    run_together(
        [
            partial(keep_doing, push, name=f"pusher-{number}", stopping=ending, signals=ports.signals)
            for number in range(threads)
        ]
    )


def _on_end(stop: Callable[[], None]) -> None:
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stop())
