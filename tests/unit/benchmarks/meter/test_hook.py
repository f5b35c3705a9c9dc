"""The hook on real clients, and the counting ports beside it: one flow, one bill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import boto3
import pytest
from benchmarks.meter.bill import Bill
from benchmarks.meter.hook import Meter, Unmeterable, peek_with
from benchmarks.meter.ports import CountingSender, CountingStore
from moto import mock_aws

from tests.support.fakes import RememberingSender, fake_ports
from tickwork.aws.provision import create_all
from tickwork.aws.sqs import SqsSender
from tickwork.core.instants import second_of
from tickwork.core.jobs.definitions import CatchUp
from tickwork.core.ledger.tables import ALL_TABLES
from tickwork.core.ledger.work import Work
from tickwork.core.runs.attempts import StartRequest
from tickwork.core.schedule import parse_schedule
from tickwork.flows.dispatch import ticking
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.jobs import registering
from tickwork.flows.runs import timers, worker_calls
from tickwork.ports import Ports
from tickwork.settings import Settings
from tickwork.store.dynamodb import DynamoStore
from tickwork.testing.memory import MemoryStore

SETTINGS = Settings(shards=2, slices=1)


@pytest.fixture
def metered(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Ports, Bill]]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        plain = boto3.client("dynamodb")
        dynamodb, sqs = boto3.client("dynamodb"), boto3.client("sqs")
        create_all(plain, sqs, SETTINGS)
        ports = fake_ports(layout=SETTINGS.layout())
        store = DynamoStore(dynamodb, SETTINGS.prefix, ports.ids.unique)
        sender = SqsSender(sqs, SETTINGS.prefix)
        for queue in ("ticks", "ready-default"):
            sender.queue_url(queue)
        bill = Bill()
        meter = Meter(bill, {store.table_name(table): table for table in ALL_TABLES}, peek_with(plain))
        meter.attach(dynamodb)
        meter.attach(sqs)
        yield replace(ports, store=store, sender=sender), bill


def _counted() -> tuple[Ports, Bill]:
    bill = Bill()
    ports = fake_ports(layout=SETTINGS.layout())
    return replace(
        ports, store=CountingStore(MemoryStore(), bill), sender=CountingSender(RememberingSender(), bill)
    ), bill


def _live(ports: Ports, bill: Bill) -> None:
    """A little of everything: one-shots that succeed, fail and are cancelled, a job, ticks, windows."""
    now_ms = ports.clock.now_ms()
    work = Work("default", "greet", payload='{"to":"you"}')
    with bill.step("create"):
        made = timers.create_timers(
            ports, [timers.NewTimer("team", now_ms + 5_000, work, client_key=key) for key in (None, None, None, "k")]
        )
        timers.create_timers(ports, [timers.NewTimer("team", now_ms + 5_000, replace(work, payload="x" * 3_000))])
        schedule = parse_schedule({"rate": "5s"}, now_ms=now_ms)
        new = registering.NewJob("team", "beat", schedule.spec, work, 0, CatchUp(), "f")
        registering.create_job(ports, new)
    with bill.step("cancel"):
        timers.cancel_timer(ports, made[0].run.key.job_id)
    with bill.step("tick"):
        ticking.issue_ticks(ports)
    ports.clock.sleep_ms(7_000)
    with bill.step("window"):
        run_window(ports, 0, second_of(ports.clock.now_ms()))
    with bill.step("work"):
        for i, one in enumerate(made[1:]):
            for claim in (f"c{i}", f"d{i}"):
                worker_calls.start(ports, StartRequest(one.run.key, claim, "worker", 60))
        worker_calls.complete(ports, made[1].run.key, 1)
        worker_calls.complete(ports, made[1].run.key, 9)
        worker_calls.fail(ports, made[2].run.key, 1, "it broke", permanent=False)
    with bill.step("history"):
        registering.list_jobs(ports, "team", limit=10, after=None)


def test_the_hook_and_the_counting_ports_make_out_the_same_bill(metered: tuple[Ports, Bill]) -> None:
    _live(*metered)
    counted = _counted()
    _live(*counted)
    assert dict(counted[1].calls) == dict(metered[1].calls)
    assert dict(counted[1].by_step) == dict(metered[1].by_step)


def test_a_refused_write_is_billed_on_the_item_that_refused_it(metered: tuple[Ports, Bill]) -> None:
    ports, bill = metered
    request = timers.NewTimer("team", ports.clock.now_ms() + 60_000, Work("default", "greet", payload="{}"))
    (made,) = timers.create_timers(ports, [request])
    with bill.step("refused"):
        worker_calls.complete(ports, made.run.key, 1)
    assert bill.by_step["refused"] == Counter(dynamodb_write_units=1)


def test_what_can_not_be_told_is_refused(metered: tuple[Ports, Bill]) -> None:
    store: DynamoStore = metered[0].store  # type: ignore[assignment]
    with pytest.raises(Unmeterable):
        store._client.scan(TableName=f"{SETTINGS.prefix}-jobs", Select="COUNT")
