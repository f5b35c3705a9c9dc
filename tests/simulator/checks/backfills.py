"""Checks on backfills: each place of the list is launched once, no more at a time than was asked for, none afterwards.

They look at the item of a backfill as it moves, and at the runs that come with it. They know nothing of who moves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwork.core.ledger.tables import TEAMS, TIMERS
from tickwork.core.ledger.writes import Item
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.world import World
    from tickwork.testing.process import Process
    from tickwork.testing.store import Change

CELLS = ("@backfills", "@ranges")
"""Those whose list was made at once, and those that are listed piece by piece."""


class BackfillChecks:
    def __init__(self, world: World) -> None:
        self._world = world

    def settled(self, process: Process, changes: tuple[Change, ...]) -> None:
        """After a transaction."""
        moved = [(before, after) for table, before, after in changes if table is TEAMS and _is_one(after)]
        born = [
            str(after["sk"])
            for table, before, after in changes
            if table is TIMERS and before is None and after is not None and "#backfill." in after["sk"]
            if "run_ref" not in after
        ]
        for before, after in moved:
            if before is not None and after is not None and before.get("listed_ms") != after.get("listed_ms"):
                self._world.seen["backfill piece listed"] += 1
        launched = sum(_moved_by(process, before, after) for before, after in moved if after is not None)
        if launched != len(born):
            raise Violation("backfill", f"{process.name} moved a backfill by {launched}, and launched {born}")
        self._world.seen["backfill run launched"] += len(born)


def _is_one(item: Item | None) -> bool:
    return item is not None and item["cell"] in CELLS


def _moved_by(process: Process, before: Item | None, after: Item) -> int:
    """How many runs a backfill has launched with this move."""
    ended = sum(after.get("ended", {}).values())
    if ended + len(after.get("live", ())) != after["position"] or after["position"] > after["count"]:
        raise Violation("backfill", f"{process.name} has lost count of {after}")
    if len(after.get("live", ())) > after["concurrency"]:
        raise Violation("backfill", f"{process.name} launched more than {after['concurrency']} of {after['team']}")
    if before is None:
        return int(after["position"])
    by = int(after["position"] - before["position"])
    if by < 0 or (by and before["status"] != "running"):
        raise Violation("backfill", f"{process.name} moved {after['team']}, which is {before['status']}, by {by}")
    return by


def unfinished(items: list[Item]) -> list[str]:
    """Why backfills have not come to rest."""
    return [
        f"the backfill {item['team']} is {item['status']} with {item['position']} of {item['count']} launched"
        for item in items
        if item["cell"] in CELLS
        and (item["status"] == "running" or (item["status"] == "cancelled" and item.get("live")))
    ]


def _is_winding_down(item: Item) -> bool:
    return bool(item["status"] == "cancelled" and item.get("live"))
