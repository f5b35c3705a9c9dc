"""tickwork's worker for the comparison. As a program, `create ...` (see load.py) through the HTTP API."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.peers.effects import effect
from benchmarks.peers.load import create_load
from tickwork.client import ApiClient
from tickwork.core.instants import iso
from tickwork.worker import App, Context

PER_CALL = 100

app = App()
api = ApiClient(auth="none")


@app.job("effect")
def run_effect(ctx: Context) -> None:
    effect(**ctx.payload)


def create(timers: Sequence[tuple[str, int]]) -> None:
    target = {"pool": "default", "handler": "effect"}
    bodies = [
        {"team": "bench", "target": target, "at": iso(due_ms), "payload": {"timer": timer, "due_ms": due_ms}}
        for timer, due_ms in timers
    ]
    api.call("POST", "/timers:batch", {"timers": bodies})


if __name__ == "__main__":
    create_load(create, PER_CALL)
