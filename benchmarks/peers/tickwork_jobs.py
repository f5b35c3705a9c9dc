"""tickwork's worker for the comparison."""

from __future__ import annotations

from benchmarks.peers.effects import effect
from tickwork.worker import App, Context

app = App()


@app.job("effect")
def run_effect(ctx: Context) -> None:
    effect(ctx.job_id, round(ctx.fire_at.timestamp() * 1_000))
