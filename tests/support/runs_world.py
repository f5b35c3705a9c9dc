"""A whole service in memory, with a hand on the clock and eyes on every write: what the tests of this folder use."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.fakes import CountingIds, FakeClock, KeptSignals, RememberingSender
from tickwork.core.instants import SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.keys import LedgerKey, parse_ref
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import TIMERS, Table
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Committed, Item, Refused, Write
from tickwork.core.runs.attempts import Declined, StartRequest
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.jobs import registering
from tickwork.flows.runs import timers, worker_calls
from tickwork.flows.runs.finishing import Ended
from tickwork.flows.runs.worker_calls import Started
from tickwork.ports import Layout, Ports, Store
from tickwork.testing.memory import MemoryStore


class Crash(BaseException):
    """The process ends here: nothing in it can catch that."""


class WatchedStore:
    """Any store, watched: counts what DynamoDB would bill, and crashes or interferes where a test asks for it."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.commits: list[Sequence[Write]] = []
        self.reads = 0
        self.crash_after_commits: int | None = None
        self.before_commit: Callable[[], object] | None = None
        self.get_many, self.query = inner.get_many, inner.query
        self.query_index, self.scan = inner.query_index, inner.scan

    def get(self, table: Table, key: Item) -> Item | None:
        self.reads += 1
        return self._inner.get(table, key)

    def commit(self, writes: Sequence[Write]) -> Committed | Refused:
        if self.before_commit is not None:
            interfere, self.before_commit = self.before_commit, None
            interfere()
        self.commits.append(writes)
        result = self._inner.commit(writes)
        if self.crash_after_commits is not None:
            self.crash_after_commits -= 1
            if self.crash_after_commits == 0:
                self.crash_after_commits = None
                raise Crash
        return result

    def items(self, table: Table) -> list[Item]:
        """Everything in a table."""
        items: list[Item] = []
        after: Item | None = None
        while True:
            page, after = self._inner.scan(table, limit=500, after=after)
            items += page
            if after is None:
                return items


class World:
    """One slice of two shards, one pool, and the calls that a client, a scanner and a worker make."""

    def __init__(self, store: Store | None = None) -> None:
        self.clock, self.outbox = FakeClock(), RememberingSender()
        self.store = WatchedStore(store or MemoryStore())
        self.signals, self.ids = KeptSignals(), CountingIds()
        layout = Layout(shards=2, slices=1, pools=("default",))
        self.ports = Ports(self.clock, self.store, self.outbox, self.signals, self.ids, layout)

    # --- the client -------------------------------------------------------------------------------------------

    def timer(self, delay_s: int = 0, team: str = "shop", **work: Any) -> LedgerKey:
        new = timers.NewTimer(team, self.clock.at_ms + delay_s * SECOND_MS, Work("default", "job", **work))
        (created,) = timers.create_timers(self.ports, [new])
        return created.run.key

    def job(self, name: str = "hourly", every_s: int = 3600, team: str = "shop", **work: Any) -> str:
        schedule = parse_schedule({"rate": f"{every_s}s"}, now_ms=self.clock.at_ms, job_id=f"{team}:{name}")
        new = registering.NewJob(team, name, schedule.spec, Work("default", "job", **work), 0, CatchUp(), "f")
        job, _ = registering.create_job(self.ports, new)
        return job.job_id

    # --- time and the scanner -----------------------------------------------------------------------------------

    def after(self, seconds: float) -> None:
        self.clock.at_ms += int(seconds * SECOND_MS)

    def scan(self) -> None:
        run_window(self.ports, 0, self.clock.at_ms // SECOND_MS)

    def next_key(self, job_id: str) -> LedgerKey:
        key = registering.get_job(self.ports, job_id).next_key("main")
        assert key is not None
        return key

    def until_due(self, job_id: str) -> LedgerKey:
        """Go to the next occurrence of a job, scan, and say which it was."""
        key = self.next_key(job_id)
        self.clock.at_ms = max(self.clock.at_ms, key.fire_at_ms)
        self.scan()
        return key

    def until_retry(self, key: LedgerKey) -> dict[str, Any]:
        """Go to the due time of the pending retry, scan, and hand over its message."""
        self.clock.at_ms = max(self.clock.at_ms, self.run(key).retry_at_ms)
        self.scan()
        return self.message(key)

    # --- the queue and the worker -------------------------------------------------------------------------------

    def messages(self, key: LedgerKey) -> list[dict[str, Any]]:
        bodies = [json.loads(message.body) for queue, message in self.outbox.sent if queue != "ticks"]
        return [body for body in bodies if body["ref"] == key.ref]

    def message(self, key: LedgerKey) -> dict[str, Any]:
        return self.messages(key)[-1]

    def start(
        self, key: LedgerKey, claim: str | None = None, *, message: dict[str, Any] | None = None, lease_s: int = 60
    ) -> Started | Declined:
        body = message or {"ref": key.ref, "attempt": 1}
        retry = parse_ref(body["retry_ref"]) if "retry_ref" in body else None
        claim = claim or f"claim-{self.ids.unique()}"
        return worker_calls.start(self.ports, StartRequest(key, claim, "w1", lease_s, body["attempt"], retry))

    def must_start(self, key: LedgerKey, **how: Any) -> Run:
        started = self.start(key, **how)
        assert isinstance(started, Started), started
        return started.run

    def fail(self, key: LedgerKey, token: int, error: str = "boom", **how: Any) -> Ended | Declined:
        return worker_calls.fail(self.ports, key, token, error, permanent=how.pop("permanent", False), **how)

    def complete(self, key: LedgerKey, token: int) -> Ended | Declined:
        return worker_calls.complete(self.ports, key, token)

    # --- looking ------------------------------------------------------------------------------------------------

    def item(self, key: LedgerKey) -> Item:
        item = self.store.get(TIMERS, key.as_item())
        assert item is not None
        return item

    def run(self, key: LedgerKey) -> Run:
        return Run.from_item(self.item(key))

    def outcomes(self, key: LedgerKey) -> list[str]:
        return [record["outcome"] for record in self.run(key).attempts]
