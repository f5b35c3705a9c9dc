"""Celery with Redis: one-shots are tasks with an ETA. As a program, `fill <count> <due_ms>`."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime

from celery import Celery

from benchmarks.peers.effects import effect

app = Celery("peers", broker=os.environ["BROKER"])
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)


@app.task(name="effect")
def effect_task(timer: str, due_ms: int) -> None:
    effect(timer, due_ms)


if __name__ == "__main__":
    count, due_ms = int(sys.argv[2]), int(sys.argv[3])
    for i in range(count):
        effect_task.apply_async((str(i), due_ms), eta=datetime.fromtimestamp(due_ms / 1_000, UTC))
