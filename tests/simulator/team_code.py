"""What a team's code does in a simulated worker: it takes its time, looks whether it has to stop, sometimes fails, and
sometimes does not listen. The checkers are told what it sees.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from tests.simulator.elements import BROKEN, FLAKY, NEW_HANDLER
from tests.simulator.threads import current, wait
from tickwork.core.ledger.keys import parse_ref
from tickwork.core.ledger.tables import TIMERS
from tickwork.testing.violation import Violation
from tickwork.worker.app import App
from tickwork.worker.context import Context, FailPermanently, Interrupted, LeaseLost, RetryLater, RunCancelled

if TYPE_CHECKING:
    from tests.simulator.world import World

_HAS_NEW_SHARE = 0.5
_STEP_MS = 1_500
_SLOW_SHARE = 0.15
"""Of the jobs: they take longer than a lease."""
_DEAF_SHARE = 0.3
"""Of the jobs: when their worker has to stop, they go on, as code does that waits in C."""
_STUBBORN_SHARE = 0.3
"""Of the jobs: when they are told that their lease is lost, they come to an end as if nothing was."""
_FAILS_SHARE, _PERMANENT_SHARE = 0.2, 0.03
_LAMBDA_SPARE_MS = 3_000 + 10_000
"""What a function keeps for its report, and what a slow answer of a start may have cost: it says how much of the lease
is left when it is given, and is trusted from when it was asked for."""


class Flaky(Exception):
    """A failure that may pass."""


class Broken(Exception):
    """A failure that may not."""


assert (Flaky.__name__, Broken.__name__) == (FLAKY, BROKEN)


def make_app(world: World, ends_ms: int = 0) -> App:
    """The handlers of one worker. `ends_ms`: when the function ends that it runs in."""
    app = App()
    job = _told(world, lambda ctx: _job(world, ctx, ends_ms))
    app.job("job")(job)
    if world.faults.off or world.apart.random() < _HAS_NEW_SHARE:
        app.job(NEW_HANDLER)(job)
    return app


def _told(world: World, job: Callable[[Context], None]) -> Callable[[Context], None]:
    """The job, and how its function has ended, for the checkers."""

    def told(ctx: Context) -> None:
        ends, attempt = world.checks.duties.ends, (ctx.run_id, ctx.token)
        world.checks.duties.begins(current(), ctx)
        try:
            job(ctx)
        except tuple(_STOPPED) as signal:
            ends(attempt, _STOPPED[type(signal)])
            raise
        except Exception as error:
            ends(attempt, "failed_permanent" if isinstance(error, FailPermanently) else "failed", type(error).__name__)
            raise
        ends(attempt, "succeeded")

    return told


_STOPPED: dict[type[BaseException], str] = {Interrupted: "interrupted", RunCancelled: "cancelled", LeaseLost: "lost"}


def _job(world: World, ctx: Context, ends_ms: int) -> None:
    rng = world.apart
    if not isinstance(ctx.payload, dict) or ctx.payload.get("n") != 1:
        world.fail(Violation("payload", f"{ctx.run_id} got {ctx.payload!r}"))
    _check_fence(world, ctx)
    slow = world.faults.strikes(world.rng, "slow_worker") or (not world.faults.off and rng.random() < _SLOW_SHARE)
    left_ms = rng.choice((30_000, 90_000, 160_000)) if slow else rng.randint(20, 2_500)
    is_stubborn = rng.random() < _STUBBORN_SHARE
    is_deaf = Random(f"deaf {ctx.run_id} {ctx.token}").random() < _DEAF_SHARE
    try:
        while left_ms > 0:
            _step(world, ctx, ends_ms, min(left_ms, _STEP_MS))
            left_ms -= _STEP_MS
            world.checks.workers.works((ctx.run_id, ctx.token))
            world.checks.duties.works((ctx.run_id, ctx.token))
    except LeaseLost:
        if not is_stubborn:
            raise
        world.seen["real job ended without its lease"] += 1
        return
    except Interrupted:
        world.checks.duties.is_interrupted((ctx.run_id, ctx.token))
        if not is_deaf:
            raise
        world.seen["real job went on"] += 1
        wait([], left_ms / 1_000)
    _end(world, ctx, rng.random())


def _end(world: World, ctx: Context, drawn: float) -> None:
    """It ends, one way or another."""
    if world.faults.off or drawn >= _FAILS_SHARE:
        world.seen["real job done"] += 1
        return
    if drawn < _PERMANENT_SHARE:
        world.checks.workers.gave_up.add((ctx.run_id, ctx.token))
        raise FailPermanently("it is broken for good")
    if drawn < _PERMANENT_SHARE * 2:
        raise RetryLater("not now", after_s=world.apart.choice((1, 20)))
    raise Flaky("it may pass") if drawn < _FAILS_SHARE / 2 else Broken("it broke")


def _step(world: World, ctx: Context, ends_ms: int, takes_ms: int) -> None:
    """Some of a job's work: a signal strikes it in its midst. Nothing beats in a function: its lease must last as long
    as it does, or what takes longer is never done."""
    try:
        wait([], takes_ms / 1_000)
        ctx.check()
    except LeaseLost:
        world.checks.workers.was_stopped((ctx.run_id, ctx.token))
        items = [item for item in world.tables.items(TIMERS) if "token" in item and _run_id(item) == ctx.run_id]
        # It was limited, or is another's by now: then it may have been, of which the run says nothing any more.
        limited = any(item.get("stop_at_ms") or item["token"] > ctx.token for item in items)
        limited |= any(item["status"] != "running" for item in items)  # it was ended for the time it took
        # What is left of a lease counts from when it was asked for.
        limited |= "slow_answer" in world.classes or world.checks.workers.was_slow((ctx.run_id, ctx.token))
        if world.kernel.now_ms + _LAMBDA_SPARE_MS < ends_ms and not limited:
            what = f"{ctx.run_id} was stopped for its lease {ends_ms - world.kernel.now_ms} ms before its function ends"
            world.fail(Violation("bounded-attempts", what))
        raise


def _run_id(item: dict[str, Any]) -> str:
    return parse_ref(f"{item['pk']}|{item['sk']}").run_id


def _check_fence(world: World, ctx: Context) -> None:
    """Fences are compared as text: that of any later attempt is greater (W10)."""
    later = [replace(ctx, token=ctx.token + more).fence for more in (1, 9, 90, 900)]
    if sorted({ctx.fence, *later}) != [ctx.fence, *later]:
        world.fail(Violation("one-owner-effect", f"the fences of {ctx.run_id} are out of order: {ctx.fence}, {later}"))
