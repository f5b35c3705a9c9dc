"""What is in a payload is in no log line, metric, problem or entry of the audit, whatever happens on its way.

A word that stands nowhere else is put into each payload, goes the whole way from its registration to a dead letter and
its replay, and is refused in each way that a request can be. Workers have to get it: a way that it does not go shows
nothing.
"""

from __future__ import annotations

import json
import logging
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import BaseModel

from tests.support.fakes import fake_ports
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tests.unit.api.test_refusals import CORPUS
from tickwork.api.jobs.bodies import JobChangeIn, JobIn
from tickwork.core.access.hiding import without_values
from tickwork.core.access.masking import MASK
from tickwork.core.errors import CAUSES_MAX, Conflict, told_error, told_way
from tickwork.core.instants import HOUR_MS, SECOND_MS
from tickwork.core.ledger.messages import ref_in
from tickwork.core.ledger.tables import ALL_TABLES, JOB_VERSIONS, JOBS, PAYLOADS, TIMERS
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Anyway, Put, Write
from tickwork.core.runs.push_targets import Target
from tickwork.core.runs.pushes import Answer
from tickwork.flows.audit.reconciling import reconcile
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.runs.pushing import Pusher, push_some
from tickwork.ports import InMessage, Layout, OutMessage
from tickwork.testing.memory import MemoryStore
from tickwork.worker.app import App
from tickwork.worker.context import Context, FailPermanently
from tickwork.worker.delivery import Delivery

WORD, NUMBER = "kestrel-canary", 471147114711
PAYLOAD = {"say": WORD, "pin": WORD, "password": WORD, "n": NUMBER, "list": [{"in": WORD}], "ok": True, "none": None}
LONG = PAYLOAD | {"text": f"{WORD} " * 40}
SECRET = {"secret_fields": ["pin"]}
TARGET = {"pool": "default", "handler": "h"}
PUSHED = {"url": f"https://hooks.example.com/orders?token={WORD}"}


def has_it(text: str) -> bool:
    return WORD in text or str(NUMBER) in text


