"""Lambda entry point of the watchdog: EventBridge Scheduler wakes it each minute, by a schedule of its own."""

from __future__ import annotations

import dataclasses
from typing import Any

from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.wiring import aws_ports
from tickwork.flows.watch.watching import watch
from tickwork.settings import Settings

_settings = Settings.from_environ()
_signals = PowertoolsSignals("watchdog", _settings.prefix)
_ports = aws_ports(_settings, _signals)


@_signals.published
def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    return dataclasses.asdict(watch(_ports))
