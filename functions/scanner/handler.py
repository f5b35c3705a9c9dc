"""Lambda entry point of the scanner: a batch of ticks in, the ticks that must come again out."""

from __future__ import annotations

from typing import Any

from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.threads import side_by_side
from tickwork.aws.wiring import aws_ports
from tickwork.core.ledger.queues import SCANNER_RESERVE_MS
from tickwork.flows.dispatch.tick_batches import TickBatch
from tickwork.ports import InMessage
from tickwork.settings import Settings

_settings = Settings.from_environ()
_signals = PowertoolsSignals("scanner", _settings.prefix)
_batch = TickBatch(aws_ports(_settings, _signals, hides=True), side_by_side(), at_once=True)


@_signals.published
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    messages = {record["messageId"]: InMessage(record["receiptHandle"], record["body"]) for record in event["Records"]}
    again = _batch.serve(messages, budget_ms=context.get_remaining_time_in_millis() - SCANNER_RESERVE_MS)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in again]}
