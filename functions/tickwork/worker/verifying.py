"""The double-delivery harness: runs a job's code as the platform may, and compares what it did with what it should.

Once is the measure. Then, each with a run_id of its own: delivered twice, as when a worker dies before its complete;
and crashed right after each effect that can be seen happening, then delivered again. The effects must be the same.
Nothing is mocked: the effects are those of the job's own code, on whatever test system it is pointed at.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tickwork.worker.app import App
from tickwork.worker.calling import call_job
from tickwork.worker.delivery import Delivery
from tickwork.worker.effects import Effects, HttpEffects, RecordedEffects

CRASH_POINTS_MAX = 10
"""A job with more effects than this is crashed after the first ten."""
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?")


class Crash(BaseException):
    """The worker process is gone, as far as the job can tell."""

    ends_process = True


@dataclass(frozen=True, slots=True)
class Difference:
    """What a way of delivery did otherwise than a single delivery: effects too many, and effects missing."""

    delivery: str
    extra: Counter[str]
    missing: Counter[str]
    failed: str = ""
    """How the last attempt failed, if it did."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. `ok` says that every delivery had the effects of one; without any effect nothing is proven."""

    job: str
    effects: Counter[str]
    deliveries: tuple[str, ...]
    differences: tuple[Difference, ...]
    source: str

    @property
    def ok(self) -> bool:
        return bool(self.effects) and not self.differences

    def lines(self) -> list[str]:
        lines = [f"{self.job}: one delivery has {sum(self.effects.values())} effect(s)"]
        lines += [f"    {text}" for text in sorted(self.effects.elements())]
        if not self.effects:
            lines.append("  no effect was seen, so nothing is proven: name where they are to be seen")
        for delivery in self.deliveries:
            found = next((one for one in self.differences if one.delivery == delivery), None)
            lines.append(f"  {'same     ' if found is None else 'DIFFERENT'} when {delivery}")
            if found is not None:
                lines += [f"    + {text}" for text in sorted(found.extra.elements())]
                lines += [f"    - {text}" for text in sorted(found.missing.elements())]
                lines += [f"    ! {found.failed}"] if found.failed else []
        return lines

    def to_json(self, now: datetime) -> dict[str, Any]:
        """A certificate: what was run, on which code, and what came of it."""
        return {
            "job": self.job,
            "ok": self.ok,
            "verified_at": now.astimezone(UTC).isoformat(timespec="seconds"),
            "source_sha256": self.source,
            "effects": sum(self.effects.values()),
            "deliveries": list(self.deliveries),
            "different": [one.delivery for one in self.differences],
        }


def verify(app: App, job: str, payload: Any = None, effects: Sequence[Effects] = ()) -> Report:
    """Run the job in each of the ways. ValueError when one delivery alone fails: there is nothing to compare with. Each
    call has run_ids of its own: what an earlier one has left behind is no duplicate of this one's."""
    harness = _Harness(app, job, payload, effects, uuid.uuid4().hex)
    once = harness.observe("delivered once", lambda run: run(1))
    if once.failed:
        raise ValueError(f"delivered once, the job fails already: {once.failed}")
    points = min(CRASH_POINTS_MAX, harness.happened)

    def twice(run: Callable[[int], None]) -> None:
        run(1)
        run(2)

    ways: list[tuple[str, Callable[[Callable[[int], None]], None], int]] = [
        ("delivered twice", twice, 0),
        *((f"crashed after effect {k} and delivered again", twice, k) for k in range(1, points + 1)),
    ]
    seen = [(name, harness.observe(name, way, crash_after=k)) for name, way, k in ways]
    differences = [
        Difference(name, found.effects - once.effects, once.effects - found.effects, found.failed)
        for name, found in seen
        if found.failed or found.effects != once.effects
    ]
    source = hashlib.sha256(_source(app.find(job).function).encode()).hexdigest()
    return Report(job, once.effects, tuple(name for name, _, _ in ways), tuple(differences), source)


@dataclass(slots=True)
class _Observed:
    effects: Counter[str]
    failed: str


class _Harness:
    def __init__(self, app: App, job: str, payload: Any, effects: Sequence[Effects], unique: str) -> None:
        self._app, self._job, self._payload, self._effects, self._unique = app, job, payload, effects, unique
        self.happened = 0
        """Effects seen happening in the last attempt: after each of them it can be crashed."""
        self._hooks = [one for one in effects if isinstance(one, RecordedEffects | HttpEffects)]

    def observe(self, way: str, deliver: Callable[[Callable[[int], None]], None], crash_after: int = 0) -> _Observed:
        """The effects of one run that is delivered in this way, under names that are the same for every run."""
        run_id = hashlib.sha256(f"{self._job}|{way}|{self._unique}".encode()).hexdigest()[:32]
        failures: list[str] = []
        before = self._seen()

        def run(attempt: int) -> None:
            with self._crashing(crash_after if attempt == 1 else 0):
                failed = self._attempt(run_id, attempt)
            if failed is not None:
                failures[:] = [failed] if failed else []

        with contextlib.ExitStack() as stack:
            for effects in self._effects:
                if isinstance(effects, HttpEffects):
                    stack.enter_context(effects.watching())
            deliver(run)
        return _Observed(_named(self._seen() - before, run_id), failures[0] if failures else "")

    def _attempt(self, run_id: str, attempt: int) -> str | None:
        """How it failed; "" when it succeeded; None when it crashed."""
        body = {
            "ref": "verify",
            "run_id": run_id,
            "job_id": f"verify:{self._job}",
            "scheduled_at": "2026-01-01T00:00:00Z",
            "fire_at": "2026-01-01T00:00:00Z",
            "handler": self._job,
        }
        delivery = Delivery.of("", body | {"payload": self._payload}, "verify")
        delivery.token = delivery.attempt = attempt
        try:
            outcome = call_job(self._app, delivery)
        except Crash:
            return None
        assert outcome is not None
        return "" if outcome.outcome == "succeeded" else f"the attempt {outcome.outcome}: {outcome.error}"

    @contextlib.contextmanager
    def _crashing(self, after: int) -> Iterator[None]:
        """In here the process is gone after so many effects: every later one crashes too, also in a `finally`."""
        self.happened = 0

        def count() -> None:
            self.happened += 1
            if after and self.happened >= after:
                raise Crash

        for hook in self._hooks:
            hook.after_effect = count
        try:
            yield
        finally:
            for hook in self._hooks:
                hook.after_effect = lambda: None

    def _seen(self) -> Counter[str]:
        return sum((effects.seen() for effects in self._effects), Counter())


def _named(effects: Counter[str], run_id: str) -> Counter[str]:
    named: Counter[str] = Counter()
    for text, count in effects.items():
        named[_TIME.sub("<time>", text.replace(run_id, "<run_id>"))] += count
    return named


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except OSError:
        return repr(function)
