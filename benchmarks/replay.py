"""Answers of AWS without AWS: recorded once from the in-memory store, then handed to boto3 instead of a connection.

boto3 does all of its own work (validation, serialising, signing, parsing); only the socket is missing. The stub does no
work of its own when it replays, so that it weighs nothing in a comparison.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from tickwork.aws.sqs import SqsSender, pack
from tickwork.core.ledger.tables import Index, Table
from tickwork.core.ledger.writes import Committed, Item, Refused, Update, Write
from tickwork.ports import OutMessage, Page, SendReport
from tickwork.store.attributes import to_attributes
from tickwork.store.dynamodb import BATCH_GET_MAX, DynamoStore
from tickwork.testing.memory import MemoryStore

_HEADERS = {
    "dynamodb": HTTPHeaders.from_dict({"Content-Type": "application/x-amz-json-1.0", "x-amzn-RequestId": "0"}),
    "sqs": HTTPHeaders.from_dict({"Content-Type": "application/x-amz-json-1.0", "x-amzn-RequestId": "0"}),
}


class _Raw:
    """What botocore reads a body from."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: object) -> Sequence[bytes]:
        return (self._body,)


class Tape:
    """Recorded answers in order, and the calls that were answered by them."""

    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self._next = 0
        self._is_recording = True

    def rewind(self) -> None:
        self._next = 0
        self._is_recording = False

    @property
    def is_at_end(self) -> bool:
        return self._next == len(self.answers)

    def add(self, answer: object) -> None:
        self.answers.append(json.dumps(answer).encode())

    def attach(self, client: Any) -> None:
        service = client.meta.service_model.service_name
        headers = _HEADERS[service]

        def answer(request: Any, **_: object) -> AWSResponse:
            body = self.answers[self._next]
            self._next += 1
            return AWSResponse(request.url, 200, headers, _Raw(body))

        def note(params: dict[str, Any], model: Any, **_: object) -> None:
            if self._is_recording:
                self.calls.append((service, model.name, params))

        client.meta.events.register(f"before-send.{service}", answer)
        client.meta.events.register(f"before-parameter-build.{service}", note)


class RecordingStore:
    """Asks the in-memory store, tapes its answer as DynamoDB would spell it, and lets the real store read that."""

    def __init__(self, memory: MemoryStore, real: DynamoStore, tape: Tape) -> None:
        self._memory, self._real, self._tape = memory, real, tape

    def get(self, table: Table, key: Item) -> Item | None:
        item = self._memory.get(table, key)
        self._tape.add({"Item": to_attributes(item)} if item else {})
        return self._real.get(table, key)

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        name = self._real.table_name(table)
        for begin in range(0, len(keys), BATCH_GET_MAX):
            found = self._memory.get_many(table, keys[begin : begin + BATCH_GET_MAX])
            items = [to_attributes(item) for item in found if item]
            self._tape.add({"Responses": {name: items}, "UnprocessedKeys": {}})
        return self._real.get_many(table, keys)

    def query(
        self,
        table: Table,
        partition: str,
        first: str,
        last: str,
        *,
        limit: int,
        after: str | None = None,
        descending: bool = False,
    ) -> Page:
        page = self._memory.query(table, partition, first, last, limit=limit, after=after, descending=descending)
        answer: dict[str, Any] = {"Items": [to_attributes(item) for item in page.items], "Count": len(page.items)}
        if page.more:
            answer["LastEvaluatedKey"] = to_attributes({"pk": partition, "sk": page.more})
        self._tape.add(answer)
        return self._real.query(table, partition, first, last, limit=limit, after=after, descending=descending)

    def query_index(
        self,
        table: Table,
        index: Index,
        partition: str,
        *,
        limit: int,
        after: Item | None,
        descending: bool,
        between: tuple[int, int] | None = None,
    ) -> tuple[list[Item], Item | None]:
        raise NotImplementedError

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        raise NotImplementedError

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        result = self._memory.commit(writes)
        assert isinstance(result, Committed), result
        is_update = len(writes) == 1 and isinstance(writes[0], Update)
        self._tape.add({"Attributes": to_attributes(result.item or {})} if is_update else {})
        return self._real.commit(writes)


class RecordingSender:
    def __init__(self, real: SqsSender, tape: Tape, known: set[str]) -> None:
        self._real, self._tape, self._known = real, tape, known

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        if queue not in self._known:
            self._known.add(queue)
            self._tape.add({"QueueUrl": f"http://127.0.0.1/000000000000/{queue}"})
        for batch in pack(messages):
            sent = [{"Id": str(i), "MessageId": "a" * 36, "MD5OfMessageBody": "b" * 32} for i in range(len(batch))]
            self._tape.add({"Successful": sent, "Failed": []})
        return self._real.send(queue, messages)
