"""What the tests of lists share: an API over a small world, worked by hand, and every page of a list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.fakes import FakeClock, fake_ports
from tests.support.http import ApiUnderTest
from tests.support.worlds import move
from tickwork.core.ledger.tables import Table
from tickwork.flows.dispatch.windows import run_window
from tickwork.ports import Layout, Page, Ports
from tickwork.testing.memory import MemoryStore

PAGES_MAX = 500
TEAM = "pay"


class CountingStore(MemoryStore):
    """Counts what a list reads."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = self.rows = 0

    def query(self, table: Table, partition: str, first: str, last: str, **how: Any) -> Page:
        assert first <= last, (first, last)
        page = super().query(table, partition, first, last, **how)
        self.queries, self.rows = self.queries + 1, self.rows + len(page.items)
        return page

    def query_index(self, *where: Any, **how: Any) -> Any:
        between = how.get("between")
        assert between is None or between[0] <= between[1]
        found, more = super().query_index(*where, **how)
        self.queries, self.rows = self.queries + 1, self.rows + len(found)
        return found, more


@dataclass
class Stage:
    layout: Layout = field(default_factory=lambda: Layout(shards=4, slices=2))
    store: CountingStore = field(default_factory=CountingStore)
    ports: Ports = field(init=False)
    api: ApiUnderTest = field(init=False)

    def __post_init__(self) -> None:
        self.ports = fake_ports(self.store, self.layout)
        self.api = ApiUnderTest(self.ports)

    @property
    def now_ms(self) -> int:
        assert isinstance(self.ports.clock, FakeClock)
        return self.ports.clock.at_ms

    def ok(self, method: str, path: str, body: object = None, **query: str) -> Any:
        status, answer = self.api.call(method, path, body, **query)
        assert status < 300, answer
        return answer

    def timers(self, count: int, *, delay_s: float = 0, apart_s: float = 0, team: str = TEAM) -> list[dict[str, Any]]:
        target = {"pool": "default", "handler": "job"}
        bodies = [{"team": team, "delay_s": delay_s + i * apart_s, "target": target} for i in range(count)]
        made: list[dict[str, Any]] = []
        for begin in range(0, count, 100):
            made += self.ok("POST", "/timers:batch", {"timers": bodies[begin : begin + 100]})["timers"]
        return made

    def job(self, name: str = "nightly", seconds: int = 60, team: str = TEAM) -> str:
        schedule = {"rate": f"{seconds} seconds", "anchor": "2026-01-01T00:00:00Z"}
        body = {"team": team, "name": name, "schedule": schedule, "target": {"pool": "default"}, "tolerance_s": 0}
        return str(self.ok("POST", "/jobs", {"overlap": "allow"} | body)["job_id"])

    def after(self, seconds: float) -> None:
        """Time passes, and windows are served."""
        move(self.ports, seconds)
        for slice_no in range(self.layout.slices):
            run_window(self.ports, slice_no, self.now_ms // 1000)

    def kill(self, run: dict[str, Any]) -> None:
        entry = {"ref": run["ref"], "claim": "claim-of-this-1"}
        token = self.ok("POST", "/runs:start", {"worker": "w", "runs": [entry]})["runs"][0]["token"]
        entry = {"ref": run["ref"], "token": token, "outcome": "failed_permanent", "error": "no such account"}
        assert self.ok("POST", "/runs:complete", {"runs": [entry]})["runs"][0]["status"] == "dead"

    def cancel(self, *runs: dict[str, Any]) -> None:
        for begin in range(0, len(runs), 25):
            body = {"runs": [{"ref": run["ref"]} for run in runs[begin : begin + 25]], "reason": "not now"}
            assert all(one["accepted"] for one in self.ok("POST", "/runs:cancel", body)["runs"])

    def pages(
        self, path: str, between: Callable[[list[dict[str, Any]]], None] = lambda _: None, **query: str
    ) -> list[list[dict[str, Any]]]:
        """Every page of a list; `between` happens after each."""
        name = "timers" if path == "/timers" else "runs"
        found: list[list[dict[str, Any]]] = []
        cursor: dict[str, str] = {}
        for _ in range(PAGES_MAX):
            page = self.ok("GET", path, None, **query, **cursor)
            found.append(page[name])
            if page["cursor"] is None:
                assert page["reached"] is None
                assert not page["bounded"]
                return found
            cursor = {"cursor": page["cursor"]}
            between(page[name])
        raise AssertionError("a list without end")

    def listed(self, path: str, **query: str) -> list[dict[str, Any]]:
        return flat(self.pages(path, **query))

    def other_process(self) -> Stage:
        """Another process over the same tables."""
        other = replace(self)
        other.store, other.ports = self.store, replace(self.ports, teams_seen=set())
        other.api = ApiUnderTest(other.ports)
        return other


def refs(runs: list[dict[str, Any]]) -> list[str]:
    return [run["ref"] for run in runs]


def flat(pages: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [one for page in pages for one in page]
