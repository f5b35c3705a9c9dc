"""Queues of pools that teams make, by SQS: a `ports.QueueMaker`.

Owns what such a queue is like: encrypted and with a dead-letter queue, as those that `infra/queues.py` deploys. Refuses
to know whose it is. Its role may touch queues of the form `<prefix>-ready-<team>_<name>` alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.core.errors import Throttled
from tickwork.core.ledger.queues import DLQ_RETENTION_S, KEY_REUSED_S, LONG_POLL_S, Queue

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_COUNTED: tuple[Any, ...] = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_EXISTS_OTHERWISE = {"QueueAlreadyExists", "QueueNameExists"}
_ABSENT = {"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"}


class SqsQueueMaker:
    """A queue's full name is `<prefix>-<queue>`. `kms_key_arn`: the environment's own key; empty: SQS's."""

    def __init__(self, client: SQSClient, prefix: str, kms_key_arn: str = "") -> None:
        self._client, self._prefix = client, prefix
        self._encryption = {"SqsManagedSseEnabled": "true"}
        if kms_key_arn:
            self._encryption = {"KmsMasterKeyId": kms_key_arn, "KmsDataKeyReusePeriodSeconds": str(KEY_REUSED_S)}

    def make(self, queue: Queue) -> None:
        """The dead-letter queue first: the other one names it. Both calls do nothing where it is there already, and one
        that is there otherwise becomes what it is to be."""
        dlq = self._make(queue.dlq_name, {"MessageRetentionPeriod": str(DLQ_RETENTION_S)})
        arn = self._call(self._client.get_queue_attributes, QueueUrl=dlq, AttributeNames=["QueueArn"])
        redrive = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": queue.receives_max}
        attributes = {
            "VisibilityTimeout": str(queue.visibility_s),
            "MessageRetentionPeriod": str(queue.retention_s),
            "ReceiveMessageWaitTimeSeconds": str(LONG_POLL_S),
            "RedrivePolicy": json.dumps(redrive),
        }
        self._make(queue.name, attributes)

    def _make(self, name: str, attributes: dict[str, str]) -> str:
        encrypted: dict[Any, str] = attributes | self._encryption
        try:
            answer = self._client.create_queue(QueueName=f"{self._prefix}-{name}", Attributes=encrypted)
            return str(answer["QueueUrl"])
        except (ClientError, BotoCoreError) as error:
            is_left = isinstance(error, ClientError) and error.response["Error"]["Code"] in _EXISTS_OTHERWISE
            url = self._url(name) if is_left else None
            if url is None:  # also of one that was deleted less than a minute ago: it cannot be made anew yet
                raise Throttled(f"{name}: {error}") from error
        # It was left by a crash, for a pool of another kind, or made by an earlier version.
        self._call(self._client.set_queue_attributes, QueueUrl=url, Attributes=encrypted)
        return url

    def waiting(self, queue: Queue) -> int:
        return sum(self._waiting(name) for name in (queue.name, queue.dlq_name))

    def _waiting(self, name: str) -> int:
        url = self._url(name)
        if url is None:
            return 0
        answer = self._call(self._client.get_queue_attributes, QueueUrl=url, AttributeNames=list(_COUNTED))
        return sum(int(answer["Attributes"].get(one, 0)) for one in _COUNTED)

    def remove(self, queue: Queue) -> None:
        """The dead-letter queue last: it takes what the other one still hands over."""
        for name in (queue.name, queue.dlq_name):
            if (url := self._url(name)) is not None:
                self._call(self._client.delete_queue, QueueUrl=url)

    def _url(self, name: str) -> str | None:
        try:
            return str(self._client.get_queue_url(QueueName=f"{self._prefix}-{name}")["QueueUrl"])
        except ClientError as error:
            if error.response["Error"]["Code"] in _ABSENT:
                return None
            raise Throttled(f"{name}: {error}") from error
        except BotoCoreError as error:
            raise Throttled(f"{name}: {error}") from error

    def _call(self, method: Callable[..., Any], **request: Any) -> Any:
        """Whatever fails may be tried again."""
        try:
            return method(**request)
        except (ClientError, BotoCoreError) as error:
            raise Throttled(f"{request.get('QueueName') or request.get('QueueUrl')}: {error}") from error
