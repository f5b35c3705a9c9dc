"""A pool is made, shared and deleted with an entry each, whatever dies between two calls of the store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.unit.access.test_pools import World
from tickwork.core.access import pools
from tickwork.core.access.seals import Sealed
from tickwork.core.access.teams import team_key
from tickwork.core.errors import Throttled
from tickwork.core.instants import MINUTE_MS
from tickwork.core.ledger.tables import AUDIT, PASSES, TEAMS
from tickwork.core.ledger.writes import Anyway, Delete

AT = "/teams/payments/pools/fast"


class _Dies(BaseException):
    pass


class _Dying:
    """A store after whose n-th call the process dies."""

    def __init__(self, store: Any, n: int) -> None:
        self._store, self.left = store, n

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def call(*args: Any, **how: Any) -> Any:
            found = getattr(self._store, name)(*args, **how)
            self.left -= 1
            if self.left == 0:
                raise _Dies
            return found

        return call


def _actions(world: World) -> list[str]:
    items = [item for item in world.tables.items(AUDIT) if ":pool:" in item["stream"]]
    return [item["action"] for item in sorted(items, key=lambda item: item["place"])]


def _state(world: World) -> object:
    item = world.tables.get(TEAMS, pools.pool_key("payments", "payments_fast"))
    return item and (item["version"], item.get("closed_at_ms", 0) > 0, item.get("shared_with"))


@pytest.mark.parametrize(
    ("given", "method", "body", "action"),
    [
        ([], "PUT", {}, "pool.created"),
        ([{}], "PUT", {"shared_with": ["shop"], "version": 1}, "pool.changed"),
        ([{}], "DELETE", None, "pool.deleted"),
    ],
    ids=["make", "share", "delete"],
)
def test_a_pool_and_its_entry_change_together(given: list[Any], method: str, body: Any, action: str) -> None:
    for n in range(1, 60):
        world = World()
        for one in given:
            world.pool(**one)
        before, told = _state(world), _actions(world)
        dying = _Dying(world.tables, n)
        api = ApiUnderTest(replace(world.another_process(), store=dying))  # type: ignore[arg-type]
        with contextlib.suppress(_Dies):
            api.call(method, AT, body)
        assert (_state(world) != before) == (_actions(world) != told), f"died after call {n}"
        status, _ = world.api.call(method, AT, body)
        assert status in (200, 404), "a pool that is gone is not there to be deleted again"
        assert _actions(world) == [*told, action], f"asked again after call {n}"
        if dying.left > 0:
            assert world.api.call("GET", "/audit:verify", team="payments")[1]["findings"] == []
            return
    raise AssertionError("the request does not end")


def test_what_a_pool_was_stands_in_the_entry_of_its_deletion() -> None:
    world = World()
    world.pool(worker="lambda", timeout_s=30, shared_with=["shop"])
    assert world.api.call("DELETE", AT)[0] == 200
    (entry,) = world.api.call("GET", "/audit", team="payments", object="pool:fast", limit="1")[1]["entries"]
    assert {one["field"]: (one["before"], one["after"]) for one in entry["changes"]} == {
        "worker": ("lambda", None),
        "timeout_s": (30, None),
        "shared_with": (["shop"], None),
    }


def test_a_pool_or_a_team_that_is_taken_away_by_hand_is_found() -> None:
    taken = {"pool:fast": pools.pool_key("payments", "payments_fast"), "team:payments": team_key("payments")}
    for name, key in taken.items():
        world = World()
        world.pool()
        world.tables.commit([Delete(TEAMS, key, Anyway("as somebody who can write the tables"))])
        found = _found(world)
        assert [(one["kind"], one["object"]) for one in found] == [("removed", name)], found


def test_a_pool_or_a_team_that_was_deleted_and_one_that_was_made_again_is_not_missed() -> None:
    world = World()
    world.pool()
    assert world.api.call("DELETE", AT)[0] == 200
    assert _found(world) == []
    world.ports.clock.sleep_ms(MINUTE_MS)
    world.pool()
    assert _found(world) == []
    assert world.api.call("DELETE", AT)[0] == 200
    world.ports.clock.sleep_ms(3 * MINUTE_MS)
    assert world.api.call("DELETE", "/teams/payments")[0] == 200
    assert _found(world) == []


def test_a_team_whose_first_change_met_a_busy_table_is_sealed_from_its_next_change_on() -> None:
    world = World()
    row = Sealed("payments", world.ports.layout.cell).key
    world.tables.commit([Delete(PASSES, row, Anyway("nothing of it was recorded yet"))])
    ports = world.another_process()
    get = world.tables.get

    def busy(table: Any, key: Any) -> Any:
        if table is PASSES and key == row:
            raise Throttled("slow down")
        return get(table, key)

    world.tables.get = busy  # type: ignore[method-assign]
    assert ApiUnderTest(ports).call("PUT", "/teams/payments/pools/fast", {})[0] == 200
    world.tables.get = get  # type: ignore[method-assign]
    assert get(PASSES, row) is None
    assert ApiUnderTest(ports).call("PUT", "/teams/payments/pools/slow", {})[0] == 200
    assert get(PASSES, row) is not None


def _found(world: World) -> list[Any]:
    findings: list[Any] = []
    query = {"team": "payments"}
    for _ in range(20):
        answer = world.api.call("GET", "/audit:verify", **query)[1]
        findings += answer["findings"]
        if answer["cursor"] is None:
            return findings
        query["cursor"] = answer["cursor"]
    raise AssertionError("verification does not end")
