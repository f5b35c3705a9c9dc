"""Lambda entry point of the ticker: EventBridge Scheduler wakes it each minute, loosely."""

from __future__ import annotations

from typing import Any

from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.wiring import aws_ports
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.settings import Settings

_signals = PowertoolsSignals("ticker")
_ports = aws_ports(Settings.from_environ(), _signals)


@_signals.published
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return {"ticks": issue_ticks(_ports)}
