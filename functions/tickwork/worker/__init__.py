"""The worker SDK: register job functions, and run them in a process that pulls from a pool's ready queue.

    app = App()

    @app.job("settlement")
    def settle(ctx: Context) -> None:
        ...  # a no-op when ctx.run_id was settled before

`tickwork worker my_module:app --pool payments` runs it.
"""

from tickwork.worker.app import App, Context, FailPermanently, LeaseLost

__all__ = ["App", "Context", "FailPermanently", "LeaseLost"]
