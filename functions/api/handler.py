"""Lambda entry point of the HTTP API: an API Gateway event in, one route's answer out."""

from __future__ import annotations

from typing import Any

from tickwork.api.app import build_app
from tickwork.api.gate import DeployedGate
from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.wiring import aws_ports, credentials
from tickwork.core.access.actors import parse_rules
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.settings import Settings

_settings = Settings.from_environ()
_signals = PowertoolsSignals("api", _settings.prefix)
_gate = DeployedGate(parse_rules(_settings.principals), credentials(_settings, KnownKeys()))
_app = build_app(aws_ports(_settings, _signals, receives=True), _gate)


@_signals.published
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return _app.resolve(event, context)
