"""The ports of one process at scale: each call takes its latency and its CPU, and its units from partitions.

A call parks for as long as it takes, and has its effect at the end of that. One that a full partition turns away is
tried again as botocore does, and then is `Throttled`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import batched
from typing import TYPE_CHECKING

from benchmarks.meter import units
from benchmarks.meter.places import charges, key_item, place_of, touched
from benchmarks.scale import figures
from benchmarks.scale.figures import Latency
from tickwork.aws.sqs import pack
from tickwork.core.errors import Throttled
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS, Index, Table
from tickwork.core.ledger.writes import Committed, Item, Refused, Update, Write
from tickwork.ports import InMessage, OutMessage, Page, SendReport
from tickwork.store.dynamodb import BATCH_GET_MAX

if TYPE_CHECKING:
    from benchmarks.scale.process import ScaleProcess


class ScaleStore:
    """A `ports.Store` over the world's tables."""

    def __init__(self, process: ScaleProcess) -> None:
        self._process = process
        self._tables = process.world.tables
        self._partitions = process.world.partitions

    def get(self, table: Table, key: Item) -> Item | None:
        place = place_of(table, key)
        self._wait(figures.GET, partial(self._partitions.lets_read, (place,)))
        item = self._tables.get(table, key)
        self._partitions.read(place, units.read_units([units.plain_size(item)], consistent=True), self._now_ms)
        return item

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        found: list[Item | None] = []
        for some in batched(keys, BATCH_GET_MAX):
            places = [place_of(table, key) for key in some]
            self._wait(figures.BATCH_GET, partial(self._partitions.lets_read, places))
            items = self._tables.get_many(table, some)
            for place, item in zip(places, items, strict=True):
                self._partitions.read(place, units.read_units([units.plain_size(item)], consistent=True), self._now_ms)
            found += items
        return found

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
        place = (table.name, partition)
        self._wait(figures.QUERY, partial(self._partitions.lets_read, (place,)))
        page = self._tables.query(table, partition, first, last, limit=limit, after=after, descending=descending)
        read = units.read_units([units.plain_size(item) for item in page.items], consistent=True)
        self._partitions.read(place, read, self._now_ms)
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
        place = (f"{table.name}.{index.name}", partition)
        self._wait(figures.QUERY, partial(self._partitions.lets_read, (place,)))
        found, more = self._tables.query_index(
            table, index, partition, limit=limit, after=after, descending=descending, between=between
        )
        read = units.read_units([units.plain_size(entry) for entry in found], consistent=False)
        self._partitions.read(place, read, self._now_ms)
        return found, more

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        """Of no one partition: it takes its time, and no partition's units."""
        self._wait(figures.QUERY, lambda _: True)
        return self._tables.scan(table, limit=limit, after=after)

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        latency = figures.TRANSACTION if len(writes) > 1 else figures.WRITE
        cpu_ms = figures.CALL_CPU_MS
        if len(writes) > 1:
            steps = sum(1 for write in writes if write.table is JOBS and isinstance(write, Update))
            cpu_ms += (figures.STEP_CPU_MS - figures.ONE_SHOT_CPU_MS) * steps
        self._wait(latency, partial(self._partitions.lets_write, touched(writes)), len(writes), cpu_ms)
        before = [self._image(write) for write in writes]
        result = self._tables.commit(writes)
        after = [self._image(write) for write in writes]
        for place, taken in charges(writes, before, after):
            self._partitions.write(place, taken, self._now_ms)
        return result

    def _image(self, write: Write) -> Item | None:
        return self._tables.get(write.table, key_item(write))

    @property
    def _now_ms(self) -> int:
        return self._process.world.kernel.now_ms

    def _wait(
        self,
        latency: Latency,
        is_let_in: Callable[[int], bool],
        items: int = 0,
        cpu_ms: float = figures.CALL_CPU_MS,
    ) -> None:
        """Let the call take its time; Throttled when a partition had nothing left each time it was tried."""
        process, rng = self._process, self._process.world.rng
        process.spend(latency.draw(rng, items), cpu_ms)
        for tries in range(figures.CLIENT_TRIES - 1):
            if is_let_in(self._now_ms):
                return
            process.spend(rng.random() * (figures.CLIENT_BACKOFF_MS << tries) + latency.draw(rng, items))
        if not is_let_in(self._now_ms):
            raise Throttled("simulated: a partition has nothing left")


class ScaleSender:
    """A `ports.Sender`: batches of ten, some at a time, composed one after the other by one CPU."""

    def __init__(self, process: ScaleProcess, sends_at_once: int) -> None:
        self._process = process
        self._free_ms = [0.0] * sends_at_once
        """When each thread that sends is free again: all windows of a process share them."""

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        process = self._process
        kernel, rng = process.world.kernel, process.world.rng
        target = process.world.queues[queue]
        last_ms = float(kernel.now_ms)
        for batch in pack(messages):
            composed_ms = process.compute(len(batch) * figures.ONE_SHOT_CPU_MS)
            sent_ms = max(heappop(self._free_ms), composed_ms) + figures.SQS_CALL.draw(rng)
            heappush(self._free_ms, sent_ms)
            last_ms = max(last_ms, sent_ms)
            arrived = [messages[i] for i in batch]
            kernel.at(math.ceil(sent_ms), partial(_arrive, target.put, arrived))
        process.park_until(last_ms)
        return SendReport()


class ScaleReceiver:
    """A `ports.Receiver`: each call takes its time. A receipt is the message's number."""

    def __init__(self, process: ScaleProcess) -> None:
        self._process = process

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:  # noqa: ARG002
        """What is visible now: whoever waits for messages here is told by the queue (`ScaleQueue.consumer`)."""
        taken = self._process.call("receive", limit, lambda: self._process.world.queues[queue].take(limit))
        return [InMessage(str(message.id), message.body) for message in taken]

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        target = self._process.world.queues[queue]
        self._process.call("hide", receipt, lambda: target.delay(int(receipt), seconds * SECOND_MS))

    def delete(self, queue: str, receipt: str) -> None:
        target = self._process.world.queues[queue]
        self._process.call("delete", receipt, lambda: target.delete([target.received[int(receipt)]]))


def _arrive(put: Callable[[str, int, str | None], None], messages: Iterable[OutMessage]) -> None:
    for message in messages:
        put(message.body, message.delay_s * SECOND_MS, message.group)
