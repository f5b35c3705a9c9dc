"""The backlog of an outage on the DynamoDB store: its conditions and pages as expressions, not as Python."""

from __future__ import annotations

import itertools

from moto import mock_aws

from tests.scenarios.stage import NOW_MS, Stage, Workers
from tickwork.aws.provision import create_all
from tickwork.aws.wiring import dynamodb_client, sqs_client
from tickwork.core.instants import HOUR_MS, SECOND_MS
from tickwork.core.jobs.definitions import CatchUp
from tickwork.ports import Layout
from tickwork.settings import Settings
from tickwork.store.dynamodb import DynamoStore


def test_an_outage_is_worked_off_at_its_pace_and_each_runs_once(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "local")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        settings = Settings(prefix="tickwork-outage")
        client = dynamodb_client()
        create_all(client, sqs_client(), settings)
        stage = Stage(Layout(shards=2, slices=1, pools=("default",), slice_capacity_per_s=50))
        tokens = itertools.count()
        stage.store = DynamoStore(client, settings.prefix, lambda: f"token-{next(tokens)}")  # type: ignore[assignment]
        stage.timers(15, NOW_MS + 5 * SECOND_MS)
        for n in range(15):
            stage.job(f"daily-{n}", {"rate": "1 day", "anchor": "2026-10-30T00:00:05Z"})
        stage.job("often", {"rate": "10 minutes", "anchor": "2026-10-30T00:05:00Z"}, CatchUp("all"))
        stage.job("newest", {"rate": "10 minutes", "anchor": "2026-10-30T00:05:00Z"})
        stage.at_ms = NOW_MS + HOUR_MS
        workers, late = Workers(), []
        for _ in range(8):
            stage.at_ms += SECOND_MS
            late.append(stage.process().window().late)
            stage.work(workers)
        assert not stage.lease().late_until
        assert late[:2] == [20, 10]
        assert len(workers.started) == len(set(workers.started)) == 15 + 15 + 6 + 1
        assert workers.dead_at_start == 0
