"""The only ways out of the service: a clock, a store, a sender, a receiver, signals, and unique ids.

Production passes ones over AWS, tests in-memory or emulator-backed ones, the simulator ones that crash,
stall and repeat. Ports know values of the core and nothing of any service.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

from tickwork.core.access.acting import SERVICE, Acting
from tickwork.core.access.issuers import Issuer
from tickwork.core.errors import UnknownCell
from tickwork.core.ledger.cells import CellShape
from tickwork.core.ledger.queues import TICKS_QUEUE as TICKS_QUEUE
from tickwork.core.ledger.queues import ready_queue as ready_queue
from tickwork.core.ledger.tables import Index, Table
from tickwork.core.ledger.writes import Committed, Item, Refused, Write
from tickwork.core.runs.push_targets import Target
from tickwork.core.runs.pushes import Answer
from tickwork.ports_for_teams import NoPager as NoPager
from tickwork.ports_for_teams import NoQueueMaker as NoQueueMaker
from tickwork.ports_for_teams import Paged as Paged
from tickwork.ports_for_teams import Pager as Pager
from tickwork.ports_for_teams import QueueMaker as QueueMaker
from tickwork.ports_for_teams import QuotaCounts as QuotaCounts


class Clock(Protocol):
    """The wall clock says what is due; the monotonic one bounds trust in a lease. Both in milliseconds."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...

    def sleep_ms(self, duration_ms: int) -> None: ...


class Ids(Protocol):
    def unique(self) -> str:
        """A text nobody else will ever get: 20 lower-case hexadecimal digits. In production drawn from the system's
        randomness, so that nobody can guess it either: API keys are made of some."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """Items in key order; `more` is the sort key to go on after, or None when this was the last page."""

    items: tuple[Item, ...]
    more: str | None = None


class Store(Protocol):
    """The tables. Reads are strongly consistent unless they go through an index.

    Every method may raise `Throttled`; `commit` also `Conflict` (try again) and `OutcomeUnknown` (look).
    """

    def get(self, table: Table, key: Item) -> Item | None: ...

    def get_many(self, table: Table, keys: Sequence[Item]) -> list[Item | None]:
        """The items in the order of the keys, None where there is none. Keys must differ."""
        ...

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
        """Items of one partition with first <= sort key <= last, ascending and > after; or descending and < after."""
        ...

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
        """Keys found by an index (eventually consistent), and the position to go on after (None: no more). `between`:
        only those whose sort key, a number, lies there (both ends included)."""
        ...

    def scan(self, table: Table, *, limit: int, after: Item | None) -> tuple[list[Item], Item | None]:
        """A page of the whole table, in no order, and the position to go on after."""
        ...

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        """One conditional write, or 2 to 100 as one transaction (no item twice)."""
        ...


@dataclass(frozen=True, slots=True)
class OutMessage:
    """A message to send; visible after `delay_s` (0 to 900). `group` spreads turns among tenants."""

    body: str = field(repr=False)
    delay_s: int = 0
    group: str | None = None


@dataclass(frozen=True, slots=True)
class SendReport:
    """What did not go out: `failed` may be tried again; `refused` never will (index and why). The rest was sent.
    `why` is the last thing that was said of those that failed. `closed`: the queue is not there, or takes nothing
    from us at all, whatever it is sent; it is no use to try again at once."""

    failed: tuple[int, ...] = ()
    refused: tuple[tuple[int, str], ...] = ()
    why: str = ""
    closed: bool = False


class Sender(Protocol):
    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        """Send any number of messages to a queue by its name (`ticks`, `ready-<pool>`)."""
        ...


@dataclass(frozen=True, slots=True)
class InMessage:
    """A received message, hidden from others for a while. `receipt` hides it longer, or deletes it. `receives`: how
    often it has been received, this time included."""

    receipt: str
    body: str = field(repr=False)
    receives: int = 1


class Receiver(Protocol):
    """Queues as a consumer has them: ready queues on behalf of workers that cannot reach them, and ticks. Every method
    may raise `Throttled`; the message then comes back by itself."""

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:
        """Up to `limit` messages (1 to 10), waiting up to `wait_s` (0 to 20) for the first."""
        ...

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        """Keep a received message hidden for so long from now; 0 shows it at once."""
        ...

    def delete(self, queue: str, receipt: str) -> None: ...


class NoReceiver:
    """For processes that receive nothing, and keep nothing back."""

    def receive(self, queue: str, *, limit: int, wait_s: int, hide_s: int) -> list[InMessage]:  # noqa: ARG002
        return []

    def hide(self, queue: str, receipt: str, seconds: int) -> None:
        pass

    def delete(self, queue: str, receipt: str) -> None:
        pass


class Poster(Protocol):
    """HTTP POST to a push target. Every address that its name resolves to is checked, and connected to as checked;
    redirects too. Never raises for what the network does: that is an answer with status 0."""

    def post(self, target: Target, body: bytes, headers: Mapping[str, str], *, timeout_ms: int) -> Answer: ...


class KeyDesk(Protocol):
    """Where an issuer's keys are asked for, and signatures checked by them."""

    def published(self, issuer: Issuer) -> object:
        """The document of its keys. OSError or ValueError when there is none that can be read."""
        ...

    def proven(self, text: str, key: Mapping[str, Any], issuer: Issuer) -> Mapping[str, Any]:
        """The claims of a token that this key has signed, by this issuer and for this audience; BadToken when not. Not
        whether its time is now."""
        ...