class AllSignals:
    """Every line and every count with its labels."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.kinds: Counter[str] = Counter()

    def count(self, metric: str, n: int = 1, **labels: str) -> None:
        self.kinds[metric] += n
        self.said.append(f"{metric} {labels}")

    def observe(self, metric: str, value: float, **labels: str) -> None:
        self.count(metric, 1, **labels)

    def log(self, action: str, **facts: object) -> None:
        self.kinds[action] += 1
        self.said.append(f"{action} {facts} {json.dumps(facts, default=str)}")


class LoudStore(MemoryStore):
    """Raises, when it is told to, an error that quotes what it was to write, as a client library does."""

    is_loud = False

    def commit(self, writes: Sequence[Write]) -> Any:
        if self.is_loud:
            raise ValueError(f"Invalid type for parameter Item, value: {[getattr(one, 'item', one) for one in writes]}")
        return super().commit(writes)


class Echo:
    """A push target that sends back what it was sent; or a poster that fails and quotes it."""

    fails = False

    def post(self, target: Target, body: bytes, headers: Mapping[str, str], *, timeout_ms: int) -> Answer:
        if self.fails:
            raise ValueError(f"cannot send {body!r} to {target}")
        sent = json.dumps(json.loads(body)["payload"])
        return Answer(422, detail=f"cannot take {sent} with {headers} at {target.path}"[:512])


class Stage:
    def __init__(self) -> None:
        self.store, self.signals, self.echo = LoudStore(), AllSignals(), Echo()
        ports = fake_ports(self.store, Layout(shards=1, slices=1, pools=("default", "push")))
        queue = WorldQueue(SimpleNamespace(clock=ports.clock, outbox=ports.sender))  # type: ignore[arg-type]
        self.ports = replace(ports, receiver=queue, signals=self.signals)
        self.api, self.problems = ApiUnderTest(self.ports), list[str]()
        self.gone: Counter[str] = Counter()
        self.errors: list[str] = []

    def call(self, method: str, path: str, body: object = None, **query: str) -> Any:
        status, answer = self.api.call(method, path, body, **query)
        if status >= 400:
            self.problems.append(json.dumps(answer, ensure_ascii=False))
        return answer

    def fire(self, after_ms: int = SECOND_MS) -> None:
        self.ports.clock.sleep_ms(after_ms)
        run_window(self.ports, 0, self.ports.clock.now_ms() // SECOND_MS)

    def lease(self) -> list[Any]:
        """Every run of the pool, with the payload as it was registered."""
        runs: list[Any] = self.call("POST", "/pools/default:lease", {"max": 25})["runs"]
        for run in runs:
            assert run["payload"]["say"] == run["payload"]["pin"] == WORD
            self.gone["to a worker"] += 1
        return runs

    def fail(self, error: str) -> int:
        runs = self.lease()
        for run in runs:
            told = {"ref": run["ref"], "token": run["token"], "outcome": "failed_permanent", "error": error}
            assert self.call("POST", "/runs:complete", {"runs": [told]})["runs"][0]["accepted"]
        return len(runs)

    def attempts(self) -> list[str]:
        """The errors of all that is dead."""
        dead = self.call("GET", "/dead-letters", team="shop")["runs"]
        return [one["error"] for run in dead for one in run["attempts"]]

    def push(self) -> None:
        for _ in range(10):
            if not push_some(self.ports, Pusher(self.echo, ("a master secret",)), "push", wait_s=0):
                break
            self.gone["pushed"] += 1


def go_all_the_way(stage: Stage) -> None:
    stage.call("PUT", "/teams/shop", {"contact": "ann"})
    job = {"team": "shop", "schedule": {"rate": "1 hour"}, "target": TARGET, **SECRET}
    timer = {"team": "shop", "delay_s": 5, "target": TARGET, **SECRET}
    for name, payload in (("inline", PAYLOAD), ("apart", LONG), ("pushed", PAYLOAD)):
        more = {"name": name, "payload": payload} | ({"target": PUSHED} if name == "pushed" else {})
        stage.call("POST", "/jobs", job | more)
        stage.call("PATCH", f"/jobs/shop:{name}", {"version": 1, "payload": payload | {"more": [WORD]}})
        stage.call("PATCH", f"/jobs/shop:{name}", {"version": 1, "payload": payload | {"more": 2}})  # refused
        stage.call("POST", f"/jobs/shop:{name}/pause", {"reason": "a release"})
        stage.call("POST", f"/jobs/shop:{name}/resume", {})
        stage.call("POST", "/jobs", job | more | {"payload": {"other": WORD}})  # refused
    for payload, target in ((PAYLOAD, TARGET), (LONG, TARGET), (PAYLOAD, PUSHED), (LONG, PUSHED)):
        stage.call("POST", "/timers", timer | {"payload": payload, "target": target})
    stage.call("POST", "/timers", timer | {"payload": PAYLOAD | {"other": 1}, "client_key": "k-other"})
    stage.call("POST", "/timers", timer | {"payload": {"another": WORD}, "client_key": "k-other"})  # refused
    stage.fire(6_000)
    assert stage.fail(f"Authorization: Bearer {WORD} was refused; password={WORD}") >= 2
    stage.push()
    stage.fire(2 * HOUR_MS)
    stage.push()
    stage.fail("it fails")
    stage.errors = stage.attempts()
    stage.call("POST", "/dead-letters:replay", {"team": "shop", "filter": {}, "reason": "mended"})
    stage.fire(60_000)
    assert stage.fail("it fails again") >= 2
    stage.echo.fails = True
    stage.push()
    stage.fire(HOUR_MS)
    stage.push()
    reconcile(stage.ports)


def go_wrong(stage: Stage) -> None:
    """A fault of ours, a message that is none, and an item that somebody has garbled."""
    stage.store.is_loud = True
    body = {"team": "shop", "name": "new", "schedule": {"rate": "1 hour"}, "target": TARGET, "payload": PAYLOAD}
    assert stage.call("POST", "/jobs", body)["type"] == "urn:tickwork:problem:internal"
    stage.store.is_loud = False
    for text in (json.dumps({"payload": PAYLOAD}), WORD, json.dumps({"ref": WORD}), json.dumps([WORD])):
        for pool in ("default", "push"):
            stage.ports.sender.send(f"ready-{pool}", [OutMessage(text)])
    stage.call("POST", "/pools/default:lease", {"max": 25})
    stage.push()
    item = stage.store.get(JOBS, {"job_id": "shop:inline"})
    assert item is not None
    garbled = item | {"work": item["work"] | {"payload": PAYLOAD}}
    stage.store.commit([Put(JOBS, garbled, Anyway("a test"))])
    stage.call("GET", "/jobs/shop:inline")
    stage.call("GET", "/jobs", team="shop")
    stage.fire(2 * HOUR_MS)
    reconcile(stage.ports)


PAYLOADS_LIE_IN = (JOBS, JOB_VERSIONS, TIMERS, PAYLOADS)


def test_on_the_whole_way_no_line_metric_problem_or_entry_has_what_is_in_a_payload(caplog: Any, capfd: Any) -> None:
    caplog.set_level(logging.DEBUG)
    stage = Stage()
    go_all_the_way(stage)
    go_wrong(stage)
    assert stage.gone["to a worker"] >= 6
    assert stage.gone["pushed"] >= 6
    seen = {"run_call_failed", "request_failed", "bad_message", "job_changed", "runs.bad_messages_total"}
    assert seen <= stage.signals.kinds.keys()
    assert len(stage.problems) >= 8
    printed = capfd.readouterr()
    for said in (*stage.signals.said, *stage.problems, caplog.text, printed.out, printed.err):
        assert not has_it(said), said
    for table in ALL_TABLES:
        items, _ = stage.store.scan(table, limit=10_000, after=None)
        assert table in PAYLOADS_LIE_IN or not has_it(repr(items)), table
    for path, query in (
        ("/audit", {"team": "shop"}),
        ("/audit:verify", {"team": "shop"}),
        ("/runs", {"team": "shop"}),
        ("/dead-letters", {"team": "shop"}),
        ("/jobs/shop:apart/runs", {}),
    ):
        answer = json.dumps(stage.call("GET", path, **query))
        assert '"problem"' not in answer
        assert not has_it(answer), path
    assert f"Authorization: {MASK}" in stage.errors
    assert any(one.startswith("HTTP 422: cannot take {") and MASK in one for one in stage.errors)
    assert not any(map(has_it, stage.errors))


def _with_payload(body: Any) -> Any:
    """A request with the word in each payload that it can have."""
    if not isinstance(body, dict):
        return body
    entries = [one | {"payload": LONG} if isinstance(one, dict) else one for one in body.get("timers") or ()]
    return body | {"payload": PAYLOAD} if "timers" not in body else body | {"timers": entries}


def _refused() -> list[Any]:
    cases = [case for case in CORPUS["refused"] if case["path"].startswith(("/jobs", "/timers"))]
    return [
        case
        for case in cases
        if isinstance(case.get("body"), dict) and isinstance(case["body"].get("timers", []), list)
    ]


def test_no_refusal_of_any_kind_tells_what_is_in_a_payload() -> None:
    stage, kinds = Stage(), set()
    for one in CORPUS["given"]:
        stage.call(one["method"], one["path"], one["body"])
    for case in _refused():
        stage.call(case["method"], case["path"], _with_payload(case["body"]), **case.get("query", {}))
    job = {"team": "payments", "name": "other", "schedule": {"cron": "0 2 * * *"}, "target": {"pool": "default"}}
    deep: Any = WORD
    for _ in range(150):
        deep = [deep]
    for payload in (
        {"a": WORD * 50_000}, {"a": [WORD, deep]}, {"a": f"\ud800{WORD}"}, {"a": f"{WORD}{MASK}"}, [WORD, {"a": MASK}]
    ):  # fmt: skip
        stage.call("POST", "/jobs", job | {"payload": payload})
    for body in (job, job | {"payload": LONG}):  # the second is another one of that name
        stage.call("POST", "/jobs", body)
    stage.call("PATCH", "/jobs/payments:other", {"version": 7, "payload": PAYLOAD})
    raw = json.dumps(job)[:-1]
    for text in (f', "payload": {{"a": "{WORD}", "a": "{WORD}"}}}}', f', "payload": "{WORD}', f', "payload": {WORD}}}'):
        stage.call("POST", "/jobs", (raw + text).encode())
    for problem in stage.problems:
        assert not has_it(problem), problem
        kinds.add(json.loads(problem)["type"].rpartition(":")[2])
    assert len(stage.problems) > 300
    wanted = {"invalid-field", "not-found", "already-exists", "version-conflict", "bad-schedule", "payload-too-large"}
    assert wanted | {"malformed-json", "duplicate-key"} <= kinds


@pytest.mark.parametrize("outcome", ["failed", "failed_permanent", "cancelled"])
def test_what_a_worker_says_of_an_end_is_recorded_without_credentials(outcome: str) -> None:
    stage = Stage()
    stage.call("POST", "/timers", {"team": "shop", "delay_s": 1, "target": TARGET, "payload": PAYLOAD})
    stage.fire(2_000)
    (run,) = stage.lease()
    stage.call("POST", "/runs:cancel", {"runs": [{"ref": run["ref"]}], "reason": "not needed"})
    told = {"ref": run["ref"], "token": run["token"], "outcome": outcome, "error": f"token={WORD} is old"}
    stage.call("POST", "/runs:complete", {"runs": [told]})
    items, _ = stage.store.scan(TIMERS, limit=10, after=None)
    (attempt,) = [one for item in items for one in item.get("attempts", ())]
    assert attempt["error"] == f"token={MASK} is old"


# --- what a worker says ---------------------------------------------------------------------------------------


class Order(BaseModel):
    card: int
    lines: list[int]


@pytest.mark.parametrize("payload", [{"card": WORD, "lines": [WORD]}, WORD, None, {"card": 1}])
def test_a_payload_that_does_not_fit_is_told_by_its_places_alone(payload: Any) -> None:
    app = App()

    @app.job("h")
    def h(ctx: Context, order: Order) -> None: ...

    with pytest.raises(FailPermanently, match="the payload does not fit: ") as raised:
        app.find("h").read_payload(payload)
    assert not has_it("".join(traceback.format_exception(raised.value)))
    if payload and "lines" in payload:
        assert "card: Input should be" in str(raised.value)
        assert "lines.0: Input should be" in str(raised.value)


def test_what_carries_a_payload_does_not_show_it_when_it_is_printed() -> None:
    text, at = json.dumps(PAYLOAD), datetime(2026, 10, 30, tzinfo=UTC)
    work = {"team": "shop", "target": TARGET, "payload": PAYLOAD}
    for one in (
        Work("default", "h", text),
        OutMessage(text),
        InMessage("receipt", text),
        Context("id", "shop:h", at, at, 1, 1, PAYLOAD),
        Delivery("receipt", {"payload": PAYLOAD}, "claim", at, at, 60, payload=PAYLOAD),
        JobIn.model_validate(work | {"name": "h", "schedule": {"rate": "1 hour"}}),
        JobChangeIn.model_validate({"version": 1, "payload": PAYLOAD}),
    ):
        assert not has_it(repr(one)), type(one)


# --- the parts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "payload", "told"),
    [
        ("no order kestrel", {"a": "kestrel"}, f"no order {MASK}"),
        ("47114 is none", [{"a": [47114]}], f"{MASK} is none"),
        ("it is 1 and true and None", {"a": 1, "b": True, "c": None}, "it is 1 and true and None"),
        ('{"a": "say \\"kestrel\\""}', {"a": 'say "kestrel"'}, f'{{"a": "{MASK}"}}'),
        ("caf\\u00e9s and cafés", {"a": "cafés"}, f"{MASK} and {MASK}"),
        ("kestrels nest", {"a": "kestrel", "b": "kestrels nest"}, MASK),
        ("kestrel", "kestrel", MASK),
        ("this is a kes", {"a": "kestrel"}, "this is a kes"),
        ("this is a kest", {"a": "kestrel"}, f"this is a {MASK}"),
        ("this is a kestre", {"a": "kestrel", "b": "kestral"}, f"this is a {MASK}"),
        ("kestrel", None, "kestrel"),
    ],
)
def test_what_a_target_sends_back_is_told_without_what_it_was_sent(text: str, payload: Any, told: str) -> None:
    assert without_values(text, payload) == told


@pytest.mark.parametrize("text", ["", "[", "[]", "{}", '{"ref": 5}', '{"ref": "x"}', '{"ref": null}'])
def test_a_message_that_names_no_run_is_told_without_one(text: str) -> None:
    assert ref_in(text) == ""


def test_a_message_that_names_a_run_is_told_by_it() -> None:
    ref = "main#0001#29889600|1793376000#shop#nightly#1793376000000"
    assert ref_in(json.dumps({"ref": ref, "payload": WORD})) in (ref, "")


def _raised(of: Callable[[], object]) -> BaseException:
    try:
        of()
    except Exception as error:  # noqa: BLE001 - whatever it is
        return error
    raise AssertionError


def test_an_error_of_anybody_is_told_by_its_kind_and_its_way_and_one_of_ours_in_its_words() -> None:
    def fails() -> None:
        try:
            {}[WORD]
        except KeyError as error:
            raise ValueError(WORD) from error

    error = _raised(fails)
    assert told_error(error) == "ValueError"
    way = told_way(error)
    assert not has_it(way.replace("WORD", ""))
    assert "in fails" in way
    assert way.count("KeyError") >= 1
    assert told_error(Conflict("job x was changed")) == repr(Conflict("job x was changed"))
    assert told_error(OSError(5, "no route")) == repr(OSError(5, "no route"))
    service = ValueError("AccessDenied")
    service.response = {"Error": {}}  # type: ignore[attr-defined] - as botocore's has it
    assert told_error(service) == repr(service)


def test_however_many_causes_an_error_has_its_way_ends() -> None:
    error: Exception = ValueError("first")
    for number in range(50):
        after = ValueError(str(number))
        after.__cause__ = error
        error = after
    assert told_way(error).count("ValueError") == CAUSES_MAX
    error.__cause__ = error
    assert told_way(error).count("ValueError") == CAUSES_MAX
