"""The document's examples: a day of one team, played against the API in memory. What is shown was really answered.

The clock is set and the ids count, so the same code gives the same examples.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support import conformity
from tests.support.fakes import CountingIds, FakeClock, FakePager, FakeQueues, KeptSignals, RememberingSender
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue

from tickwork.api import problems
from tickwork.api.gate import KeyGate
from tickwork.core.access.api_keys import KEYS_PER_TEAM_MAX
from tickwork.core.access.issuers import Issuer
from tickwork.core.errors import Throttled
from tickwork.core.instants import DAY_MS
from tickwork.core.ledger.cells import CellShape
from tickwork.core.ledger.tables import KEYS
from tickwork.core.ledger.writes import Anyway, Delete
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.flows.access.tokens import Credentials, Tokens
from tickwork.flows.dispatch.windows import run_window
from tickwork.flows.watch.watching import watch
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

JOB: dict[str, Any] = {
    "team": "payments",
    "name": "card-settlement",
    "schedule": {"cron": "0 2 * * *", "zone": "America/New_York", "calendars": {"exclude": ["holidays"]}},
    "target": {"pool": "payments", "handler": "settlement"},
    "payload": {"ledger": "cards"},
    "side_effects": ["payment"],
    "retry_policy": {"max_attempts": 3, "no_retry_on": ["CardClosed"]},
    "catch_up": {"policy": "last", "last": 2},
}
TIMER: dict[str, Any] = {
    "team": "payments",
    "delay_s": 90,
    "target": {"pool": "payments", "handler": "remind"},
    "payload": {"invoice": 4711},
    "client_key": "reminder-4711",
}
KEY: dict[str, Any] = {"team": "payments", "role": "viewer", "name": "dashboard", "expires_in_days": 30}

TEAM: dict[str, Any] = {
    "contact": "ann@example.org",
    "runbook": "https://wiki.example.org/payments",
    "routes": [{"kind": "email", "address": "ann@example.org"}],
    "quotas": {"creates_per_s": 100},
}


@dataclass
class Examples:
    """By route: the body sent, and the answer to it by status; by kind: a problem document."""

    bodies: dict[str, Any] = field(default_factory=dict)
    answers: dict[tuple[str, int], Any] = field(default_factory=dict)
    problems: dict[str, Any] = field(default_factory=dict)


class _Desk:
    """An issuer's, whose every signature is right: what a token is refused for stays the same from day to day."""

    def published(self, _: Issuer) -> object:
        return {"keys": [{"kty": "EC", "crv": "P-256", "kid": "2026-12"}]}

    def proven(self, text: str, _: Any, __: Issuer) -> Any:
        return json.loads(base64.urlsafe_b64decode(text.split(".")[1] + "=="))