class Signals(Protocol):
    """What the service says of itself: counters, measurements and structured log lines with a stable `action`."""

    def count(self, metric: str, n: int = 1, **labels: str) -> None: ...

    def observe(self, metric: str, value: float, **labels: str) -> None: ...

    def log(self, action: str, **facts: object) -> None: ...


@dataclass(frozen=True, slots=True)
class Layout:
    """How timers are spread, seen from one cell, and how long things are kept. `shards_before` is the previous number
    of shards while items of that layout may still be pending: windows read both."""

    cell: str = "main"
    shards: int = 4
    slices: int = 2
    shards_before: int = 0
    pools: tuple[str, ...] = ("default",)
    retention_s: int = 30 * 86_400
    audit_s: int = 400 * 86_400
    push_private: bool = False
    """Pushes may reach private addresses: on one's own machine only."""
    require_certificates: bool = False
    """Jobs that declare side effects must come with the certificate of `tickwork verify`."""
    slice_capacity_per_s: int = 500
    cell_dispatch_per_s: int = 0
    """Runs in a second: what a slice is built for (a fifth of it for what was missed, F8); what a cell may (0: all)."""
    long_poll_max_s: int = 5
    """How long a lease over HTTP may wait for its first run."""
    log_one_in: int = 1
    """Of windows that went well, one in so many has a line in the log."""
    others: tuple[CellShape, ...] = ()
    home_cell: str = ""
    """The environment's cells beside this one, and its home cell where this one is not (`core/ledger/cells.py`)."""

    @property
    def home(self) -> str:
        return self.home_cell or self.cell

    @property
    def shapes(self) -> tuple[CellShape, ...]:
        """All cells, the home cell first."""
        own = CellShape(self.cell, self.shards, self.slices, self.shards_before)
        return tuple(sorted((own, *self.others), key=lambda one: (one.name != self.home, one.name)))

    def seen_from(self, name: str) -> Self:
        """The layout as it is seen from another cell; KeyError when there is none of that name."""
        shape = {shape.name: shape for shape in self.others}[name]
        seen = replace(self, cell=name, shards=shape.shards, slices=shape.slices, shards_before=shape.shards_before)
        return replace(seen, others=tuple(one for one in self.shapes if one.name != name), home_cell=self.home)

    def label(self, slice_no: int) -> int | str:  # as logs and metrics call it
        return slice_no if self.cell == self.home else f"{self.cell}#{slice_no:04d}"

    def slice_of(self, shard: int) -> int:
        return shard % self.slices

    def shards_of(self, slice_no: int) -> range:
        return range(slice_no, max(self.shards, self.shards_before), self.slices)


@dataclass(frozen=True, slots=True)
class Remembered:
    """What a read found (None: nothing), and the instant before it by the monotonic clock."""

    item: Item | None
    asked_at_ms: int


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything a flow may reach, the layout it works in, and on whose behalf."""

    clock: Clock
    store: Store
    sender: Sender
    signals: Signals
    ids: Ids
    layout: Layout = field(default_factory=Layout)
    receiver: Receiver = field(default_factory=NoReceiver)
    queues: QueueMaker = field(default_factory=NoQueueMaker)
    pager: Pager = field(default_factory=NoPager)
    slices_seen: set[str] = field(default_factory=set, repr=False, compare=False)
    """Slices whose lease this process has read once. Nothing but this and what follows may be kept between calls."""
    teams_seen: set[str] = field(default_factory=set, repr=False, compare=False)
    """Teams whose row this process has looked after."""
    registry: dict[tuple[str, str], Remembered] = field(default_factory=dict, repr=False, compare=False)
    """Items of the table `teams` by their keys, as this process has read them lately (`flows/access/registry.py`)."""
    audit_known: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Of the audit: whose teams' rows there are, and the secret of the hashes of payloads. Neither is ever deleted."""
    quota_counts: QuotaCounts = field(default_factory=QuotaCounts, repr=False, compare=False)
    acting: Acting = SERVICE
    """For the record: what it may do was settled before."""

    def in_cell(self, name: str) -> Ports:
        """The same, seen from a cell. UnknownCell when this process is not deployed with it."""
        if name == self.layout.cell:
            return self
        if name not in {one.name for one in self.layout.others}:
            raise UnknownCell(f"cell {name!r} is none of this process's: deploy it with TICKWORK_CELLS")
        return replace(self, layout=self.layout.seen_from(name))

    def in_each_cell(self) -> list[Ports]:
        return [self.in_cell(one.name) for one in self.layout.shapes]


PUSH_POOL = "push"
"""The pool of runs whose target is a URL. An environment that has it runs a pusher for it."""
