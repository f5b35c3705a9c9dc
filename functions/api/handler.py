"""Lambda entry point of the HTTP API: an API Gateway event in, one route's answer out."""

from __future__ import annotations

from typing import Any

from tickwork.api.app import build_app
from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.wiring import aws_ports
from tickwork.settings import Settings

_signals = PowertoolsSignals("api")
_app = build_app(aws_ports(Settings.from_environ(), _signals, receives=True))


@_signals.published
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return _app.resolve(event, context)
