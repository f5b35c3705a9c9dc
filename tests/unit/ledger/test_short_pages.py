"""A page says by `more` alone whether it is the last one: a short page, and an empty one, may have others behind it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tests.support.fakes import fake_ports
from tickwork.core.ledger.tables import TIMERS
from tickwork.flows.ledger.reading import pages, scan_pages
from tickwork.ports import Page, Ports

PAGES = [(["a", "b"], "b"), ([], "c"), (["d"], "d"), (["e", "f"], None)]
"""Items, and where to go on: full, empty, short, last."""


@dataclass
class Paging:
    """A store that answers by a script, as one with a filter, or at its limit of a megabyte, would."""

    script: list[tuple[list[str], str | None]]
    asked: list[Any] = field(default_factory=list)

    def query(self, *_: object, limit: int, after: str | None = None) -> Page:
        self.asked.append(after)
        items, more = self.script[len(self.asked) - 1]
        return Page(tuple({"sk": item} for item in items), more)

    def scan(self, *_: object, limit: int, after: Any) -> tuple[list[Any], Any]:
        page = self.query(limit=limit, after=after)
        return list(page.items), page.more


def over(script: list[tuple[list[str], str | None]]) -> tuple[Ports, Paging]:
    store = Paging(script)
    return replace(fake_ports(), store=store), store  # type: ignore[arg-type]


def test_a_range_is_read_to_its_last_page_over_short_and_empty_ones() -> None:
    ports, store = over(PAGES)
    found = [item["sk"] for page in pages(ports, TIMERS, "p", "0", "9", limit=2) for item in page.items]
    assert found == ["a", "b", "d", "e", "f"]
    assert store.asked == [None, "b", "c", "d"], "each page goes on where the one before it ended"


def test_a_range_goes_on_after_the_place_that_is_given() -> None:
    ports, store = over([(["d"], None)])
    list(pages(ports, TIMERS, "p", "0", "9", limit=2, after="c"))
    assert store.asked == ["c"]


def test_a_table_is_scanned_to_its_last_page_over_short_and_empty_ones() -> None:
    ports, store = over(PAGES)
    found = [item["sk"] for items in scan_pages(ports, TIMERS, limit=2) for item in items]
    assert found == ["a", "b", "d", "e", "f"]
    assert store.asked == [None, "b", "c", "d"]


@pytest.mark.parametrize("read", [1, 2])
def test_pages_are_read_as_they_are_asked_for(read: int) -> None:
    ports, store = over(PAGES)
    found = pages(ports, TIMERS, "p", "0", "9", limit=2)
    for _ in range(read):
        next(found)
    assert len(store.asked) == read
