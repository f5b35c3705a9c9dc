"""DynamoDB refuses a range that ends before it begins: no flow may ask for one."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.support.http import ApiUnderTest
from tests.support.worlds import create_job, every, make_world, move, serve, with_store
from tickwork.core.ledger.keys import bucket_of
from tickwork.flows.audit.reconciling import reconcile
from tickwork.ports import Page, Ports


class OrderlyStore:
    """A store that minds the order of a range's ends, as DynamoDB does."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def query(self, table: Any, partition: str, first: str, last: str, **how: Any) -> Page:
        assert first <= last, (partition, first, last)
        page: Page = self._inner.query(table, partition, first, last, **how)
        return page


def world() -> Ports:
    ports, tables = make_world()
    return with_store(ports, OrderlyStore(tables))


def test_a_reconciler_pass_that_comes_twice_finds_nothing_new() -> None:
    ports = world()
    create_job(ports, every(60))
    for _ in range(12):
        move(ports, 61)
        serve(ports)

    assert reconcile(ports).audited > 0
    assert reconcile(ports).audited == 0


def test_a_cursor_of_the_future_begins_with_the_newest_runs() -> None:
    ports = world()
    create_job(ports, every(60))
    move(ports, 61)
    serve(ports)
    second = ports.clock.now_ms() // 1000 + 300
    future = ["due", bucket_of(second), 0, f"{second}#~"]
    cursor = base64.urlsafe_b64encode(json.dumps(future).encode()).decode().rstrip("=")

    status, page = ApiUnderTest(ports).call("GET", "/runs", cursor=cursor)

    assert (status, len(page["runs"])) == (200, 1)
