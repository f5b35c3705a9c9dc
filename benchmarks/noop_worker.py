"""A worker whose job does nothing: what is measured is the way to it."""

from __future__ import annotations

from tickwork.worker import App, Context

app = App()


@app.job("noop")
def noop(ctx: Context) -> None:
    """Does nothing."""
