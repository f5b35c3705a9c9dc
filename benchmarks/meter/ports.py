"""A counting store and sender: the same bill as the hook's, without boto3 or an endpoint.

One `commit` is one call in the DynamoDB store, one `send` one call for each batch that `SqsSender` packs, and the
in-memory store shows the item before and after: so the units are equal (the tests hold that against a real client).
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.meter import units
from benchmarks.meter.bill import Bill
from benchmarks.meter.places import charges, key_item
from tickwork.aws.sqs import pack
from tickwork.core.ledger.tables import Index, Table
from tickwork.core.ledger.writes import Committed, Item, Refused, Write
from tickwork.ports import OutMessage, Page, Sender, SendReport, Store
from tickwork.store.dynamodb import BATCH_GET_MAX

_CALL = {"Put": "PutItem", "Update": "UpdateItem", "Delete": "DeleteItem"}


class CountingStore:
    """A `ports.Store` that passes every call on to `inner`, which must be in memory, and bills it."""

    def __init__(self, inner: Store, bill: Bill) -> None:
        self._inner, self._bill = inner, bill

    def get(self, table: Table, key: Item) -> Item | None:
        item = self._inner.get(table, key)
        self._bill.add("GetItem", dynamodb_read_units=units.read_units([units.plain_size(item)], consistent=True))
        return item

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        items = self._inner.get_many(table, keys)
        for begin in range(0, len(items), BATCH_GET_MAX):
            sizes = [units.plain_size(item) for item in items[begin : begin + BATCH_GET_MAX]]
            self._bill.add("BatchGetItem", dynamodb_read_units=units.batch_read_units(sizes, consistent=True))
        return items

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
        page = self._inner.query(table, partition, first, last, limit=limit, after=after, descending=descending)
        read = units.read_units([units.plain_size(item) for item in page.items], consistent=True)
        self._bill.add("Query", dynamodb_read_units=read)
        return page

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
        found, more = self._inner.query_index(
            table, index, partition, limit=limit, after=after, descending=descending, between=between
        )
        read = units.read_units([units.plain_size(entry) for entry in found], consistent=False)
        self._bill.add("Query", dynamodb_read_units=read)
        return found, more

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        items, more = self._inner.scan(table, limit=limit, after=after)
        read = units.read_units([units.plain_size(item) for item in items], consistent=False)
        self._bill.add("Scan", dynamodb_read_units=read)
        return items, more

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        before = [self._image(write) for write in writes]
        result = self._inner.commit(writes)
        after = [self._image(write) for write in writes]
        total = sum(taken for _, taken in charges(writes, before, after))
        call = "TransactWriteItems" if len(writes) > 1 else _CALL[type(writes[0]).__name__]
        self._bill.add(call, dynamodb_write_units=total)
        return result

    def _image(self, write: Write) -> Item | None:
        return self._inner.get(write.table, key_item(write))


class CountingSender:
    """A `ports.Sender` that passes on to `inner`, and bills the batches that `SqsSender` would send."""

    def __init__(self, inner: Sender, bill: Bill) -> None:
        self._inner, self._bill = inner, bill

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        for batch in pack(messages):
            size = sum(len(messages[i].body.encode()) for i in batch)
            fair = sum(1 for i in batch if messages[i].group)
            self._bill.add("SendMessageBatch", sqs_requests=units.sqs_requests(size), sqs_fair_messages=fair)
        return self._inner.send(queue, messages)
