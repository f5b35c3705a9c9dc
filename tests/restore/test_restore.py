"""Tables of a real endpoint put back to an earlier moment, by the steps of docs/deploy.md: lost is what the page says.

The endpoint cannot restore to a point in time: a copy that it makes of each table at that moment, while nobody writes,
stands for what `restore-table-to-point-in-time` brings. All after that are the page's own calls.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.machine import SETTINGS, Machine, eventually
from tickwork.aws.clock import SystemClock
from tickwork.aws.wiring import aws_ports, dynamodb_client
from tickwork.client import ApiRefused
from tickwork.core.ledger.tables import ALL_TABLES, TIMERS, Table
from tickwork.flows.audit.reconciling import reconcile
from tickwork.local.signals import LineSignals

pytestmark = pytest.mark.timeout(300)  # a minute each on a quiet machine, most of it waiting for what is due

PERIOD_S = 5
TARGET = {"pool": "payments", "handler": "effect"}
SOON_S, LATER_S = range(8, 16), range(35, 40)
"""When timers are due that are not yet when the copies are made: before the restore, and after it."""
AUDITS_S = (6 * 60, 12 * 60, 66 * 60, 72 * 60, 25 * 3_600, 26 * 3_600)
"""When the reconciler comes by after the restore, in seconds from now: before, between and after its audits."""


@contextmanager
def nobody_writes(machine: Machine) -> Iterator[None]:
    """Every part stands still in the middle of whatever it does."""
    pids = [child.process.pid for child in machine.children if child.process is not None and child.is_running]
    for pid in pids:
        os.killpg(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.killpg(pid, signal.SIGCONT)


class Copies:
    """Of all tables, at one moment."""

    def __init__(self, machine: Machine) -> None:
        self._client = dynamodb_client()
        with nobody_writes(machine):
            self._made = {table.name: self._copy(_name(table)) for table in ALL_TABLES}

    def _copy(self, name: str) -> str:
        made = self._client.create_backup(TableName=name, BackupName=f"{name}-copy")
        return str(made["BackupDetails"]["BackupArn"])

    def put_in_place(self, tables: Sequence[Table]) -> None:
        for table in tables:
            self._restored(table)
            self._swap(table)

    def _restored(self, table: Table) -> None:
        """The second step of the page, as far as it can be had here."""
        target = f"{_name(table)}-restored"
        self._client.restore_table_from_backup(TargetTableName=target, BackupArn=self._made[table.name])
        self._wait(target)

    def _swap(self, table: Table) -> None:
        """The third step."""
        name, client = _name(table), self._client
        copy = self._copy(f"{name}-restored")
        client.update_table(TableName=name, DeletionProtectionEnabled=False)
        client.delete_table(TableName=name)
        client.get_waiter("table_not_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        client.restore_table_from_backup(TargetTableName=name, BackupArn=copy)
        self._wait(name)
        if table.ttl:
            client.update_time_to_live(
                TableName=name, TimeToLiveSpecification={"Enabled": True, "AttributeName": table.ttl}
            )
        client.update_continuous_backups(
            TableName=name, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
        )
        client.update_table(TableName=name, DeletionProtectionEnabled=True)
        found = client.describe_table(TableName=name)["Table"]
        assert {index["IndexName"] for index in found.get("GlobalSecondaryIndexes", [])} == {
            index.name for index in table.indexes
        }

    def _wait(self, name: str) -> None:
        self._client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})


def _name(table: Table) -> str:
    return f"{SETTINGS.prefix}-{table.name}"


def stop(machine: Machine, *names: str) -> None:
    """In order, as functions that are not invoked any more end."""
    for child in machine.children:
        if child.name in names and child.process is not None:
            child.process.terminate()
            child.process.wait(40)


def start(machine: Machine, *names: str) -> None:
    for child in machine.children:
        if child.name in names:
            child.start()
    eventually(machine.answers, bool, within_s=60)


def create(machine: Machine, due_in_s: Sequence[float], what: str) -> list[str]:
    timers = [
        {"team": "payments", "delay_s": int(s), "target": TARGET, "lease_s": 30, "client_key": f"{what}-{number}"}
        for number, s in enumerate(due_in_s)
    ]
    return [one["timer_id"] for one in machine.api.post("/timers:batch", {"timers": timers})["timers"]]


def status_of(machine: Machine, timer_id: str) -> str:
    try:
        return str(machine.api.get(f"/timers/{quote(timer_id, safe='')}")["status"])
    except ApiRefused as error:
        if error.status == 404:
            return "gone"
        raise


def statuses(machine: Machine, timer_ids: Sequence[str]) -> Counter[str]:
    return Counter(status_of(machine, timer_id) for timer_id in timer_ids)


def all_succeeded(machine: Machine, timer_ids: Sequence[str]) -> None:
    eventually(
        lambda: statuses(machine, timer_ids), lambda found: found.keys() == {"succeeded"}, within_s=90, every_s=1
    )


def effects(machine: Machine) -> Counter[str]:
    """How often each run's code has run, by run id."""
    if not machine.effects.exists():
        return Counter()
    with closing(sqlite3.connect(machine.effects, timeout=30)) as found:
        return Counter(run_id for (run_id,) in found.execute("SELECT run_id FROM effects"))


