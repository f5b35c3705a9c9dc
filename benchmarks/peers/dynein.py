"""Dynein's calls re-enacted: not Dynein, a Java service, but the calls to SQS and DynamoDB that its source makes.

    create     SendMessage to the inbound queue
    scheduler  inbound: ReceiveMessage, PutItem (partition, "<due ms>#<name>"), DeleteMessage
               each partition, a second after it was found empty: Query what is due, and for each item UpdateItem
               SCHEDULED -> ACQUIRED on condition, SendMessage to the destination queue, DeleteItem on condition
               recovery, at start and every 60 s: what is ACQUIRED (later: for 60 s) back to SCHEDULED
    worker     ReceiveMessage, work, DeleteMessage

Kinder than the original where the emulator would punish it: up to ten messages a receive and a batched delete instead
of one, 100 items a query instead of ten, and tickwork's own clients.

As a program: `create ...` (see load.py), `provision`, `scheduler <slots>`, `worker <slots>`.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError

from benchmarks.peers.effects import effect
from benchmarks.peers.load import create_load
from tickwork.aws.wiring import dynamodb_client, sqs_client

TABLE, INBOUND, DESTINATION = "dynein-schedules", "dynein-inbound", "dynein-destination"
PARTITIONS, WORKERS = 4, 2  # as many as tickwork has shards and slices here
QUERY_LIMIT = 100
ACQUIRES_AT_ONCE = 16
CONSUMERS = 4
AGAIN_S = 1.0
STUCK_S = 60.0

dynamodb, sqs = dynamodb_client(), sqs_client(long_poll=True)


def provision() -> None:
    for queue in (INBOUND, DESTINATION):
        sqs.create_queue(QueueName=queue)
    dynamodb.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("shard_id", "date_token")],
        KeySchema=[
            {"AttributeName": "shard_id", "KeyType": "HASH"},
            {"AttributeName": "date_token", "KeyType": "RANGE"},
        ],
    )


def url_of(queue: str) -> str:
    return sqs.get_queue_url(QueueName=queue)["QueueUrl"]


def consume(queue: str, per_receive: int, use: Callable[[str], object]) -> None:
    """For ever: receive, use all at once, delete."""
    url = url_of(queue)
    with ThreadPoolExecutor(per_receive) as pool:
        while True:
            answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=per_receive, WaitTimeSeconds=5)
            messages = answer.get("Messages", [])
            list(pool.map(use, [message["Body"] for message in messages]))
            entries: Any = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
            if entries:
                sqs.delete_message_batch(QueueUrl=url, Entries=entries)


# --- scheduler --------------------------------------------------------------------------------------------------


def put_schedule(body: str) -> None:
    job = json.loads(body)
    partition = hashlib.sha256(job["timer"].encode()).digest()[0] % PARTITIONS
    item = {
        "shard_id": {"S": str(partition)},
        "date_token": {"S": f"{job['due_ms']}#{job['timer']}"},
        "job_status": {"S": "SCHEDULED"},
        "job_spec": {"S": body},
    }
    dynamodb.put_item(TableName=TABLE, Item=item)


def query(partition: int, until_ms: int, status: str, start: Any = None) -> tuple[list[Any], Any]:
    """A page of what is due before `until_ms` and in that status, and where the next page starts, if there is one."""
    answer = dynamodb.query(
        TableName=TABLE,
        KeyConditionExpression="shard_id = :p AND date_token < :until",
        FilterExpression="job_status = :status",
        ExpressionAttributeValues={
            ":p": {"S": str(partition)},
            ":until": {"S": str(until_ms)},
            ":status": {"S": status},
        },
        Limit=QUERY_LIMIT,
        **({"ExclusiveStartKey": start} if start else {}),
    )
    return answer["Items"], answer.get("LastEvaluatedKey")


def move(item: Any, old: str, new: str) -> None:
    dynamodb.update_item(
        TableName=TABLE,
        Key={name: item[name] for name in ("shard_id", "date_token")},
        UpdateExpression="SET job_status = :new",
        ConditionExpression="job_status = :old",
        ExpressionAttributeValues={":old": {"S": old}, ":new": {"S": new}},
        ReturnValues="UPDATED_NEW",
    )


def dispatch(item: Any, destination: str) -> None:
    try:
        move(item, "SCHEDULED", "ACQUIRED")
    except ClientError:
        return  # another has it, or the next look finds it again
    sqs.send_message(QueueUrl=destination, MessageBody=item["job_spec"]["S"])
    dynamodb.delete_item(
        TableName=TABLE,
        Key={name: item[name] for name in ("shard_id", "date_token")},
        ConditionExpression="job_status = :acquired",
        ExpressionAttributeValues={":acquired": {"S": "ACQUIRED"}},
    )


def serve_partitions(partitions: Sequence[int]) -> None:
    recover(partitions, STUCK_S)
    threading.Thread(target=recover_regularly, args=(partitions,), daemon=True).start()
    destination, next_look = url_of(DESTINATION), dict.fromkeys(partitions, 0.0)
    with ThreadPoolExecutor(ACQUIRES_AT_ONCE) as pool:
        while True:
            for partition in [p for p in partitions if next_look[p] <= time.monotonic()]:
                items, more = query(partition, now_ms(), "SCHEDULED")
                list(pool.map(lambda item: dispatch(item, destination), items))
                next_look[partition] = time.monotonic() + (0 if more or len(items) == QUERY_LIMIT else AGAIN_S)
            time.sleep(max(0.0, min(next_look.values()) - time.monotonic()))


def recover(partitions: Sequence[int], ahead_s: float) -> None:
    """ACQUIRED back to SCHEDULED, of what is due before `ahead_s` from now."""
    for partition in partitions:
        start = None
        while True:
            items, start = query(partition, now_ms() + int(ahead_s * 1_000), "ACQUIRED", start)
            for item in items:
                try:
                    move(item, "ACQUIRED", "SCHEDULED")
                except ClientError:
                    continue  # it has been dispatched after all
            if not start:
                break


def recover_regularly(partitions: Sequence[int]) -> None:
    while True:
        time.sleep(STUCK_S)
        recover(partitions, -STUCK_S)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# --- client and worker ------------------------------------------------------------------------------------------


def create() -> None:
    inbound = url_of(INBOUND)

    def send(timers: Sequence[tuple[str, int]]) -> None:
        for timer, due_ms in timers:
            sqs.send_message(QueueUrl=inbound, MessageBody=json.dumps({"timer": timer, "due_ms": due_ms}))

    create_load(send)


def run_job(body: str) -> None:
    job = json.loads(body)
    effect(job["timer"], job["due_ms"])


def run_threads(*threads: threading.Thread) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    verb = sys.argv[1]
    if verb == "provision":
        provision()
    elif verb == "create":
        create()
    elif verb == "scheduler":
        shares = [range(PARTITIONS)[i::WORKERS] for i in range(WORKERS)]
        run_threads(
            *(threading.Thread(target=serve_partitions, args=(share,)) for share in shares),
            *(threading.Thread(target=consume, args=(INBOUND, 10, put_schedule)) for _ in range(CONSUMERS)),
        )
    else:
        each = int(sys.argv[2]) // CONSUMERS
        run_threads(*(threading.Thread(target=consume, args=(DESTINATION, each, run_job)) for _ in range(CONSUMERS)))


if __name__ == "__main__":
    main()
