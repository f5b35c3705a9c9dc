"""Parts that stay broken: not a fault that comes and goes at a call, but a queue, a table or a shard of the ledger that
answers nothing for minutes or for a whole history.

Owns what is broken now. Refuses to know why, and who suffers from it (the checkers do).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tickwork.core.ledger.tables import LEASES, TIMERS, Table
from tickwork.core.ledger.writes import Put, Write


@dataclass(slots=True)
class Broken:
    """Names of tables of which every call is throttled, shards of the ledger whose reads are, slices whose lease is,
    queues that take nothing."""

    tables: set[str] = field(default_factory=set)
    shards: set[int] = field(default_factory=set)
    slices: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    """Of these queues: those that are not there at all, as their senders are told."""

    def __bool__(self) -> bool:
        return bool(self.tables or self.shards or self.slices or self.queues)

    def stops_read(self, table: Table, partitions: Iterable[str]) -> bool:
        """Whether a read of these partitions is throttled."""
        if table.name in self.tables:
            return True
        if table is LEASES:
            return not self.slices.isdisjoint(partitions)
        return table is TIMERS and bool(self.shards) and any(shard_of(one) in self.shards for one in partitions)

    def stops_write(self, writes: Sequence[Write]) -> bool:
        """Whether a commit is throttled: it is, when one of its writes is."""
        return any(write.table.name in self.tables or self._is_of_slice(write) for write in writes)

    def _is_of_slice(self, write: Write) -> bool:
        if write.table is not LEASES or not self.slices:
            return False
        return (write.item if isinstance(write, Put) else write.key)["slice"] in self.slices

    def takes_nothing(self, queue: str) -> bool:
        return queue in self.queues

    def heal(self) -> None:
        """Everything works again."""
        for broken in (self.tables, self.shards, self.slices, self.queues, self.closed):
            broken.clear()


def shard_of(partition: str) -> int:
    """The shard of a partition of the ledger (`cell#shard#bucket`)."""
    return int(partition.split("#", 2)[1])
