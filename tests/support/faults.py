"""A store and a sender that die, lose replies and deliver late at a chosen call, for scenarios of a few calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tickwork.core.errors import OutcomeUnknown
from tickwork.core.ledger.writes import Committed, Refused, Write
from tickwork.ports import OutMessage, Ports, SendReport
from tickwork.testing.memory import MemoryStore


class Killed(BaseException):
    """The process died at this call."""


class FaultyStore:
    """A `ports.Store` over a memory store. `before` is called with the verb and arguments of each call."""

    def __init__(self, tables: MemoryStore) -> None:
        self.tables = tables
        self.before: Callable[..., None] = lambda *_: None
        self._lose: Callable[[Sequence[Write]], bool] = lambda _: False
        self._late = False
        self._held: list[tuple[Write, ...]] = []

    def lose_reply(self, of: Callable[[Sequence[Write]], bool], *, late: bool = False) -> None:
        """The next commit that `of` says yes to answers nothing; if late, it takes effect only at `deliver`."""
        self._lose, self._late = of, late

    def deliver(self) -> list[Committed | Refused]:
        """The late writes arrive."""
        held, self._held = self._held, []
        return [self.tables.commit(writes) for writes in held]

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        self.before("commit", writes)
        if not self._lose(writes):
            return self.tables.commit(writes)
        self._lose = lambda _: False
        if self._late:
            self._held.append(tuple(writes))
        else:
            self.tables.commit(writes)
        raise OutcomeUnknown("the reply was lost")

    def __getattr__(self, verb: str) -> Any:
        method = getattr(self.tables, verb)

        def call(*arguments: Any, **named: Any) -> Any:
            self.before(verb, *arguments)
            return method(*arguments, **named)

        return call


class DeafQueue:
    """A sender whose queues take nothing."""

    def send(self, _: str, messages: Sequence[OutMessage]) -> SendReport:
        return SendReport(failed=tuple(range(len(messages))))


def _die() -> None:
    raise Killed


class Countdown:
    """Dies before the n-th call of store and sender together (0: the first), and at each that follows; or does what
    `instead` says, which may set `left` to -1 for the others to pass."""

    def __init__(self, ports: Ports, tables: MemoryStore, calls: int) -> None:
        self.left = calls
        self.store = FaultyStore(tables)
        self.store.before = self.count
        self.sender = ports.sender
        self.ports = replace(ports, store=self.store, sender=self)
        self.instead: Callable[[], object] = _die

    def count(self, *_: object) -> None:
        if self.left == 0:
            self.instead()
        elif self.left > 0:
            self.left -= 1

    def send(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        self.count()
        return self.sender.send(queue, messages)
