"""Lambda's SQS event source in one process, to run a handler against the conformance platform.

    python -m tickwork.conformance.event_source MODULE:HANDLER

Receives batches, calls the handler, deletes what it did not report as failed.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid
from typing import Any

BATCH_SIZE = 10
FUNCTION_S = 120.0
"""The timeout of the function that is played."""


class _Context:
    function_name = "conformance"

    def __init__(self) -> None:
        self.aws_request_id = str(uuid.uuid4())
        self._ends_s = time.monotonic() + FUNCTION_S

    def get_remaining_time_in_millis(self) -> int:
        return int((self._ends_s - time.monotonic()) * 1000)


def poll(handler: Any, url: str, queue_url: str, stopping: threading.Event) -> None:
    while not stopping.is_set():
        asked = {"QueueUrl": queue_url, "MaxNumberOfMessages": BATCH_SIZE, "WaitTimeSeconds": 1}
        try:
            messages = _sqs(url, "ReceiveMessage", asked).get("Messages", [])
        except (urllib.error.URLError, ConnectionError):
            stopping.wait(0.5)
            continue
        if messages:
            _invoke(handler, url, queue_url, messages)


def _invoke(handler: Any, url: str, queue_url: str, messages: list[dict[str, str]]) -> None:
    records = [
        {"messageId": m["MessageId"], "receiptHandle": m["ReceiptHandle"], "body": m["Body"], "eventSource": "aws:sqs"}
        for m in messages
    ]
    try:
        answer = handler({"Records": records}, _Context())
        failed = {item["itemIdentifier"] for item in answer["batchItemFailures"]}
    except Exception as error:  # noqa: BLE001 - Lambda: the whole batch comes again
        print(f"the handler failed: {error!r}", file=sys.stderr)
        return
    for record in records:
        if record["messageId"] not in failed:
            _sqs(url, "DeleteMessage", {"QueueUrl": queue_url, "ReceiptHandle": record["receiptHandle"]})


def _sqs(url: str, action: str, body: dict[str, Any]) -> Any:
    headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read())


def main() -> None:
    module, _, name = sys.argv[1].partition(":")
    handler = getattr(importlib.import_module(module), name)
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    poll(handler, os.environ["AWS_ENDPOINT_URL"], os.environ["TICKWORK_QUEUE_URL"], stopping)


if __name__ == "__main__":
    main()
