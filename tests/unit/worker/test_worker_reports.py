"""What a job raises is told, whatever it is; and what the platform will not have is told in fewer words (W13)."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.http import ApiUnderTest
from tests.support.runs_world import World
from tests.support.worker_bench import Bench, message, receipt, refused
from tickwork.core.ledger import lifecycle
from tickwork.worker import App, Context, FailPermanently, RetryLater


def bench_with(function: Callable[..., Any], **options: Any) -> Bench:
    app = App()
    app.job("job", **options)(function)
    return Bench(app)


def told_of(function: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """What the worker reports of a job; it has to be able to write it."""
    bench = bench_with(function, **options)
    bench.take(message())
    bench.run_all()
    (entry,) = bench.api.entries("/runs:complete")
    json.dumps(entry, allow_nan=False).encode()
    assert bench.active == []
    return entry


def raises(make: Callable[[], BaseException]) -> Callable[[Context], None]:
    def job(ctx: Context) -> None:
        raise make()

    return job


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("not even this")


class Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Numeric(Exception):
    def __str__(self) -> str:
        return 17  # type: ignore[return-value]


class Endless(Exception):
    def __str__(self) -> str:
        return str(self)


class Hidden(Exception):
    def __repr__(self) -> str:
        raise ValueError("nor this")

    __str__ = __repr__


class Own(BaseException):
    """Of a library that takes `except Exception` seriously: a timeout, a test's failure, a panic."""


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (Mute, "Mute: (it cannot be told: ValueError)"),
        (Deadly, "Deadly: (it cannot be told: SystemExit)"),
        (Numeric, "Numeric: (it cannot be told: TypeError)"),
        (Endless, "Endless: (it cannot be told: RecursionError)"),
        (Hidden, "Hidden: (it cannot be told: ValueError)"),
        (lambda: SystemExit(3), "SystemExit: 3"),
        (lambda: SystemExit(None), "SystemExit: None"),
        (KeyboardInterrupt, "KeyboardInterrupt: "),
        (GeneratorExit, "GeneratorExit: "),
        (asyncio.CancelledError, "CancelledError: "),
        (lambda: Own("mine"), "Own: mine"),
        (lambda: BaseExceptionGroup("two", [Own("a"), ValueError("b")]), "BaseExceptionGroup: two (2 sub-exceptions)"),
        (lambda: StopIteration("done"), "StopIteration: done"),
        (lambda: FileNotFoundError(2, "no", "caf\udce9"), "FileNotFoundError: [Errno 2] no: 'caf\\udce9'"),
        (lambda: ValueError("\ud800\x00\uffff"), "ValueError: \\ud800\\u0000\\uffff"),
    ],
)
def test_whatever_a_job_raises_is_its_attempts_failure(make: Callable[[], BaseException], text: str) -> None:
    told = told_of(raises(make))
    assert (told["outcome"], told["error"]) == ("failed", text)
    assert told["error_class"] == text.partition(":")[0]


def test_so_it_is_in_a_coroutine() -> None:
    async def job(ctx: Context) -> None:
        await asyncio.sleep(0)
        raise Own("mine")

    assert told_of(job)["error"] == "Own: mine"


def test_an_error_that_cannot_be_told_may_still_be_one_that_no_retry_can_help() -> None:
    assert told_of(raises(Mute), permanent=(Mute,))["outcome"] == "failed_permanent"


def test_a_payload_model_that_raises_what_it_likes_is_a_failure() -> None:
    class Picky:
        @classmethod
        def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
            from pydantic_core import core_schema

            def check(_: Any) -> Any:
                raise Own("never")

            return core_schema.no_info_plain_validator_function(check)

    def job(ctx: Context, payload: Picky) -> None: ...

    assert told_of(job, payload=Picky)["outcome"] == "failed"


@pytest.mark.parametrize(
    ("after_s", "told_s"),
    [(1.5, 2), (0.0, None), (-3, None), (math.inf, 86_400), (-math.inf, None), (math.nan, None), (10**400, 86_400)],
)
def test_any_wait_a_job_asks_for_is_told_in_whole_seconds(after_s: float, told_s: int | None) -> None:
    told = told_of(raises(lambda: RetryLater("later", after_s=after_s)))
    assert (told["outcome"], told.get("retry_after_s")) == ("failed", told_s)


@pytest.mark.parametrize("after_s", ["soon", None, object()])
def test_a_wait_that_is_no_number_is_a_failure_too(after_s: Any) -> None:
    assert told_of(raises(lambda: RetryLater("later", after_s=after_s)))["outcome"] == "failed"


# --- in fewer words -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 413, 422])
def test_of_a_report_that_is_refused_the_bare_outcome_is_told(status: int) -> None:
    bench = bench_with(raises(lambda: RetryLater("later", after_s=9)))
    bench.take(message())
    bench.api.fail["/runs:complete"] = [refused(status), None]
    bench.run_all()
    full, bare = bench.api.entries("/runs:complete")
    assert full["retry_after_s"] == 9
    assert bare == {"ref": "ref-r1", "token": 7, "outcome": "failed", "error": ""}
    assert bench.sqs.deleted == [receipt(message())]


def test_so_it_is_when_the_platform_could_not_read_this_entry_among_others() -> None:
    bench = bench_with(raises(lambda: FailPermanently("never")))
    bench.take(message("a"), message("b"))
    unread = {"accepted": False, "reason": "invalid", "discard": False, "detail": "x"}
    bench.api.answers["/runs:complete"] = lambda entry: unread if entry["error"] else {"accepted": True}
    while bench.submitted:
        bench.submitted.pop(0)()
    bench.report()
    bare = [entry for entry in bench.api.entries("/runs:complete") if not entry["error"]]
    assert [entry["outcome"] for entry in bare] == ["failed_permanent", "failed_permanent"]
    assert len(bench.sqs.deleted) == 2


def test_a_bare_outcome_that_is_refused_is_given_up() -> None:
    bench = bench_with(raises(ValueError))
    bench.take(message())
    bench.api.fail["/runs:complete"] = [refused(), refused(), None]
    bench.run_all()
    assert len(bench.api.entries("/runs:complete")) == 2
    assert (bench.sqs.deleted, bench.active) == ([], [])


def test_a_job_that_fails_by_a_file_name_of_bytes_is_retried_and_its_history_says_why() -> None:
    """The whole way: the SDK, the wire, the platform."""
    world = World()
    key = world.timer()
    token = world.must_start(key).token
    told = told_of(raises(lambda: RetryLater("caf\udce9", after_s=1.5)))
    api = ApiUnderTest(world.ports)
    body = {"runs": [told | {"ref": key.ref, "token": token}]}
    assert api.call("POST", "/runs:complete", body)[1]["runs"][0]["status"] == lifecycle.WAITING
    assert world.run(key).attempts[0]["error"] == "RetryLater: caf\\udce9"
