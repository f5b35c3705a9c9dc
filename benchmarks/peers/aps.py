"""APScheduler 3 with its SQLAlchemy job store: `fill <count> <due_ms>`, or `run` the scheduler."""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime

from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.background import BackgroundScheduler

from benchmarks.peers.effects import effect

scheduler = BackgroundScheduler(
    jobstores={"default": SQLAlchemyJobStore(url=f"sqlite:///{os.environ['EFFECTS']}.jobs")},
    job_defaults={"misfire_grace_time": None, "coalesce": False},
    timezone=UTC,
)
if sys.argv[1] == "fill":
    count, due_ms = int(sys.argv[2]), int(sys.argv[3])
    scheduler.start(paused=True)
    for i in range(count):
        scheduler.add_job(effect, "date", run_date=datetime.fromtimestamp(due_ms / 1_000, UTC), args=[str(i), due_ms])
    scheduler.shutdown()
else:
    scheduler.start()
    while True:
        time.sleep(1)
