"""Small worlds for scenarios: ports over a memory store, with jobs and timers in them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.fakes import NOW_MS, FakeClock, fake_ports
from tickwork.core.dispatch.slices import SliceLease
from tickwork.core.jobs.definitions import CatchUp, Job
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.tables import JOBS, LEASES, TIMERS
from tickwork.core.ledger.work import RetryPolicy, Work
from tickwork.core.ledger.writes import Item
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch.windows import WindowReport, run_window
from tickwork.flows.jobs import registering
from tickwork.flows.jobs.registering import NewJob
from tickwork.flows.runs import timers
from tickwork.flows.runs.timers import NewTimer
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

NOW_S = NOW_MS // 1000
LAYOUT = Layout(shards=1, slices=1)
WORK = Work("default", "job", lease_s=30, retry=RetryPolicy(3, 2))


def make_world(layout: Layout = LAYOUT) -> tuple[Ports, MemoryStore]:
    tables = MemoryStore()
    return fake_ports(tables, layout), tables


def create_timer(ports: Ports, in_s: int, client_key: str | None = None, group: str = "") -> Run:
    fire_at_ms = ports.clock.now_ms() + in_s * 1000
    return timers.create_timers(ports, [NewTimer("pay", fire_at_ms, WORK, client_key, "content", group=group)])[0].run


def create_job(
    ports: Ports,
    spec: dict[str, Any],
    *,
    name: str = "nightly",
    catch_up: CatchUp | None = None,
    tolerance_s: int = 0,
    group: str = "",
) -> Job:
    schedule = parse_schedule(spec, now_ms=ports.clock.now_ms(), job_id=f"pay:{name}").spec
    new = NewJob("pay", name, schedule, WORK, tolerance_s, catch_up or CatchUp(), "content", group=group)
    return registering.create_job(ports, new)[0]


def every(seconds: int) -> dict[str, Any]:
    return {"rate": f"{seconds} seconds", "anchor": "2026-01-01T00:00:00Z"}


def move(ports: Ports, seconds: float) -> None:
    """Time passes."""
    assert isinstance(ports.clock, FakeClock)
    ports.clock.at_ms += int(seconds * 1000)


def serve(ports: Ports, slice_no: int = 0) -> WindowReport:
    """A window up to now."""
    return run_window(ports, slice_no, ports.clock.now_ms() // 1000)


def sent_refs(ports: Ports) -> list[str]:
    """The refs of the messages of the ready queue, in order."""
    sender: Any = ports.sender
    return [body["ref"] for body in sender.bodies("ready-default")]


def sent_seconds(ports: Ports) -> list[int]:
    """The seconds since NOW_S of what was sent, in order."""
    return [int(ref.partition("|")[2][:10]) - NOW_S for ref in sent_refs(ports)]


def lease_of(tables: MemoryStore, slice_id: str = "main#0000") -> SliceLease:
    item = tables.get(LEASES, {"slice": slice_id})
    assert item is not None
    return SliceLease.from_item(item)


def job_item(tables: MemoryStore, name: str = "nightly") -> Item:
    item = tables.get(JOBS, {"job_id": f"pay:{name}"})
    assert item is not None
    return item


def item_of(tables: MemoryStore, key: LedgerKey) -> Item:
    item = tables.get(TIMERS, key.as_item())
    assert item is not None
    return item


def statuses(tables: MemoryStore) -> dict[int, str]:
    """The status of each item by its nominal second since NOW_S."""
    found = {int(item["sk"].split("#")[3]) - NOW_S: item["status"] for item in tables.items(TIMERS)}
    return dict(sorted(found.items()))


def with_store(ports: Ports, store: Any) -> Ports:
    return replace(ports, store=store)
