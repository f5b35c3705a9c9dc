"""APScheduler 3 with its SQLAlchemy job store: `create ...` (see load.py), or `run <slots>`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from benchmarks.peers.effects import effect
from benchmarks.peers.load import create_load

is_running = sys.argv[1] == "run"
scheduler = BackgroundScheduler(
    jobstores={"default": SQLAlchemyJobStore(url=f"sqlite:///{os.environ['EFFECTS']}.jobs")},
    executors={"default": ThreadPoolExecutor(int(sys.argv[2]) if is_running else 1)},
    job_defaults={"misfire_grace_time": None, "coalesce": False},
    timezone=UTC,
)


def create(timers: Sequence[tuple[str, int]]) -> None:
    for timer, due_ms in timers:
        scheduler.add_job(effect, "date", run_date=datetime.fromtimestamp(due_ms / 1_000, UTC), args=[timer, due_ms])


scheduler.start(paused=not is_running)
if is_running:
    while True:
        time.sleep(1)
create_load(create)
scheduler.shutdown()
