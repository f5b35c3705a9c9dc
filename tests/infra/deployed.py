"""The deployed service for an hour or less, in virtual time: what its functions say of themselves, minute by minute.

The flows are those of production over the stage's memory store, and what they count is published as
`tickwork.aws.signals` publishes it. What AWS says by itself (invocations, errors, ages of messages) is added here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.infra.alarm_evaluator import Series
from tests.scenarios.stage import Process, Stage
from tickwork.aws.common_metrics import EVERYWHERE, PUBLISHED, together_with
from tickwork.core.errors import TickworkError
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.ticking import issue_ticks
from tickwork.flows.watch.watching import watch
from tickwork.ports import Layout
from tickwork.settings import Environment

MINUTE_MS = 60_000
WARM_MIN = 30
"""Minutes before the play in which all is well."""

type Fault = Callable[[Process], object]
"""Scripts what goes wrong in a process, before it begins."""


@dataclass
class Play:
    """What runs, and what is wrong with each function from minute 0 on: a fault, or None for one that does not run."""

    environment: Environment
    minutes: int = 40
    faults: dict[str, Fault | None] = field(default_factory=dict)
    prepare: Callable[[Stage], object] = lambda _: None
    """Before the play: what the service has to do in it."""
    begin: Callable[[Stage], object] = lambda _: None
    """At minute 0."""
    each_minute: Callable[[Stage], object] = lambda _: None
    api: Callable[[Process], object] | None = None
    """What workers ask of the API in each minute of the play."""

    def __post_init__(self) -> None:
        self.stage = Stage(Layout(shards=8, slices=4, pools=("default", "payments")))
        self.series = Series(self.minutes)
        self._began_ms = self.stage.at_ms + WARM_MIN * MINUTE_MS

    def run(self) -> Series:
        self.prepare(self.stage)
        for minute in range(-WARM_MIN, self.minutes):
            if minute == 0:
                self.begin(self.stage)
            self._invoke("ticker", lambda process: issue_ticks(process.ports))
            self._invoke("watchdog", lambda process: watch(process.ports))
            if minute % 5 == 4:  # the last one just before the play: what only a pass can find waits longest
                self._invoke("reconciler", lambda process: reconcile(process.ports))
            self._scan(self._began_ms + (minute + 1) * MINUTE_MS)
            self.each_minute(self.stage)
            if self.api is not None and minute >= 0:
                self._invoke("api", self.api)
        return self.series

    def _scan(self, until_ms: int) -> None:
        """Scanners for each tick that is visible, until the minute is over."""
        while (next_ms := self.stage.next_tick_ms()) is not None and next_ms < until_ms and self._runs("scanner"):
            self.stage.at_ms = max(self.stage.at_ms, next_ms)
            self._invoke("scanner", self.stage.scan)
            self.stage.work()
        self.stage.at_ms = max(self.stage.at_ms, until_ms)

    def _runs(self, name: str) -> bool:
        return self.minute < 0 or self.faults.get(name, _nothing) is not None

    @property
    def minute(self) -> float:
        return (self.stage.at_ms - self._began_ms) / MINUTE_MS

    def _invoke(self, name: str, step: Callable[[Process], object]) -> None:
        fault = self.faults.get(name, _nothing) if self.minute >= 0 else _nothing
        if fault is None:
            return
        process = self.stage.process()
        process.ports = replace(process.ports, signals=_Published(self, name))
        fault(process)
        errors = 0
        try:
            step(process)
        except TickworkError:
            errors = 1
        for metric, value in (("Invocations", 1), ("Errors", errors)):
            function = f"{self.environment.settings().prefix}-{name}"
            self.series.add("AWS/Lambda", metric, function, self.minute, value)


class _Published:
    """Signals as PowertoolsSignals publishes them; the test of this module holds the two against each other."""

    def __init__(self, play: Play, service: str) -> None:
        self._play, self._service = play, service

    def count(self, metric: str, n: int = 1, **labels: str) -> None:
        self.observe(metric, n)

    def observe(self, metric: str, value: float, **labels: str) -> None:
        for name, service in published(self._service, metric, value):
            namespace = self._play.environment.settings().prefix
            self._play.series.add(namespace, name, service, self._play.minute, value)

    def log(self, action: str, **facts: object) -> None:
        pass


def published(service: str, metric: str, value: float) -> list[tuple[str, str]]:
    """(metric, service) of each figure that becomes of a measurement."""
    own = [(metric, service)] if metric in PUBLISHED else []
    return [*own, *((common, EVERYWHERE) for common in together_with(metric) if value > 0)]


def _nothing(_: Process) -> None:
    pass
