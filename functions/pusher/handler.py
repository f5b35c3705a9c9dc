"""Lambda entry point of the pusher: messages of the pool `push` in, those that must stay in the queue out."""

from __future__ import annotations

from typing import Any

from tickwork.aws.push_http import SocketPoster
from tickwork.aws.secrets import StoredSecrets
from tickwork.aws.signals import PowertoolsSignals
from tickwork.aws.wiring import aws_ports, secrets_client
from tickwork.flows.runs.pushing import Pusher, push_batch
from tickwork.ports import PUSH_POOL, InMessage
from tickwork.settings import Settings, push_secrets_arn

_settings = Settings.from_environ()
_signals = PowertoolsSignals("pusher")
_ports = aws_ports(_settings, _signals, hides=True)
_poster = SocketPoster()
_secrets = StoredSecrets(secrets_client(), push_secrets_arn(), _ports.clock, _signals)


@_signals.published
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    messages = {record["messageId"]: InMessage(record["receiptHandle"], record["body"]) for record in event["Records"]}
    kept = push_batch(_ports, Pusher(_poster, _secrets.current()), PUSH_POOL, messages)
    return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in kept]}
