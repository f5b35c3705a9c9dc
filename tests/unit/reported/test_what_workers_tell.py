"""Reports of what a worker says of a run: a failure that is told is recorded, an end is told as long as its lease
holds, and a run whose handler a worker lacks is left untouched. From the SDK's worker to the platform's answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.actions.world import Held, World
from tests.support.worker_bench import FakeApi
from tests.unit.reported.reports import holds
from tests.unit.reported.sdk import SdkWorker
from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.core.instants import SECOND_MS
from tickwork.worker import App, Context, FailPermanently
from tickwork.worker.lambdas import lambda_handler

TIMER = {"team": "shop", "delay_s": 1, "target": {"pool": "default", "handler": "job"}}
ERROR_MAX = 200
"""Characters of an error that the ledger keeps (docs/worker-protocol.md)."""


def timer(world: World, **more: Any) -> dict[str, Any]:
    made = world.must("POST", "/timers", TIMER | more)
    world.go(2)
    return dict(made)


def run_of(world: World, made: dict[str, Any]) -> dict[str, Any]:
    return dict(world.must("GET", f"/runs/{made['timer_id']}"))


def app_of(function: Callable[[], object]) -> App:
    app = App()

    @app.job("job")
    def job(ctx: Context) -> None:
        function()

    return app


def raising(error: Callable[[], BaseException]) -> App:
    def fails() -> None:
        raise error()

    return app_of(fails)


# --- R2-O-04 ----------------------------------------------------------------------------------------------------------

HALF = "b\udce4r.txt"
SURROGATES: dict[str, Callable[[], BaseException]] = {
    "a file name of bytes": lambda: FailPermanently(f"file {HALF} is not there"),
    "the halves the wrong way round": lambda: RuntimeError("\udc80\ud800"),
    "of the system": lambda: FileNotFoundError(2, "No such file", HALF),
    "in a group": lambda: ExceptionGroup("several", [OSError(HALF)]),
    "in the name of its class": lambda: type(f"Bad{chr(0xDC80)}", (Exception,), {})("x"),
    "what XML refuses": lambda: ValueError("\x00\x0b\ufffe\uffff"),
}


@holds("R2-O-04")
@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("attempts", [1, 2])
def test_a_failure_of_any_text_is_recorded_and_the_job_called_no_more_than_it_allows(name: str, attempts: int) -> None:
    world = World()
    made = timer(world, retry_policy={"max_attempts": attempts, "base_s": 5, "jitter_percent": 0})
    worker = SdkWorker(world, raising(SURROGATES[name]))
    for _ in range(attempts + 1):
        worker.turn()
        world.go(30)
    run = run_of(world, made)
    expected = 1 if "file name" in name else attempts
    assert (run["status"], run["attempt"]) == ("dead", expected)
    outcomes = [one["outcome"] for one in run["attempts"]]
    assert set(outcomes) <= {"failed", "failed_permanent"}, "none was lost"
    assert run["attempts"][0]["error"]
    json.dumps(run).encode()


# --- R2-O-06 ----------------------------------------------------------------------------------------------------------

REPORTS: dict[str, dict[str, Any]] = {
    "an error of 10,001 characters": {"error": "x" * 10_001},
    "an error of a megabyte": {"error": "ä" * 500_000},
    "a class of 81 characters": {"error": "x", "error_class": "E" * 81},
    "a wait of one and a half seconds": {"error": "x", "retry_after_s": 1.5},
    "a wait that never ends": {"error": "x", "retry_after_s": 10**30},
    "a wait in words": {"error": "x", "retry_after_s": "soon"},
    "an error that is none": {"error": {"code": 5}},
    "no error at all": {},
    "a stack with emoji at the cut": {"error": "\U0001f4a5" * 10_001},
}


def _report(world: World, held: Held, more: dict[str, Any]) -> dict[str, Any]:
    entry = held.named(outcome="failed", **more)
    (told,) = world.must("POST", "/runs:complete", {"runs": [entry]})["runs"]
    return dict(told)


@holds("R2-O-06")
@pytest.mark.parametrize("name", REPORTS)
def test_a_failure_of_any_length_is_accepted_and_cut(name: str) -> None:
    world = World()
    made = timer(world, retry_policy={"max_attempts": 1})
    (held,) = world.take()
    assert _report(world, held, REPORTS[name])["status"] == "dead"
    (attempt,) = run_of(world, made)["attempts"]
    assert attempt["outcome"] == "failed"
    assert len(attempt["error"]) <= ERROR_MAX
    world.go(3_600)
    assert world.take() == [], "it is not called again"


LONG: dict[str, Callable[[], BaseException]] = {
    "100,000 characters": lambda: RuntimeError("y" * 100_000),
    "emoji": lambda: RuntimeError("\U0001f4a5" * 5_000),
    "a class name of 200": lambda: type("E" * 200, (Exception,), {})("x"),
    "its text is a list": lambda: RuntimeError(["y"] * 50_000),
}


@holds("R2-O-06")
@pytest.mark.parametrize("name", LONG)
def test_so_is_one_that_the_sdk_tells(name: str) -> None:
    world = World()
    made = timer(world, retry_policy={"max_attempts": 1})
    worker = SdkWorker(world, raising(LONG[name]))
    worker.turn()
    assert len(worker.api.of("/runs:complete")) == 1
    (attempt,) = run_of(world, made)["attempts"]
    assert (attempt["outcome"], run_of(world, made)["status"]) == ("failed", "dead")


# --- R2-O-08 ----------------------------------------------------------------------------------------------------------


def _unreachable() -> Exception:
    return ApiUnreachable("503")


def _expired_credentials() -> Exception:
    return ApiRefused(403, {"detail": "the token has expired"})


AWAY = {"503": _unreachable, "credentials that are about to change": _expired_credentials}


def _blocked(worker: SdkWorker, world: World, paths: tuple[str, ...], error: Callable[[], Exception], s: float) -> None:
    until_ms = world.at_ms + int(s * SECOND_MS)

    def fails(path: str) -> None:
        if path in paths and world.at_ms < until_ms:
            raise error()

    worker.api.fails = fails


@holds("R2-O-08")
@pytest.mark.parametrize("name", AWAY)
@pytest.mark.parametrize(("lease_s", "away_s"), [(300, 32), (300, 290), (60, 32), (60, 400)])
def test_an_end_is_told_as_long_as_the_lease_holds_and_the_work_done_once(
    name: str, lease_s: int, away_s: float
) -> None:
    """Heartbeats are let through: they hold the lease beyond its first length."""
    world, done = World(), []
    made = timer(world, lease_s=lease_s)
    worker = SdkWorker(world, app_of(lambda: done.append(1)), lease_s=lease_s)
    _blocked(worker, world, ("/runs:complete",), AWAY[name], away_s)
    worker.turn()
    run = run_of(world, made)
    assert (run["status"], run["attempt"], done) == ("succeeded", 1, [1])


@holds("R2-O-08")
def test_several_that_end_in_it_are_each_told_once() -> None:
    world, done = World(), []
    mades = [timer(world, lease_s=300) for _ in range(4)]
    worker = SdkWorker(world, app_of(lambda: done.append(1)), lease_s=300)
    _blocked(worker, world, ("/runs:complete",), _unreachable, 45)
    worker.turn()
    assert [run_of(world, made)["status"] for made in mades] == ["succeeded"] * 4
    assert len(done) == 4


@holds("R2-O-08")
def test_one_that_outlasts_its_lease_is_lost_and_says_so() -> None:
    """Nothing holds the lease: whoever takes the run next may have begun."""
    world, done = World(), []
    made = timer(world, lease_s=60)
    worker = SdkWorker(world, app_of(lambda: done.append(1)), lease_s=60)
    _blocked(worker, world, ("/runs:complete", "/runs:heartbeat"), _unreachable, 70)
    worker.turn()
    assert run_of(world, made)["status"] == "running"
    world.go(120)
    worker.turn()
    run = run_of(world, made)
    assert (run["status"], [one["outcome"] for one in run["attempts"]][:1], len(done)) == ("succeeded", ["lost"], 2)


# --- R2-O-17 ----------------------------------------------------------------------------------------------------------

POLICIES: dict[str, dict[str, Any]] = {
    "one attempt": {"retry_policy": {"max_attempts": 1}},
    "unsafe": {"idempotency_class": "unsafe", "unsafe_sign_off": {"who": "ann", "why": "the bank says so"}},
    "as usual": {},
}


@holds("R2-O-17")
@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("olds", [1, 3])
def test_a_worker_of_the_old_release_leaves_a_run_untouched_for_one_of_the_new(name: str, olds: int) -> None:
    world, done = World(), []
    made = timer(world, **POLICIES[name])
    other = App()
    other.job("another")(lambda ctx: None)
    old = [SdkWorker(world, other) for _ in range(olds)]
    for _ in range(20):
        for worker in old:
            worker.turn()
        world.go(10)
    assert (run_of(world, made)["status"], run_of(world, made)["attempt"]) == ("queued", 0)
    world.go(301)
    SdkWorker(world, app_of(lambda: done.append(1))).turn()
    run = run_of(world, made)
    assert (run["status"], run["attempt"], done) == ("succeeded", 1, [1])


@holds("R2-O-17")
def test_a_lambda_worker_without_the_handler_starts_nothing_and_lets_the_message_come_again() -> None:
    world = World()
    made = timer(world, retry_policy={"max_attempts": 1})
    api = FakeApi()
    handler = lambda_handler(App(), api=api)  # type: ignore[arg-type]

    class Invocation:
        function_name, aws_request_id = "old", "request-1"

        def get_remaining_time_in_millis(self) -> int:
            return 100_000

    (message,) = [one.body for one in world.queue.messages]
    record = {"messageId": "0", "receiptHandle": "r", "body": message, "attributes": {"ApproximateReceiveCount": "1"}}
    answer = handler({"Records": [record]}, Invocation())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "0"}]}
    assert api.of("/runs:start") == []
    assert run_of(world, made)["attempt"] == 0
