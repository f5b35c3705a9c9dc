"""The ways out to what teams have of their own: queues of pools, and pagers. A part of `ports.py`, which has them all.

Ports know values of the core and nothing of any service.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from tickwork.core.access.holdings import Uncounted
from tickwork.core.access.pacing import Pace
from tickwork.core.errors import Throttled
from tickwork.core.ledger.queues import Queue


class QueueMaker(Protocol):
    """Queues of pools that teams make, each with its dead-letter queue. Making or removing one again is a no-op. Every
    method may raise `Throttled`; then, as after a crash, it is repeated."""

    def make(self, queue: Queue) -> None: ...

    def waiting(self, queue: Queue) -> int:
        """About how many messages there are, visible, hidden or delayed, the dead-letter queue's with them; 0: also
        when there is no queue (any more)."""
        ...

    def remove(self, queue: Queue) -> None: ...


class NoQueueMaker:
    """For processes that make no queues."""

    def waiting(self, queue: Queue) -> NoReturn:
        raise Throttled(f"{queue.name}: this process makes no queues, and looks at none")

    make = remove = waiting


@dataclass(frozen=True, slots=True)
class Paged:
    """What came of a page: `proven`, `failed` or `unconfirmed`, and what is to be said of it."""

    state: str
    detail: str = ""


class Pager(Protocol):
    """The ways to page a team that are not HTTP. Never raises for what the world does."""

    def topic_of(self, team: str) -> str:
        """What the one topic is called that is the team's."""
        ...

    def page(self, team: str, way: str, address: str, subject: str, text: str, *, asks: bool = True) -> Paged:
        """`way`: `topic` (`address` is its ARN) or `email`. `asks`: an address that has not confirmed is asked to."""
        ...


class NoPager:
    """For processes that page nobody."""

    def topic_of(self, team: str) -> str:  # noqa: ARG002
        return ""

    def page(self, *_: object, **__: object) -> Paged:
        return Paged("failed", "this process pages nobody")


@dataclass(slots=True)
class QuotaCounts:
    """What a process has counted of teams' quotas and not told yet, and what it was told. A process that dies takes
    with it some creates that were not counted."""

    paces: dict[str, Pace] = field(default_factory=dict)
    uncounted: dict[str, Uncounted] = field(default_factory=dict)
    full: dict[tuple[str, str], int] = field(default_factory=dict)
    """By team and limit: the second in which it was full."""
    paged: dict[tuple[str, str], int] = field(default_factory=dict)
    """By team and limit: the day on which its owner was paged."""
