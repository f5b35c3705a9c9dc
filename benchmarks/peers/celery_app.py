"""Celery with Redis: one-shots are tasks with an ETA. As a program, `create ...` (see load.py).

As its manual advises for tasks that must not be lost: acknowledged when they have run, given back by Redis when
VISIBILITY_S has passed. CELERY_AS_IT_COMES=1 leaves its defaults.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime

from celery import Celery

from benchmarks.peers.effects import effect
from benchmarks.peers.load import create_load

VISIBILITY_S = 90
"""Must be longer than the furthest ETA from when it was created, or tasks run twice."""

app = Celery("peers", broker=os.environ["BROKER"])
app.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
if "CELERY_AS_IT_COMES" not in os.environ:
    app.conf.update(
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        # Looked at every 10 s, instead of every 100.
        broker_transport_options={"visibility_timeout": VISIBILITY_S, "unacked_restore_throttle": 1},
    )


@app.task(name="effect")
def effect_task(timer: str, due_ms: int) -> None:
    effect(timer, due_ms)


def create(timers: Sequence[tuple[str, int]]) -> None:
    for timer, due_ms in timers:
        effect_task.apply_async((timer, due_ms), eta=datetime.fromtimestamp(due_ms / 1_000, UTC))


if __name__ == "__main__":
    create_load(create)
