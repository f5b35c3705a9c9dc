"""Lambda entry point of the scanner: a batch of ticks in, the ticks that must come again out."""

from __future__ import annotations

from typing import Any

from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.ticks import TickBatch, side_by_side
from tickwork.aws.wiring import aws_ports, sqs_client
from tickwork.core.ledger.queues import SCANNER_RESERVE_MS
from tickwork.settings import Settings

_settings = Settings.from_environ()
_signals = PowertoolsSignals("scanner", _settings.prefix)
_batch = TickBatch(aws_ports(_settings, _signals), sqs_client(), _settings.prefix, side_by_side())


@_signals.metrics.log_metrics
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    again = _batch.serve(
        [(r["messageId"], r["receiptHandle"], r["body"]) for r in event["Records"]],
        budget_ms=context.get_remaining_time_in_millis() - SCANNER_RESERVE_MS,
    )
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in again]}