def job_runs(machine: Machine) -> list[dict[str, Any]]:
    """Newest first."""
    return list(machine.api.get("/jobs/payments:steady/runs", limit=100)["runs"])


def statuses_until(machine: Machine, now: str) -> set[str]:
    return {run["status"] for run in job_runs(machine) if run["scheduled_at"] <= now}


def assert_unbroken(machine: Machine) -> None:
    times = [datetime.fromisoformat(run["scheduled_at"]).timestamp() for run in job_runs(machine)]
    assert {later - earlier for later, earlier in itertools.pairwise(times)} == {PERIOD_S}


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Machine, list[str], list[str]]]:
    """A machine at work; timers that have ended, and timers that are to come."""
    with Machine(tmp_path) as machine:
        machine.start()
        job = {"team": "payments", "name": "steady", "schedule": {"rate": f"{PERIOD_S} seconds"}, "target": TARGET}
        machine.api.post("/jobs", {**job, "catch_up": {"policy": "all"}, "overlap": "allow"})
        to_come = create(machine, [*SOON_S, *LATER_S], "to-come")
        ended = create(machine, [0, 0, 1, 2, 3], "ended")
        all_succeeded(machine, ended)
        yield machine, ended, to_come


def test_all_tables_put_back_to_one_moment_lose_what_came_after_it_and_nothing_else(
    busy: tuple[Machine, list[str], list[str]],
) -> None:
    machine, ended, to_come = busy
    copies = Copies(machine)
    after = create(machine, [1, 2, 400], "after")
    all_succeeded(
        machine, [*to_come[: len(SOON_S)], *after[:2]]
    )  # what runs before the restore, and is forgotten by it
    ran_before = effects(machine)

    stop(machine, "windows", "api")
    copies.put_in_place(ALL_TABLES)
    start(machine, "windows", "api")

    assert statuses(machine, after) == {"gone": len(after)}
    assert statuses(machine, ended) == {"succeeded": len(ended)}
    all_succeeded(machine, [*ended, *to_come])
    again = create(machine, [1, 2, 400], "after")
    assert not {*again} & {*after}, "made anew"
    all_succeeded(machine, again[:2])

    times = effects(machine)
    twice = {run_id for run_id, count in times.items() if count > 1}
    assert twice, "what had run since then runs again, with the same run id"
    assert twice <= ran_before.keys()
    assert max(times.values()) == 2
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    eventually(lambda: statuses_until(machine, now), lambda found: found == {"succeeded"}, within_s=90, every_s=1)
    assert_unbroken(machine)
    print(
        f"\n{len(ended) + len(to_come)} timers of before: 0 lost; {len(twice)} runs ran twice, {len(after)} timers gone"
    )


class Ahead(SystemClock):
    """The wall clock of a reconciler that comes by later."""

    def __init__(self, seconds: int) -> None:
        self._ms = seconds * 1_000

    def now_ms(self) -> int:
        return super().now_ms() + self._ms


def test_a_ledger_put_back_alone_is_mended_by_the_reconcilers_audits(
    busy: tuple[Machine, list[str], list[str]],
) -> None:
    machine, _, to_come = busy
    copies = Copies(machine)
    all_succeeded(machine, to_come)
    ran_before = effects(machine)

    stop(machine, "windows", "api")
    copies.put_in_place([TIMERS])
    start(machine, "api")
    assert statuses(machine, to_come).keys() <= {"pending", "queued"}
    ports = aws_ports(SETTINGS, LineSignals(), receives=True)
    for ahead_s in AUDITS_S:
        reconcile(replace(ports, clock=Ahead(ahead_s)))

    all_succeeded(machine, to_come)
    assert {run_id for run_id, count in effects(machine).items() if count > 1} <= ran_before.keys()