def _token(key_id: str, ends_at_s: int) -> str:
    parts = ({"alg": "ES256", "kid": key_id}, {"sub": "ann", "exp": ends_at_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts) + ".x"


class _Stage:
    """The API in memory, with a clock that is moved by hand; every first call of a kind is kept as an example."""

    def __init__(self) -> None:
        self.clock, self.outbox, self.examples = FakeClock(), RememberingSender(), Examples()
        layout = Layout(shards=1, slices=1, pools=("default", "payments"), others=(CellShape("payments", 4, 2),))
        ports = Ports(
            self.clock,
            MemoryStore(),
            self.outbox,
            KeptSignals(),
            CountingIds(),
            layout,
            queues=FakeQueues(),
            pager=FakePager(),
        )
        self.ports = replace(ports, receiver=WorldQueue(self))  # type: ignore[arg-type]
        self._api = ApiUnderTest(self.ports)

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        status, answer = self._api.call(method, path, body, **query)
        route = conformity.route_at(method, path)
        if status >= 400:
            self.examples.problems.setdefault(answer["type"].rpartition(":")[2], answer)
        elif route is not None:
            self.examples.answers.setdefault((route.name, status), answer)
            if body is not None:
                self.examples.bodies.setdefault(route.name, body)
        return answer

    def walled(self, credential: str, method: str, path: str, **query: str) -> None:
        """A call of somebody whose credential is looked at."""
        tokens = Tokens(Issuer("https://login.example.org", "tickwork", ()), _Desk())
        api = ApiUnderTest(self.ports, KeyGate(Credentials(KnownKeys(), tokens)))
        api.headers = {"authorization": credential} if credential else {}
        status, answer = api.call(method, path, **query)
        if status >= 400:
            self.examples.problems.setdefault(answer["type"].rpartition(":")[2], answer)

    def after(self, seconds: int) -> None:
        self.clock.sleep_ms(seconds * 1_000)
        run_window(self.ports, 0, self.clock.now_ms() // 1_000)

    def message(self) -> dict[str, Any]:
        """The last one that went to the workers."""
        return self.outbox.bodies("ready-payments")[-1]


def play() -> Examples:
    stage = _Stage()
    _definitions(stage)
    _worker(stage)
    _dead_letters(stage)
    _lists(stage)
    _keys(stage)
    _teams(stage)
    _pauses(stage)
    _groups(stage)
    _defaults(stage)
    _refusals(stage)
    _silence(stage)
    return stage.examples


def _definitions(stage: _Stage) -> None:
    stage.call("GET", "/health")
    stage.call("PUT", "/calendars/payments:holidays", {"zone": "America/New_York", "dates": ["2026-12-25"]})
    stage.call("POST", "/jobs", JOB)
    stage.call("POST", "/jobs", JOB)
    stage.call(
        "POST", "/schedules:preview", {"schedule": {"cron": "30 1 * * *", "zone": "America/New_York"}, "count": 3}
    )
    job = "/jobs/payments:card-settlement"
    stage.call("PATCH", job, {"version": 1, "schedule": {"cron": "30 2 * * *", "zone": "America/New_York"}})
    pause = {"by": "ann", "reason": "migration of the ledger", "until": "2026-10-31T12:00:00Z"}
    stage.call("POST", f"{job}/pause", pause)
    stage.call("GET", f"{job}/next", count="2")
    stage.call("POST", f"{job}/resume", {"by": "ann"})
    stage.call("GET", job)
    coming = stage.call("GET", f"{job}/next")["occurrences"][1]["scheduled_at"]
    stage.call("POST", f"{job}/skip", {"scheduled_at": coming, "reason": "the bank is closed"})
    stage.call("POST", f"{job}/unskip", {"scheduled_at": coming})
    late = {"reason": "the file came late", "payload": {"day": "2026-10-29"}, "client_key": "late-file-29"}
    stage.call("POST", f"{job}/run", late)
    stage.call("POST", f"{job}/run", late)
    _backfill(stage, job)
    timer = stage.call("POST", "/timers", TIMER)["timer_id"]
    stage.call("POST", "/timers", TIMER)
    batch = [{**TIMER, "client_key": f"reminder-{number}"} for number in (1, 2)]
    timers = stage.call("POST", "/timers:batch", {"timers": batch})["timers"]
    taken = TIMER | {"client_key": "reminder-4714"}
    stage.call("POST", "/timers", taken)
    stage.call("POST", "/timers:batch", {"timers": [TIMER, taken | {"delay_s": 1}]})
    stage.call("GET", f"/timers/{timer}")
    stage.call("DELETE", f"/timers/{timers[0]['timer_id']}")
    unknown = timer[:-4] + "ffff"
    stage.call("POST", "/timers:cancel", {"timer_ids": [timers[1]["timer_id"], unknown]})


def _backfill(stage: _Stage, job: str) -> None:
    past = {
        "since": "2026-10-01T00:00:00Z",
        "until": "2026-10-08T00:00:00Z",
        "reason": "a wrong rate",
        "concurrency": 2,
    }
    token = stage.call("POST", f"{job}/backfills", past | {"dry_run": True})["token"]
    made = stage.call("POST", f"{job}/backfills", past | {"token": token, "client_key": "wrong-rate-oct"})
    at = f"/backfills/{made['backfill_id']}"
    stage.call("GET", at)
    stage.call("POST", f"{at}/pause", {"reason": "the ledger is slow"})
    stage.call("POST", f"{at}/resume", {})
    stage.call("POST", f"{at}/cancel", {"reason": "the rate was right", "runs": "leave"})
    stage.call("GET", f"{job}/backfills")


def _worker(stage: _Stage) -> None:
    """One run that succeeds, and one that dies."""
    stage.after(90)
    _complete(stage, {"outcome": "succeeded"})
    key = {"client_key": "reminder-4712"}
    stage.call("POST", "/timers", TIMER | key)
    stage.after(90)
    _complete(stage, {"outcome": "failed_permanent", "error": "no such invoice", "error_class": "UnknownInvoice"})
    stage.call("POST", "/timers", TIMER | {"client_key": "reminder-4713", "delay_s": 0})
    stage.after(1)
    leased = stage.call("POST", "/pools/payments:lease", {"worker": "http-1", "max": 5, "handlers": ["remind"]})["runs"]
    given = [{name: run[name] for name in ("ref", "token", "receipt")} for run in leased]
    stage.call("POST", "/runs:release", {"runs": given})
    left = [{"ref": run["ref"], "handler": run["handler"]} for run in leased]
    stage.call("POST", "/runs:unhandled", {"worker": "host-2", "runs": left})


def _complete(stage: _Stage, outcome: dict[str, Any]) -> None:
    message = stage.message()
    passed_on = {name: message[name] for name in ("ref", "attempt", "dispatched_at_ms", "dispatched_by")}
    entry = passed_on | {"claim": "5f0c7b1e9a"}
    run = stage.call("POST", "/runs:start", {"worker": "host-1", "runs": [entry]})["runs"][0]
    held = {"ref": run["ref"], "token": run["token"]}
    stage.call("POST", "/runs:heartbeat", {"runs": [held]})
    stage.call("POST", "/runs:complete", {"runs": [held | outcome]})


def _dead_letters(stage: _Stage) -> None:
    stage.call("GET", "/dead-letters", team="payments")
    order = {
        "team": "payments",
        "filter": {"error_class": "UnknownInvoice"},
        "by": "ann",
        "reason": "invoices restored",
    }
    stage.call("POST", "/dead-letters:replay", order)


def _lists(stage: _Stage) -> None:
    next_at = stage.call("GET", "/jobs/payments:card-settlement")["next"]["scheduled_at"]
    named = {"job_id": "payments:card-settlement", "scheduled_at": next_at}
    stage.call("POST", "/runs:cancel", {"runs": [named], "reason": "settled by hand"})
    stage.call("GET", "/jobs/payments:card-settlement/runs")
    stage.call("GET", f"/runs/payments:card-settlement@{next_at}")
    stage.call("GET", "/runs", team="payments", status="succeeded", limit="5")
    stage.call("GET", "/timers", team="payments", limit="5")
    stage.call("GET", "/jobs", team="payments")
    stage.call("GET", "/calendars", team="payments")
    stage.call("GET", "/calendars/payments:holidays")
    stage.call("GET", "/audit", team="payments", limit="3")
    stage.call("GET", "/audit:verify", team="payments")


def _keys(stage: _Stage) -> None:
    """A key that is rotated and revoked, and what each kind of key that opens nothing is answered."""
    made = [stage.call("POST", "/keys", KEY) for _ in range(3)]
    viewer, unknown, expiring = (one["key"] for one in made)
    stage.walled(f"Bearer {viewer}", "GET", "/jobs", team="payments")
    stage.walled(f"Bearer {viewer}", "DELETE", "/jobs/payments:card-settlement")
    stage.call("POST", f"/keys/{made[0]['key_id']}/rotate", {"expires_in_days": 90})
    stage.call("GET", "/keys", team="payments")
    stage.call("DELETE", f"/keys/{made[0]['key_id']}")
    stage.walled("", "GET", "/jobs", team="payments")
    stage.walled(f"Bearer {viewer[:-1]}", "GET", "/jobs", team="payments")
    stage.walled(f"Bearer {viewer}", "GET", "/jobs", team="payments")
    stage.ports.store.commit([Delete(KEYS, {"key_id": made[1]["key_id"]}, Anyway("the example's"))])
    stage.walled(f"Bearer {unknown}", "GET", "/jobs", team="payments")
    for token in (_token("2025-01", 0), _token("2026-12", stage.clock.at_ms // 1_000)):
        stage.walled(f"Bearer {token}", "GET", "/jobs", team="payments")
    for _ in range(KEYS_PER_TEAM_MAX):
        stage.call("POST", "/keys", KEY | {"team": "shop"})
    stage.call("POST", "/keys", KEY | {"team": "shop"})
    now_ms = stage.clock.at_ms
    stage.clock.at_ms += 31 * DAY_MS
    stage.walled(f"Bearer {expiring}", "GET", "/jobs", team="payments")
    stage.clock.at_ms = now_ms


def _defaults(stage: _Stage) -> None:
    """A retry more for all, tried on a tenth of the jobs first."""
    new = {"edition": 0, "reason": "cards are often back after an hour", "retry_policy": {"max_attempts": 6}}
    stage.call("POST", "/defaults", new)
    stage.call("POST", "/defaults", new | {"reason": "another idea"})
    coverage = {"version": 2, "percent": 10, "teams": ["payments"]}
    stage.call("POST", "/defaults:plan", coverage)
    stage.call("POST", "/defaults:roll-out", coverage | {"edition": 1, "reason": "a tenth first"})
    stage.call("POST", "/defaults:roll-out", coverage | {"edition": 1, "percent": 20, "reason": "and on"})
    stage.call("GET", "/defaults")


def _teams(stage: _Stage) -> None:
    """Registered, changed, read; one that lives is not deleted, one that is not registered is refused in the end."""
    stage.call("POST", "/teams:adopt", {"contact": "the platform's team", "dry_run": True, "refuse_unknown": True})
    stage.call("PUT", "/teams/payments", TEAM)
    stage.call("PUT", "/teams/payments", TEAM | {"version": 1, "quotas": {"creates_per_s": 200}})
    stage.call("POST", "/teams/payments/routes:test")
    stage.call("GET", "/teams/payments")
    stage.call("GET", "/teams")
    stage.call("DELETE", "/teams/payments")
    _pools(stage)
    _cells(stage)
    stage.call("PUT", "/teams/web", {"contact": "cyd@example.org"})
    stage.call("DELETE", "/teams/web")
    stage.call("POST", "/teams:adopt", {"contact": "the platform's team", "dry_run": False, "refuse_unknown": True})
    stage.call("POST", "/timers", TIMER | {"team": "paymnts"})


def _pools(stage: _Stage) -> None:
    """Made, shared, read, and deleted."""
    fast = "/teams/payments/pools/fast"
    stage.call("PUT", fast, {"worker": "lambda", "timeout_s": 120, "shared_with": ["web"]})
    stage.call("GET", fast)
    stage.call("GET", "/teams/payments/pools")
    stage.call("DELETE", fast)


def _pauses(stage: _Stage) -> None:
    freeze = {"team": "payments", "reason": "deploy of the ledger", "until": "2026-10-31T18:00:00Z"}
    stage.call("POST", "/pauses", freeze)
    stage.call("GET", "/pauses", team="payments")
    stage.call("GET", "/pauses/in-flight", team="payments")
    stage.call("POST", "/timers", TIMER | {"client_key": "reminder-4712"})
    stage.after(120)
    stage.call("POST", "/pauses:resume", {"team": "payments"})


def _groups(stage: _Stage) -> None:
    """A campaign is called off."""
    stage.call("POST", "/timers", TIMER | {"client_key": "reminder-4713", "group": "xmas-mail"})
    stage.call("GET", "/groups", team="payments", group="xmas-mail")
    stage.call("POST", "/groups:cancel", {"team": "payments", "group": "xmas-mail", "reason": "wrong template"})


def _cells(stage: _Stage) -> None:
    """A team moves to a cell of its own, and back; everybody moves, and back."""
    placed = {"cell": "payments", "reason": "2,000 timers a second"}
    stage.call("PUT", "/teams/payments/placement", placed)
    stage.call("PUT", "/placement", {"cell": "payments", "lane": "P2", "reason": "bulk in slices of its own"})
    stage.call("GET", "/cells")
    stage.call("GET", "/contracts:check", team="payments")
    stage.call("DELETE", "/teams/payments/placement")
    stage.call("DELETE", "/placement", lane="P2")


def _silence(stage: _Stage) -> None:
    """A job of which no run succeeds, and somebody who has heard of it."""
    watch(stage.ports)
    purge = {"team": "payments", "name": "purge", "schedule": {"rate": "10 minutes"}, "target": {"pool": "payments"}}
    stage.call("POST", "/jobs", purge | {"dead_man_switch": "on", "description": "deletes what may not be kept"})
    for _ in range(40):
        stage.clock.sleep_ms(60_000)
        watch(stage.ports)
    stage.call("GET", "/incidents", team="payments")
    heard = {"reason": "the store is being moved", "until": "2026-12-24T06:00:00Z"}
    stage.call("POST", "/incidents/payments:purge/acknowledge", heard)


def _refusals(stage: _Stage) -> None:
    """One of each kind of problem."""
    stage.call("PUT", "/teams/desk", {"contact": "eve@example.org", "quotas": {"creates_per_s": 1}})
    for number in range(2):
        stage.call("POST", "/timers", TIMER | {"team": "desk", "client_key": f"ring-{number}"})
    stage.call("POST", "/jobs", JOB | {"tolerence_s": 60})
    stage.call("POST", "/jobs", JOB | {"lease_s": 90})
    stage.call("POST", "/jobs", JOB | {"name": "other", "schedule": {"cron": "0 2 * * *", "zone": "America/New_Yrk"}})
    stage.call("POST", "/timers", TIMER | {"payload": "x" * 300_000})
    stage.call("POST", "/jobs", b"{")
    stage.call("POST", "/jobs", b'{"team": "payments", "team": "shop"}')
    stage.call("PATCH", "/jobs/payments:card-settlement", {"version": 1, "lease_s": 90})
    stage.call("GET", "/jobs/payments:none")
    stage.call("GET", "/nowhere")
    ended = stage.call("GET", "/runs", team="payments", status="succeeded")["runs"][0]["job_id"]
    stage.call("DELETE", f"/timers/{ended}")
    too_large = problems.problem(problems.BODY_TOO_LARGE, "a request has at most 6 MiB: send fewer entries at a time")
    for answered in (problems.of_world(Throttled("slow down")), problems.of_bug(), too_large):
        problem = json.loads(str(answered.body))
        conformity.check_problem(problem)
        stage.examples.problems.setdefault(problem["type"].rpartition(":")[2], problem)
    stage.call("POST", "/jobs", JOB | {"name": "alone", "overlap": "skip", "schedule": {"rate": "1 hour"}})
    for _ in range(2):
        stage.call("POST", "/jobs/payments:alone/run", {"reason": "the file came late"})
    stage.call("DELETE", "/jobs/payments:card-settlement")
