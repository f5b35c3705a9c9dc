"""Whether anybody is reached by a pager route: what is stored of its last test, and what that comes to.

Owns the record of a test and the words for its outcome. Refuses to know how a message travels. Protects: a route counts
only when a test message has got through it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

from tickwork.core.access.teams import PagerRoute
from tickwork.core.ledger import items, lifecycle
from tickwork.core.ledger.items import Record, always
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.writes import Item
from tickwork.core.texts import cleaned

TESTS = "@tests"
"""Partition of the table `teams`: `team#hash of the route`."""
UNTESTED, WAITING, PROVEN, FAILED, UNCONFIRMED = "untested", "waiting", "proven", "failed", "unconfirmed"
DETAIL_CHARS_MAX = 300


@dataclass(frozen=True, slots=True)
class RouteTest(Record):
    """The last test of a route. Of a webhook the message is a timer, and its run says what came of it; of the others
    `state` says what was said there and then."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell",)

    team: str = always("")
    """The key: `team#hash of the route`."""
    at_ms: int = always(0)
    by: str = ""
    timer_id: str = ""
    state: str = ""
    detail: str = ""

    def to_item(self) -> Item:
        return items.written(self) | {"cell": TESTS}


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of a route: `proven` alone counts."""

    state: str = UNTESTED
    at_ms: int = 0
    detail: str = ""


def key_of_test(team: str, route: PagerRoute) -> Item:
    digest = hashlib.sha256(f"{route.way}|{route.address}".encode()).hexdigest()[:16]
    return {"cell": TESTS, "team": f"{team}#{digest}"}


def standing_of(test: RouteTest | None, run: Run | None) -> Standing:
    """`run`: of the timer that carried the test, where there is one."""
    if test is None:
        return Standing()
    if not test.timer_id:
        return Standing(test.state, test.at_ms, test.detail)
    if run is None:
        return Standing(UNTESTED, test.at_ms, "the record of its last test has expired: test it again")
    if run.status == lifecycle.SUCCEEDED:
        return Standing(PROVEN, run.ended_at_ms)
    if not run.ended:
        return Standing(WAITING, test.at_ms, "the test message is on its way")
    last: Any = run.attempts[-1] if run.attempts else {}
    return Standing(FAILED, run.ended_at_ms, cleaned(str(last.get("error") or run.reason), DETAIL_CHARS_MAX))
