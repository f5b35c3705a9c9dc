"""The worker SDK: register job functions, and run them in a process that pulls from a pool's ready queue.

    app = App()

    @app.job("settlement")
    def settle(ctx: Context, payload: Settlement) -> None:
        ...  # a no-op when ctx.run_id was settled before

`tickwork worker my_module:app --pool payments` runs it. The guide is docs/workers.md.
"""

from tickwork.worker.app import App
from tickwork.worker.context import Context, FailPermanently, Interrupted, LeaseLost, RetryLater, RunCancelled

__all__ = ["App", "Context", "FailPermanently", "Interrupted", "LeaseLost", "RetryLater", "RunCancelled"]
