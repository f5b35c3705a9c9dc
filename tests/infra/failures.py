"""Each kind of failure, played or as AWS would tell it, and who hears of it within how many minutes.

`python -m tests.infra.failures` prints the table of docs/operations.md; the test beside this holds the page to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from tempfile import mkdtemp
from typing import Any

from aws_cdk.assertions import Template

from tests.infra.alarm_evaluator import Series, alarms_of, evaluate
from tests.infra.deployed import Fault, Play
from tests.scenarios.stage import Call, Process, Stage
from tests.simulator.failures import OTHERS, TOUCHED, Report, run_failure
from tickwork.aws.common_metrics import ATTENTION, STRAIN
from tickwork.core.errors import InvariantViolated, Throttled
from tickwork.core.ledger.tables import JOBS, LEASES, TIMERS
from tickwork.core.ledger.writes import Anyway, Delete, Put, Update
from tickwork.core.runs.attempts import StartRequest
from tickwork.flows.runs import worker_calls
from tickwork.ports import TICKS_QUEUE, OutMessage, SendReport
from tickwork.settings import ENVIRONMENTS

FOR_EVER = 1_000_000
MINUTES = 20
"""Longer than the slowest alarm takes."""
PROD = ENVIRONMENTS["prod"]
PREFIX = PROD.settings().prefix
HUNG = "a worker whose job hangs"
ON_PURPOSE = Anyway("the test breaks it")


@dataclass(frozen=True, slots=True)
class Failure:
    """`alarm` is the one it is told by, `within` the minutes; `few` the same in an environment with the fewest alarms
    (None: nobody but the log). `told` is AWS's own figure of it: (namespace, metric, dimension, value in each minute).
    """

    what: str
    alarm: str
    within: int
    few: tuple[str, int] | None
    faults: dict[str, Fault | None] = field(default_factory=dict)
    begin: Callable[[Stage], object] = lambda _: None
    each_minute: Callable[[Stage], object] = lambda _: None
    api: Callable[[Process], object] | None = None
    told: Sequence[tuple[str, str, str, Callable[[float], float]]] = ()
    minutes: int = MINUTES

    def series(self) -> Series:
        play = Play(
            PROD,
            self.minutes,
            faults=self.faults,
            prepare=work,
            begin=self.begin,
            each_minute=self.each_minute,
            api=self.api,
        )
        series = play.run()
        for namespace, metric, dimension, value in self.told:
            for minute in range(series.minutes):
                series.add(namespace, metric, dimension, minute + 0.5, value(minute + 0.5))
        return series


def work(stage: Stage) -> None:
    """What is due in the play: a timer in each quarter of a minute, and jobs of two pools."""
    for n in range(4 * 70):
        stage.timers(1, stage.at_ms + 15_000 * n)
    stage.job("each-minute", {"cron": "* * * * *"})
    stage.job("paid", {"rate": "30 seconds"}, pool="payments")


type Told = list[tuple[str, str, str, Callable[[float], float]]]


def told(namespace: str, metric: str, dimension: str, value: float = 1) -> Told:
    return [(namespace, metric, dimension, lambda _: value)]


def ageing(queue: str) -> Told:
    """The oldest message of a queue that nobody takes from."""
    return [("AWS/SQS", "ApproximateAgeOfOldestMessage", f"{PREFIX}-{queue}", lambda minute: minute * 60)]


# --- faults -------------------------------------------------------------------------------------------------------


def raises(error: type[Exception], *verbs: str, table: str = "", having: str = "") -> Fault:
    """Every such call of the process fails."""

    def is_hit(call: Call) -> bool:
        return call.verb in verbs and call.what.startswith(table) and having in str(call.detail)

    def fail() -> None:
        raise error("planted")

    return lambda process: process.before(is_hit, fail, FOR_EVER)


def takes_nothing(queue: str, report: Callable[[int], SendReport]) -> Fault:
    def fault(process: Process) -> None:
        def answer() -> None:
            call = process.calls[-1]
            process.results[call.n] = report(len(call.detail))

        process.before(lambda call: (call.verb, call.what) == ("send", queue), answer, FOR_EVER)

    return fault


def _denied(count: int) -> SendReport:
    return SendReport(failed=tuple(range(count)), why="AccessDenied")


def _gone(count: int) -> SendReport:
    return SendReport(refused=tuple((n, "the queue does not exist") for n in range(count)))


def held_for_ever(stage: Stage) -> None:
    """The lease of a slice says that somebody has it, and goes on saying so: nothing fails, nothing moves."""
    (item, *_) = stage.store.items(LEASES)
    until_ms = stage.at_ms + 86_400_000
    stage.store.commit([Put(LEASES, {**item, "owner": "nobody", "lease_until_ms": until_ms}, ON_PURPOSE)])


def garbled(*changes: tuple[str, Any]) -> Callable[[Stage], object]:
    def garble(stage: Stage) -> None:
        item = next(item for item in stage.store.items(JOBS) if "each-minute" in item["job_id"])
        stage.store.commit([Put(JOBS, {**item, **dict(changes)}, ON_PURPOSE)])

    return garble


def vanished(stage: Stage) -> None:
    """The next occurrence of a job is deleted by hand."""
    key = stage.get_job("shop:each-minute").next_key(stage.layout.cell)
    assert key is not None
    stage.store.commit([Delete(TIMERS, key.as_item(), ON_PURPOSE)])


def slipped_behind(stage: Stage) -> None:
    """A pending timer stands behind the cursor, where no window looks again."""
    (key,) = stage.timers(1, stage.at_ms + 3_600_000)
    item = stage.store.get(TIMERS, key.as_item())
    assert item is not None
    passed = replace(key, fire_at_ms=stage.at_ms - 120_000)
    stage.store.commit([Put(TIMERS, {**item, **passed.as_item()}, ON_PURPOSE)])


def hangs(stage: Stage) -> None:
    """A worker has been at a timer for longer than a day."""
    (key,) = stage.timers(1, stage.at_ms)
    worker_calls.start(stage.process().ports, StartRequest(key, "claim-of-a-hung-one", HUNG, 900))
    began = {"started_at_ms": stage.at_ms - 25 * 3_600_000}
    stage.store.commit([Update(TIMERS, key.as_item(), ON_PURPOSE, set=began)])


def beats(process: Process) -> None:
    """What hangs in its thread keeps its worker from nothing: it beats."""
    (run,) = [run for run in process.stage.runs() if run.worker == HUNG]
    worker_calls.heartbeat(process.ports, run.key, run.token, 900)


def contended(process: Process) -> None:
    """Somebody changes the job between each read and each step."""

    def change() -> None:
        job = process.stage.store.get(JOBS, {"job_id": "shop:each-minute"})
        assert job is not None
        process.stage.store.commit([Put(JOBS, {**job, "version": job["version"] + 1}, ON_PURPOSE)])

    def is_step(call: Call) -> bool:
        return call.verb == "commit" and any(
            write.table == JOBS and "each-minute" in str(getattr(write, "key", "")) for write in call.detail
        )

    process.before(is_step, change, FOR_EVER)


def poisoned(stage: Stage) -> None:
    """An item that only a newer version can read, due in a minute."""
    (key,) = stage.timers(1, stage.at_ms + 60_000)
    item = stage.store.get(TIMERS, key.as_item())
    assert item is not None
    stage.store.commit([Put(TIMERS, {**item, "work": 7}, ON_PURPOSE)])


def ahead(stage: Stage) -> None:
    """A host a minute ahead has announced its window."""
    (item, *_) = stage.store.items(LEASES)
    stage.store.commit([Put(LEASES, {**item, "closing": stage.at_ms // 1_000 + 120}, ON_PURPOSE)])


def no_tick(stage: Stage) -> None:
    stage.put(TICKS_QUEUE, [OutMessage("[[[")])


FAILURES = (
    Failure("no ticker", "ticker-silent", 7, ("ticker-silent", 7), {"ticker": None}),
    Failure(
        "the ticker fails in every run",
        *("ticker-silent", 7, ("ticker-silent", 7)),
        {"ticker": raises(InvariantViolated, "get", table="leases")},
    ),
    Failure("no scanner", "slice-stands", 6, ("slice-stands", 6), {"scanner": None}),
    Failure(
        "the scanner fails in every run",
        *("slice-stands", 6, ("slice-stands", 6)),
        {"scanner": raises(InvariantViolated, "get", table="leases")},
    ),
    Failure(
        "scanners are refused for lack of concurrency",
        *("slice-stands", 6, ("slice-stands", 6)),
        {"scanner": None},
        told=told("AWS/Lambda", "Throttles", f"{PREFIX}-scanner", 9),
    ),
    Failure("one slice of several stands", "slice-stands", 6, ("slice-stands", 6), begin=held_for_ever),
    Failure("no reconciler", "reconciler-silent", 17, ("reconciler-silent", 17), {"reconciler": None}),
    Failure(
        "the reconciler fails, or runs out of time, in every pass",
        *("reconciler-silent", 17, ("reconciler-silent", 17)),
        {"reconciler": raises(InvariantViolated, "scan")},
    ),
    Failure("no watchdog", "watchdog-silent", 12, ("watchdog-silent", 12), {"watchdog": None}),
    Failure(
        "the watchdog fails, or runs out of time, in every pass",
        *("watchdog-silent", 12, ("watchdog-silent", 12)),
        {"watchdog": raises(InvariantViolated, "query")},
    ),
    Failure(
        "the table `timers` refuses reads",
        *("strain", 3, ("strain", 3)),
        {name: raises(Throttled, "query", "get_many", table="timers") for name in ("ticker", "scanner", "reconciler")},
    ),
    Failure(
        "the table `timers` refuses writes",
        *("strain", 3, ("strain", 3)),
        {name: raises(Throttled, "commit", table="timers") for name in ("scanner", "reconciler")}
        | {"scanner": raises(Throttled, "commit", having="timers")},
    ),
    Failure(
        "the lease of one slice cannot be read",
        *("strain", 3, ("strain", 3)),
        {"scanner": raises(Throttled, "get", table="leases", having="003")},
    ),
    Failure(
        "the queue of one pool takes nothing",
        *("strain", 3, ("strain", 3)),
        {name: takes_nothing("ready-payments", _denied) for name in ("scanner", "reconciler")},
    ),
    Failure(
        "the queue of one pool is gone",
        *("attention", 1, ("attention", 1)),
        {name: takes_nothing("ready-payments", _gone) for name in ("scanner", "reconciler")},
    ),
    Failure(
        "the reads of one shard are refused",
        *("strain", 4, ("strain", 4)),
        {name: raises(Throttled, "query", table="timers", having="#0003#") for name in ("ticker", "scanner")},
    ),
    Failure(
        "the table `jobs` refuses",
        *("strain", 4, ("strain", 4)),
        {"scanner": raises(Throttled, "get_many", table="jobs")},
    ),
    Failure("the table `calendars` refuses", "attention", 1, ("attention", 1), told=told(PREFIX, ATTENTION, "all")),
    Failure("the table `payloads` refuses", "strain", 3, ("strain", 3), told=told(PREFIX, STRAIN, "all")),
    Failure("the table `resources` refuses", "strain", 3, ("strain", 3), told=told(PREFIX, STRAIN, "all")),
    Failure("a calendar cannot be read", "attention", 1, ("attention", 1), told=told(PREFIX, ATTENTION, "all")),
    Failure("an item of the ledger cannot be read", "attention", 2, ("attention", 2), begin=poisoned),
    Failure("the clock of one host is 60 s ahead", "strain", 4, ("strain", 4), each_minute=ahead),
    Failure("a job is changed whenever it fires", "strain", 4, ("strain", 4), {"scanner": contended}),
    Failure(
        "a definition cannot be read",
        *("attention", 6, ("attention", 6)),
        begin=garbled(("work", "no work")),
    ),
    Failure(
        "the schedule of a job cannot be computed",
        *("attention", 2, ("attention", 2)),
        begin=garbled(("schedule", {"cron": "* * * * *", "zone": "Mars/Olympus"})),
    ),
    Failure("the next occurrence of a job is gone", "attention", 6, ("attention", 6), begin=vanished),
    Failure("a timer stands behind the cursor", "attention", 6, ("attention", 6), begin=slipped_behind),
    Failure("a message in the queue of ticks that is no tick", "attention", 2, ("attention", 2), begin=no_tick),
    Failure(
        "a message in a ready queue that is no run",
        *("attention", 1, ("attention", 1)),
        told=told(PREFIX, "service.attention_total", "all"),
    ),
    Failure(
        "ticks that no scanner could serve",
        *("ticks-dlq", 1, None),
        told=told("AWS/SQS", "ApproximateNumberOfMessagesVisible", f"{PREFIX}-ticks-dlq", 1),
    ),
    Failure(
        "ticks wait",
        *("slice-stands", 6, ("slice-stands", 6)),
        {"scanner": None},
        told=ageing("ticks"),
    ),
    Failure(
        "everything fires, and late",
        *("fire-lag", 3, None),
        told=told(PREFIX, "scheduler.fire_lag_seconds", "scanner", 30),
    ),
    Failure(
        "the API answers with server errors",
        *("api-5xx", 1, ("api-5xx", 1)),
        told=told("AWS/ApiGateway", "5xx", PREFIX, 10),
    ),
    Failure(
        "the authorizer fails, or is not run for lack of concurrency",
        *("key-api-5xx", 1, ("key-api-5xx", 1)),
        told=told("AWS/ApiGateway", "5xx", f"{PREFIX}-keys", 10),
    ),
    Failure(
        "the pusher fails in every run",
        *("pusher-errors", 3, None),
        told=told("AWS/Lambda", "Errors", f"{PREFIX}-pusher", 1),
    ),
    Failure(
        "a pool has no workers",
        *("ready-default-age", 32, None),
        told=ageing("ready-default"),
        minutes=40,
    ),
    Failure(
        "messages of a pool are received over and over",
        *("ready-default-dlq", 1, None),
        told=told("AWS/SQS", "ApproximateNumberOfMessagesVisible", f"{PREFIX}-ready-default-dlq", 1),
    ),
    Failure(
        "an `unsafe` run was lost, or a push target fails",
        *("teams-attention", 1, None),
        told=told(PREFIX, "teams.attention_total", "all"),
    ),
    Failure(
        "a job hangs, and its worker goes on beating",
        *("teams-attention", 2, None),
        begin=hangs,
        api=beats,
    ),
    Failure(
        "no worker has the handler of a run",
        *("handler-missing", 60, None),
        told=told(PREFIX, "runs.unhandled_total", "api"),
        minutes=75,
    ),
)


@cache
def template_of(environment: str) -> Template:
    from pathlib import Path

    from infra.app import build_app  # here, because it starts Node
    from infra.asset import Asset

    directory = Path(mkdtemp(prefix="tickwork-failures-"))
    (directory / "stub.py").write_text("", encoding="utf-8")
    app = build_app(package=Asset(directory), context={"env": environment})
    return Template.from_stack(app.node.find_child(f"tickwork-{environment}"))  # type: ignore[arg-type]


_PLAYED: dict[str, Series] = {}


def heard(failure: Failure, template: Template) -> dict[str, int]:
    """Alarm (without its prefix) -> minute. Each failure is played once in a process."""
    if failure.what not in _PLAYED:
        _PLAYED[failure.what] = failure.series()
    found = evaluate(alarms_of(template), _PLAYED[failure.what])
    return {name.removeprefix(f"{PREFIX}-"): minute for name, minute in found.items()}


MEASURED = {
    "no ticker": "no_ticker",
    "the ticker fails in every run": "no_ticker",
    "no scanner": "no_scanner",
    "the scanner fails in every run": "no_scanner",
    "scanners are refused for lack of concurrency": "no_scanner",
    "one slice of several stands": "one_slice",
    "no reconciler": "no_reconciler",
    "the reconciler fails, or runs out of time, in every pass": "no_reconciler",
    "the table `timers` refuses reads": "timers_throttled",
    "the table `timers` refuses writes": "timers_throttled",
    "the lease of one slice cannot be read": "one_slice",
    "the queue of one pool takes nothing": "one_pool",
    "the queue of one pool is gone": "one_pool",
    "a definition cannot be read": "poison_definition",
    "the schedule of a job cannot be computed": "poison_definition",
    "a message in the queue of ticks that is no tick": "poison_message",
    "a message in a ready queue that is no run": "poison_message",
    "a pool has no workers": "no_worker",
    "the reads of one shard are refused": "one_shard",
    "the table `jobs` refuses": "jobs_throttled",
    "the table `calendars` refuses": "calendars_throttled",
    "the table `payloads` refuses": "payloads_throttled",
    "the table `resources` refuses": "resources_throttled",
    "a calendar cannot be read": "poison_calendar",
    "an item of the ledger cannot be read": "poison_item",
    "the clock of one host is 60 s ahead": "clock_off",
}
"""Failure -> its row in tests/simulator/failures.py, which says who is delayed and how long."""
ON_TIME_MS = 2_000
"""What is not part of a failure may be this much later than without it (F14)."""


@cache
def delays() -> dict[str, str]:
    """Who is delayed, and how long, by the rows of the simulator."""
    quiet = run_failure("none").lags[OTHERS].longest_ms
    return {name: _delay(run_failure(name), quiet) for name in sorted(set(MEASURED.values()))}


def _delay(report: Report, quiet_ms: int) -> str:
    touched, later_ms = report.lags[TOUCHED], report.lags[OTHERS].longest_ms - quiet_ms
    others = "" if not report.lags[OTHERS].due else "; all else under 2 s"
    if later_ms > ON_TIME_MS:
        others = f"; all else {later_ms / 1000:.0f} s"
    if touched.never:
        return f"what it touches, until it is over{others}"
    if touched.longest_ms > quiet_ms + ON_TIME_MS:
        return f"what it touches, up to {-(-touched.longest_ms // 5_000) * 5} s{others}"
    return f"nobody{others}"


def rows(template: Template, few: set[str]) -> list[str]:
    table = []
    for failure in FAILURES:
        found = heard(failure, template)
        first = min((found[name], name) for name in found if name == failure.alarm)
        rest = min(((minute, name) for name, minute in found.items() if name in few), default=None)
        fewest = f"{rest[0]}, `{rest[1]}`" if rest else "-"
        delayed = delays().get(MEASURED.get(failure.what, ""), "")
        table.append(f"| {failure.what} | {delayed} | {first[0]}, `{first[1]}` | {fewest} |")
    return table


def few_alarms(template: Template) -> set[str]:
    """The names of the alarms that an environment with the fewest has, from its template."""
    return {alarm.name.split("-", 2)[2] for alarm in alarms_of(template)}


if __name__ == "__main__":
    print("\n".join(rows(template_of("prod"), few_alarms(template_of("dev")))))
