"""Lambda entry point of the second door's authorizer: API Gateway asks it about a credential it does not remember."""

from __future__ import annotations

from typing import Any

from tickwork.api.door import Admission, admission
from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.wiring import aws_ports, credentials
from tickwork.flows.access.authenticating import SeenKeys
from tickwork.settings import Settings

_settings = Settings.from_environ()
_signals = PowertoolsSignals("authorizer", _settings.prefix)
_ports = aws_ports(_settings, _signals)
_credentials = credentials(_settings, SeenKeys())


@_signals.published
def handler(event: dict[str, Any], context: Any) -> Admission:
    return admission(_ports, _credentials, event)
