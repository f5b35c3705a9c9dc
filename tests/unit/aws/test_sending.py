"""Sending many batches at once: every message is accounted for, by its own index."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tickwork.aws.sqs import SqsSender
from tickwork.ports import OutMessage


class _Client:
    """Fails what is marked to fail, in the way it is marked."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self._lock = threading.Lock()

    def get_queue_url(self, QueueName: str) -> dict[str, str]:  # noqa: N803
        return {"QueueUrl": QueueName}

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        if any(entry["MessageBody"].endswith("whole") for entry in Entries):
            raise ClientError({"Error": {"Code": "ServiceUnavailable"}}, "SendMessageBatch")
        good = [entry for entry in Entries if not entry["MessageBody"].endswith(("bad", "lost"))]
        bad = [entry for entry in Entries if entry["MessageBody"].endswith("bad")]
        with self._lock:
            self.bodies += [entry["MessageBody"] for entry in good]
        return {
            "Successful": [{"Id": entry["Id"]} for entry in good],
            "Failed": [{"Id": entry["Id"], "SenderFault": True, "Code": "Invalid"} for entry in bad],
        }


@pytest.mark.parametrize("at_once", [1, 8])
def test_each_message_is_sent_failed_or_refused(at_once: int) -> None:
    client = _Client()
    marks = {7: "lost", 33: "bad", 58: "whole"}
    messages = [OutMessage(f"{i}-{marks.get(i, 'good')}") for i in range(95)]
    report = SqsSender(client, "p", at_once).send("ready-default", messages)  # type: ignore[arg-type]
    assert set(report.failed) == {7, *range(50, 60)}
    assert [index for index, _ in report.refused] == [33]
    assert sorted(client.bodies) == sorted(
        m.body for i, m in enumerate(messages) if i not in (7, 33) and i not in range(50, 60)
    )


class _Picky(_Client):
    """Refuses a whole batch because of one message in it, or everything."""

    def __init__(self, code: str, mark: str) -> None:
        super().__init__()
        self.calls = 0
        self._code, self._mark = code, mark

    def send_message_batch(self, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self.calls += 1
        if any(self._mark in entry["MessageBody"] for entry in Entries):
            raise ClientError({"Error": {"Code": self._code}}, "SendMessageBatch")
        return super().send_message_batch(QueueUrl, Entries)


@pytest.mark.parametrize("code", ["InvalidMessageContents", "BatchRequestTooLong", "InvalidParameterValue"])
@pytest.mark.parametrize("at", [0, 4, 9])
def test_a_batch_refused_for_its_content_is_halved_until_the_message_at_fault_is_alone(code: str, at: int) -> None:
    client = _Picky(code, "wrong")
    messages = [OutMessage(f"{i}-{'wrong' if i == at else 'good'}") for i in range(10)]
    report = SqsSender(client, "p", 1).send("ready-default", messages)  # type: ignore[arg-type]
    assert [index for index, _ in report.refused] == [at]
    assert report.failed == ()
    assert len(client.bodies) == 9
    assert client.calls <= 9


@pytest.mark.parametrize("code", ["AccessDenied", "KmsDisabled", "AWS.SimpleQueueService.NonExistentQueue"])
def test_a_queue_that_takes_nothing_whatever_it_is_sent_is_closed(code: str) -> None:
    client = _Picky(code, "good")
    report = SqsSender(client, "p", 1).send("ready-default", [OutMessage("a-good"), OutMessage("b-good")])  # type: ignore[arg-type]
    assert report.closed
    assert (report.failed, report.refused) == ((0, 1), ())
