"""Sender and receiver against SQS's wire: batches by ten and by bytes, answers in part, lost replies, queues gone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fake_aws import LOST, UNREACHED, Answer, FakeAws, Fault
from tickwork.aws.sqs import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, SqsReceiver, SqsSender, pack
from tickwork.core.errors import Throttled
from tickwork.ports import InMessage, OutMessage, SendReport

URL = "http://127.0.0.1:1/1/t-ready-a"
FOUND = {"QueueUrl": URL}
TRIES = 2
"""Of the client by itself (tickwork.aws.wiring)."""
BYTES_OF_A_BATCH_ONCE = 262_144
"""What SQS took in a batch until August 2025, and an emulator may still; today it is 1 MiB."""


def messages(count: int) -> list[OutMessage]:
    return [OutMessage(str(n)) for n in range(count)]


def taken(*ids: int) -> list[dict[str, str]]:
    return [{"Id": str(n), "MessageId": "m", "MD5OfMessageBody": "x"} for n in ids]


def failed(n: int, code: str, *, sender: bool = False, message: str = "why") -> dict[str, Any]:
    return {"Id": str(n), "Code": code, "Message": message, "SenderFault": sender}


# --- sending --------------------------------------------------------------------------------------------------------


def test_a_batch_names_queue_delay_and_group_of_each_message(sender: SqsSender, sqs: FakeAws) -> None:
    sqs.will_answer(FOUND, {"Successful": taken(0, 1)})
    assert sender.send("ready-a", [OutMessage("x", 7, "shop"), OutMessage("y")]).failed == ()
    assert sqs.sent == [
        ("GetQueueUrl", {"QueueName": "t-ready-a"}),
        (
            "SendMessageBatch",
            {
                "QueueUrl": URL,
                "Entries": [
                    {"Id": "0", "MessageBody": "x", "DelaySeconds": 7, "MessageGroupId": "shop"},
                    {"Id": "1", "MessageBody": "y", "DelaySeconds": 0},
                ],
            },
        ),
    ]


def test_what_is_refused_for_its_group_goes_without_one(sender: SqsSender, sqs: FakeAws) -> None:
    """An endpoint of before there were fair queues: it refuses the entries, or the whole batch."""
    mixed = [OutMessage("a", 0, "shop"), OutMessage("b"), OutMessage("c", 0, "shop")]
    at_fault = [failed(n, "InvalidParameterValue", sender=True) for n in (0, 2)]
    sqs.will_answer(FOUND, {"Successful": taken(1), "Failed": at_fault}, {"Successful": taken(0, 1)})
    report = sender.send("ready-a", mixed)
    assert (report.failed, report.refused) == ((), ())
    assert [entry["MessageBody"] for entry in sqs.sent[-1][1]["Entries"]] == ["a", "c"]
    assert not [entry for entry in sqs.sent[-1][1]["Entries"] if "MessageGroupId" in entry]

    whole = Fault("InvalidParameterValue")
    sqs.will_answer(whole, whole, {"Successful": taken(0)}, {"Successful": taken(0)})
    assert sender.send("ready-a", mixed[:2]).refused == ()
    assert [entry["MessageBody"] for _, body in sqs.sent[-2:] for entry in body["Entries"]] == ["a", "b"]


def test_what_can_never_go_is_refused_also_without_its_group(sender: SqsSender, sqs: FakeAws) -> None:
    wrong = {"Successful": taken(0), "Failed": [failed(1, "InvalidMessageContents", sender=True)]}
    again = {"Failed": [failed(0, "InvalidMessageContents", sender=True, message="a bad character")]}
    sqs.will_answer(FOUND, wrong, again)
    report = sender.send("ready-a", [OutMessage("a", 0, "shop"), OutMessage("b", 0, "shop")])
    assert report.refused == ((1, "InvalidMessageContents: a bad character"),)
    assert report.failed == ()


def test_the_address_of_a_queue_is_asked_for_once(sender: SqsSender, sqs: FakeAws) -> None:
    sqs.will_answer(FOUND, {"Successful": taken(0)}, {"Successful": taken(0)})
    for _ in range(2):
        assert sender.send("ready-a", messages(1)).failed == ()
    assert [operation for operation, _ in sqs.sent] == ["GetQueueUrl", "SendMessageBatch", "SendMessageBatch"]


def test_ten_go_in_a_batch_and_the_report_counts_over_all_batches(sender: SqsSender, sqs: FakeAws) -> None:
    sqs.will_answer(
        FOUND,
        {"Successful": taken(*range(10))},
        {"Successful": taken(*range(9)), "Failed": [failed(9, "InternalError")]},
        {"Successful": [], "Failed": [failed(0, "InvalidMessageContents", sender=True)]},
    )
    report = sender.send("ready-a", messages(21))
    assert (report.failed, [index for index, _ in report.refused]) == ((19,), [20])
    sent = [[entry["MessageBody"] for entry in body["Entries"]] for _, body in sqs.sent[1:]]
    assert sent == [[str(n) for n in range(low, high)] for low, high in ((0, 10), (10, 20), (20, 21))]


def test_of_a_batch_what_failed_is_told_and_what_can_never_go_is_told_apart(sender: SqsSender, sqs: FakeAws) -> None:
    answer = {
        "Successful": taken(1, 3),
        "Failed": [
            failed(0, "InternalError"),
            failed(2, "InvalidMessageContents", sender=True, message="a bad character"),
            failed(4, "RequestThrottled", sender=True),
        ],
    }
    sqs.will_answer(FOUND, answer)
    report = sender.send("ready-a", messages(5))
    assert set(report.failed) == {0, 4}
    assert report.refused == ((2, "InvalidMessageContents: a bad character"),)
    assert "InternalError" in report.why


def test_an_entry_in_neither_list_was_not_sent(sender: SqsSender, sqs: FakeAws) -> None:
    sqs.will_answer(FOUND, {"Successful": taken(0)}, {})
    assert sender.send("ready-a", messages(3)).failed == (1, 2)
    assert sender.send("ready-a", messages(3)).failed == (0, 1, 2)


@pytest.mark.parametrize("answer", [LOST, UNREACHED, Fault("ServiceUnavailable", 503), Fault("InternalError", 500)])
def test_a_batch_whose_reply_is_lost_counts_as_failed_and_says_why(
    sender: SqsSender, sqs: FakeAws, answer: Answer
) -> None:
    sqs.will_answer(FOUND, *[answer] * TRIES)
    report = sender.send("ready-a", messages(2))
    assert (report.failed, report.refused) == ((0, 1), ())
    assert report.why


@pytest.mark.parametrize("code", ["AccessDeniedException", "KmsDisabled", "RequestThrottled"])
def test_a_batch_refused_whole_may_go_another_time(sender: SqsSender, sqs: FakeAws, code: str) -> None:
    sqs.will_answer(FOUND, *[Fault(code)] * TRIES)
    report = sender.send("ready-a", messages(2))
    assert (report.failed, report.refused) == ((0, 1), ())
    assert code in report.why
    sqs.forget()


@pytest.mark.parametrize("code", ["QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"])
def test_a_queue_that_is_not_there_is_closed_and_they_may_go_when_it_is_back(
    sender: SqsSender, sqs: FakeAws, code: str
) -> None:
    sqs.will_answer(Fault(code), FOUND, Fault(code))
    for _ in ("its address", "the sending"):
        report = sender.send("ready-a", messages(2))
        assert (report.failed, report.refused, report.closed) == ((0, 1), (), True)
        assert code in report.why


def test_a_batch_refused_for_its_content_is_halved_until_what_is_at_fault_is_alone(
    sender: SqsSender, sqs: FakeAws
) -> None:
    sqs.will_answer(FOUND, *[Fault("BatchRequestTooLong")] * 3)
    report = sender.send("ready-a", messages(2))
    assert (report.failed, [index for index, _ in report.refused]) == ((), [0, 1])


@pytest.mark.parametrize("answer", [LOST, UNREACHED, Fault("RequestThrottled"), Fault("AccessDenied", 403)])
def test_an_address_that_cannot_be_had_now_fails_them_all(sender: SqsSender, sqs: FakeAws, answer: Answer) -> None:
    sqs.will_answer(*[answer] * TRIES)
    report = sender.send("ready-a", messages(12))
    assert (report.failed, report.refused) == (tuple(range(12)), ())
    sqs.forget()


def test_nothing_is_no_batch(sender: SqsSender, sqs: FakeAws) -> None:
    sqs.will_answer(FOUND)
    assert sender.send("ready-a", []) == SendReport()


def test_batches_side_by_side_report_in_their_order(sqs: FakeAws) -> None:
    sender = SqsSender(sqs.client, "t", sends_at_once=4)
    sqs.will_answer(FOUND, *[{"Successful": taken(*range(9)), "Failed": [failed(9, "InternalError")]}] * 3)
    assert sender.send("ready-a", messages(30)).failed == (9, 19, 29)


# --- packing --------------------------------------------------------------------------------------------------------


def _sizes(bodies: list[str]) -> list[tuple[int, int]]:
    """(messages, bytes) of each batch."""
    outgoing = [OutMessage(body) for body in bodies]
    batches = list(pack(outgoing))
    assert [index for batch in batches for index in batch] == list(range(len(bodies))), "each once, in order"
    return [(len(batch), sum(len(bodies[i].encode()) for i in batch)) for batch in batches]


def test_a_batch_holds_ten() -> None:
    assert [count for count, _ in _sizes(["x"] * 25)] == [10, 10, 5]
    assert _sizes([]) == []
    assert BATCH_MESSAGES_MAX == 10


def test_a_batch_stays_under_what_any_endpoint_takes() -> None:
    assert BATCH_BYTES_MAX <= BYTES_OF_A_BATCH_ONCE
    third = BATCH_BYTES_MAX // 3
    assert [count for count, _ in _sizes(["x" * third] * 7)] == [3, 3, 1]
    assert [count for count, _ in _sizes(["x" * (third + 1)] * 7)] == [2, 2, 2, 1]


def test_bytes_are_counted_and_not_characters() -> None:
    half = "\N{EURO SIGN}" * (BATCH_BYTES_MAX // 6)
    assert [count for count, _ in _sizes([half] * 4)] == [2, 2]


def test_a_message_larger_than_a_batch_goes_alone_and_holds_up_no_other() -> None:
    sizes = _sizes(["x", "x" * (BATCH_BYTES_MAX + 1), "x", "x"])
    assert [count for count, _ in sizes] == [1, 1, 2]


def test_sizes_are_counted_anew_for_each_batch() -> None:
    most = "x" * (BATCH_BYTES_MAX - 5)
    assert [count for count, _ in _sizes([most, "x" * 5, most, "x" * 5, "x"])] == [2, 2, 1]


# --- receiving ------------------------------------------------------------------------------------------------------


def test_a_receive_says_how_many_how_long_and_hidden_for_how_long(receiver: SqsReceiver, sqs: FakeAws) -> None:
    message = {"MessageId": "m", "ReceiptHandle": "r", "Body": "b", "MD5OfBody": ""}
    again = {**message, "Attributes": {"ApproximateReceiveCount": "4"}}
    sqs.will_answer(FOUND, {"Messages": [message, again]}, {})
    found = receiver.receive("ready-a", limit=3, wait_s=5, hide_s=60)
    assert found == [InMessage("r", "b"), InMessage("r", "b", 4)]
    assert sqs.sent[1] == (
        "ReceiveMessage",
        {
            "QueueUrl": URL,
            "MaxNumberOfMessages": 3,
            "WaitTimeSeconds": 5,
            "VisibilityTimeout": 60,
            "MessageSystemAttributeNames": ["ApproximateReceiveCount"],
        },
    )
    assert receiver.receive("ready-a", limit=3, wait_s=0, hide_s=60) == []


def test_a_message_is_hidden_or_deleted_by_its_receipt(receiver: SqsReceiver, sqs: FakeAws) -> None:
    sqs.will_answer(FOUND, {}, {}, {})
    receiver.hide("ready-a", "r", 7)
    receiver.hide("ready-a", "r", 0)
    receiver.delete("ready-a", "r")
    assert sqs.sent[1:] == [
        ("ChangeMessageVisibility", {"QueueUrl": URL, "ReceiptHandle": "r", "VisibilityTimeout": 7}),
        ("ChangeMessageVisibility", {"QueueUrl": URL, "ReceiptHandle": "r", "VisibilityTimeout": 0}),
        ("DeleteMessage", {"QueueUrl": URL, "ReceiptHandle": "r"}),
    ]


@pytest.mark.parametrize("answer", [LOST, UNREACHED, Fault("RequestThrottled"), Fault("ReceiptHandleIsInvalid")])
@pytest.mark.parametrize("call", ["receive", "hide", "delete"])
def test_whatever_a_queue_answers_to_a_receiver_may_be_tried_again(
    receiver: SqsReceiver, sqs: FakeAws, call: str, answer: Answer
) -> None:
    calls = {
        "receive": lambda: receiver.receive("ready-a", limit=1, wait_s=0, hide_s=1),
        "hide": lambda: receiver.hide("ready-a", "r", 1),
        "delete": lambda: receiver.delete("ready-a", "r"),
    }
    sqs.will_answer(FOUND, *[answer] * TRIES)
    with pytest.raises(Throttled):
        calls[call]()
    sqs.forget()
