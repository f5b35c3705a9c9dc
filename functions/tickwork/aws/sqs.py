"""Sending through SQS: packing batches, and reading every entry of the answer.

A batch answered with 200 may have failed in part, and an entry may be in neither list: whatever is not in
`Successful` was not sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as ConnectionFailed

from tickwork.core.errors import Throttled, TickworkError
from tickwork.ports import InMessage, OutMessage, SendReport

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

BATCH_MESSAGES_MAX = 10
BATCH_BYTES_MAX = 250_000
"""Under the 256 KiB that held for a batch until August 2025: an emulator or an old endpoint may still mean it."""

_CLOSED = {
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "AccessDenied",
    "AccessDeniedException",
    "KmsAccessDenied",
    "KMS.AccessDeniedException",
    "KmsDisabled",
    "KmsInvalidState",
    "KmsNotFound",
}
"""What a queue says that takes nothing from us, whatever we send."""

_UNKNOWN_CALLER = {
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
"""What AWS says to credentials that it does not take. Not among them: those that have run out, which are renewed."""

_CONTENT = {
    "InvalidMessageContents",
    "InvalidParameterValue",
    "BatchRequestTooLong",
    "AWS.SimpleQueueService.BatchRequestTooLong",
    "ValidationException",
}
"""What SQS says of a whole batch because of what is in it."""


SENDS_AT_ONCE = 32
"""Batches under way together, of all windows of a process: a call waits for some ten or twenty milliseconds, and one
after the other a slice would fire a few hundred a second (docs/scale.md). As many as the client keeps connections."""


class QueueClosed(TickworkError):
    """A queue that will not answer us the next time either: it is gone, or does not let us. The message says why."""


def raise_if_closed(error: Exception) -> None:
    """QueueClosed if a call to a queue was refused for good. By its code: what SQS refuses for the moment has a status
    of 400 or 403, too."""
    if isinstance(error, ClientError) and error.response["Error"]["Code"] in _CLOSED | _UNKNOWN_CALLER:
        raise QueueClosed(str(error)) from error


RECEIVES: Literal["ApproximateReceiveCount"] = "ApproximateReceiveCount"


def receives_of(message: Mapping[str, Any]) -> int:
    """How often a message has been received. An endpoint that does not say is taken to have delivered it once."""
    return int(message.get("Attributes", {}).get(RECEIVES, 1))


class SqsSender:
    """A `ports.Sender` over a boto3 client. A queue's full name is `<prefix>-<queue>`."""

    def __init__(self, client: SQSClient, prefix: str, sends_at_once: int = SENDS_AT_ONCE) -> None:
        self._client = client
        self._prefix = prefix
        self._urls: dict[str, str] = {}
        self._at_once = sends_at_once
        self._threads = ThreadPoolExecutor(sends_at_once, thread_name_prefix="send")

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        try:
            url = self.queue_url(queue)
        except ClientError as error:
            return _all(messages, error)
        except (ConnectionFailed, HTTPClientError) as error:
            return SendReport(failed=tuple(range(len(messages))), why=repr(error))
        failed: list[int] = []
        refused: list[tuple[int, str]] = []
        why, closed = "", False
        batches = list(pack(messages))
        for batch, report in zip(batches, self._send_all(url, messages, batches), strict=True):
            failed += [batch[i] for i in report.failed]
            refused += [(batch[i], reason) for i, reason in report.refused]
            why, closed = report.why or why, closed or report.closed
        # Batches before the one that met a closed queue may have gone out: then the rest is tried again as failed.
        return SendReport(tuple(failed), tuple(refused), why, closed and len(failed) == len(messages))

    def _send_all(
        self, url: str, messages: Sequence[OutMessage], batches: Sequence[Sequence[int]]
    ) -> Iterator[SendReport]:
        """The report of each batch, in their order. One batch alone, the common case, needs no thread."""
        each = ([messages[i] for i in batch] for batch in batches)
        if len(batches) == 1 or self._at_once == 1:
            return (self._send_batch(url, some) for some in each)
        return self._threads.map(lambda some: self._send_batch(url, some), each)

    def queue_url(self, queue: str) -> str:
        if queue not in self._urls:
            self._urls[queue] = self._client.get_queue_url(QueueName=f"{self._prefix}-{queue}")["QueueUrl"]
        return self._urls[queue]

    def _send_batch(self, url: str, messages: Sequence[OutMessage]) -> SendReport:
        entries: list[Any] = [_entry(i, message) for i, message in enumerate(messages)]
        try:
            answer = self._client.send_message_batch(QueueUrl=url, Entries=entries)
        except ClientError as error:
            if error.response["Error"]["Code"] in _CONTENT:
                return self._send_halves(url, messages, error)
            return _all(messages, error)
        except (ConnectionFailed, HTTPClientError) as error:
            return SendReport(failed=tuple(range(len(messages))), why=repr(error))  # or sent: a duplicate dies at start
        sent = {int(entry["Id"]) for entry in answer.get("Successful", [])}
        at_fault = {
            int(entry["Id"]): f"{entry.get('Code')}: {entry.get('Message', '')}"
            for entry in answer.get("Failed", [])
            if entry.get("SenderFault") and "hrottl" not in entry.get("Code", "")
        }
        failed = tuple(i for i in range(len(messages)) if i not in sent and i not in at_fault)
        codes = sorted({str(entry.get("Code")) for entry in answer.get("Failed", [])})
        refused = tuple((i, why) for i, why in at_fault.items() if i not in sent)
        report = SendReport(failed, refused, ", ".join(codes) or "entries were left out of the answer")
        named = [i for i, _ in refused if messages[i].group]
        return self._send_unnamed(url, messages, report, named) if named else report

    def _send_unnamed(
        self, url: str, messages: Sequence[OutMessage], report: SendReport, named: Sequence[int]
    ) -> SendReport:
        """An endpoint of before there were fair queues refuses the groups: without them it may take the messages."""
        again = self._send_batch(url, [replace(messages[i], group=None) for i in named])
        failed = (*report.failed, *(named[i] for i in again.failed))
        refused = tuple(one for one in report.refused if one[0] not in named)
        return SendReport(failed, (*refused, *((named[i], why) for i, why in again.refused)), again.why or report.why)

    def _send_halves(self, url: str, messages: Sequence[OutMessage], error: ClientError) -> SendReport:
        """A batch that is refused whole for its content: halved until the message at fault is alone. At most ten are in
        a batch, so this is four deep."""
        if len(messages) == 1:
            report = SendReport(refused=((0, str(error)),))
            return self._send_unnamed(url, messages, report, [0]) if messages[0].group else report
        middle = len(messages) // 2
        first, second = (self._send_batch(url, half) for half in (messages[:middle], messages[middle:]))
        failed = (*first.failed, *(middle + i for i in second.failed))
        refused = (*first.refused, *((middle + i, why) for i, why in second.refused))
        return SendReport(failed, refused, first.why or second.why)


