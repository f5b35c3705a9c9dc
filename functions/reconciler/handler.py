"""Lambda entry point of the reconciler: EventBridge Scheduler wakes it every five minutes."""

from __future__ import annotations

import dataclasses
from typing import Any

from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.wiring import aws_ports
from tickwork.flows.audit.reconciling import reconcile
from tickwork.settings import Settings

_signals = PowertoolsSignals("reconciler")
_ports = aws_ports(Settings.from_environ(), _signals)


@_signals.published
def handler(event: dict[str, Any], context: Any) -> dict[str, int]:
    return dataclasses.asdict(reconcile(_ports))