class SqsReceiver:
    """A `ports.Receiver` over a boto3 client. To receive, its read timeout must be longer than a long poll."""

    def __init__(self, client: SQSClient, prefix: str) -> None:
        self._client = client
        self._sender = SqsSender(client, prefix)

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        answer = self._call(
            self._client.receive_message,
            queue,
            MaxNumberOfMessages=limit,
            WaitTimeSeconds=wait_s,
            VisibilityTimeout=hide_s,
            MessageSystemAttributeNames=[RECEIVES],
        )
        return [
            InMessage(message["ReceiptHandle"], message["Body"], receives_of(message))
            for message in answer.get("Messages", [])
        ]

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        self._call(self._client.change_message_visibility, queue, ReceiptHandle=receipt, VisibilityTimeout=seconds)

    def delete(self, queue: str, receipt: str) -> None:
        self._call(self._client.delete_message, queue, ReceiptHandle=receipt)

    def _call(self, method: Callable[..., Any], queue: str, **request: Any) -> Any:
        try:
            return method(QueueUrl=self._sender.queue_url(queue), **request)
        except (ClientError, BotoCoreError) as error:  # whatever it was: the message comes back by itself
            raise Throttled(f"{queue}: {error}") from error


def pack(messages: Sequence[OutMessage]) -> Iterator[list[int]]:
    """Indexes of messages, in batches of at most ten and at most BATCH_BYTES_MAX bytes."""
    batch: list[int] = []
    size = 0
    for index, message in enumerate(messages):
        length = len(message.body.encode())
        if batch and (len(batch) == BATCH_MESSAGES_MAX or size + length > BATCH_BYTES_MAX):
            yield batch
            batch, size = [], 0
        batch.append(index)
        size += length
    if batch:
        yield batch


def _entry(index: int, message: OutMessage) -> dict[str, Any]:
    entry: dict[str, Any] = {"Id": str(index), "MessageBody": message.body, "DelaySeconds": message.delay_s}
    return entry | ({"MessageGroupId": message.group} if message.group else {})


def _all(messages: Sequence[OutMessage], error: ClientError) -> SendReport:
    """A whole call refused: by a queue that takes nothing, or for a reason that may pass."""
    closed = error.response["Error"]["Code"] in _CLOSED
    return SendReport(failed=tuple(range(len(messages))), why=str(error), closed=closed)
