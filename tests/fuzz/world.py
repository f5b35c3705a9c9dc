"""What is fuzzed: the API behind its walls, on a local port, over a memory store, with two teams that have one of
everything, and a key of each role.

Time is virtual and goes on by itself: each so many requests a second passes, and the windows of that second are run.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support import conformity
from tests.support.fakes import KeptSignals, fake_ports
from tests.support.http import ApiUnderTest
from tests.support.queues import WorldQueue
from tickwork.api.app import build_app
from tickwork.api.gate import KeyGate
from tickwork.core.access.actors import LOCAL, PLATFORM_TEAM, Role
from tickwork.core.instants import DAY_MS
from tickwork.flows.access import keys
from tickwork.flows.access.authenticating import KnownKeys
from tickwork.flows.access.keys import Wanted
from tickwork.flows.dispatch.windows import run_window
from tickwork.local.http_server import HttpServer
from tickwork.local.server import serve
from tickwork.ports import Layout, Ports
from tickwork.testing.memory import MemoryStore

TEAMS = ("harbour-4c1f", "orchard-71be")
"""Names that no generated text happens to hold."""
ROLES: tuple[Role, ...] = ("viewer", "worker", "operator", "owner")
POOLS = ("default", "payments")
REQUESTS_A_SECOND = 20
"""How many requests pass in one second of virtual time."""


@dataclass
class _Sent:
    """What `WorldQueue` wants of a world."""

    clock: Any
    outbox: Any


@dataclass
class Fuzzed:
    """The API as it runs. `known` is what whoever asks is told of it: keys, ids, and the marks of each team."""

    ports: Ports
    known: dict[str, Any] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """Answers that the table of routes does not declare."""
    _requests: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def server(self, port: int) -> HttpServer:
        gate = KeyGate(KnownKeys())
        return serve(lambda: _Watched(build_app(self.ports, gate), self), port)  # type: ignore[arg-type,return-value]

    def answer(self, app: Any, event: dict[str, Any], context: Any) -> dict[str, Any]:
        """One request at a time, as the memory store is no place for two."""
        with self._lock:
            self._requests += 1
            if self._requests % REQUESTS_A_SECOND == 0:
                self._pass_a_second()
            found: dict[str, Any] = app.resolve(event, context)
            self._hold_to_its_route(event, found)
            return found

    def _pass_a_second(self) -> None:
        self.ports.clock.sleep_ms(1_000)
        for slice_no in range(self.ports.layout.slices):
            run_window(self.ports, slice_no, self.ports.clock.now_ms() // 1_000)

    def _hold_to_its_route(self, event: dict[str, Any], found: dict[str, Any]) -> None:
        """The committed document allows fields beyond those it names; the declared types do not."""
        http = event["requestContext"]["http"]
        try:
            conformity.check(http["method"], event["rawPath"], found["statusCode"], json.loads(found["body"]))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            self.faults.append(f"{http['method']} {event['rawPath']}: {error!r}")

    def failures(self) -> list[str]:
        """What the service itself has logged as a failure of its own."""
        signals = self.ports.signals
        assert isinstance(signals, KeptSignals)
        return [f"{facts}" for action, facts in signals.lines if action == "request_failed"]


class _Watched:
    """A resolver whose requests pass the world first."""

    def __init__(self, app: Any, world: Fuzzed) -> None:
        self._app, self._world = app, world
        self._static_routes, self._dynamic_routes = app._static_routes, app._dynamic_routes

    def resolve(self, event: dict[str, Any], context: Any) -> dict[str, Any]:
        return self._world.answer(self._app, event, context)


def make() -> Fuzzed:
    ports = fake_ports(MemoryStore(), Layout(shards=1, slices=1, pools=POOLS))
    ports = replace(ports, receiver=WorldQueue(_Sent(ports.clock, ports.sender)))  # type: ignore[arg-type]
    world = Fuzzed(ports)
    api = ApiUnderTest(ports)
    ends_at_ms = ports.clock.now_ms() + 300 * DAY_MS
    things = {team: _things(ports, api, team) for team in TEAMS}
    callers = [_caller(ports, Wanted(PLATFORM_TEAM, "platform", ends_at_ms))]
    for team in TEAMS:
        for role in ROLES:
            pools = (*POOLS, things[team]["pool"]) if role == "worker" else ()
            callers.append(_caller(ports, Wanted(team, role, ends_at_ms, "", pools)))
    world.known = {"callers": callers, "things": things, "marks": {team: things[team]["marks"] for team in TEAMS}}
    return world


def _caller(ports: Ports, wanted: Wanted) -> dict[str, str]:
    text = keys.create_key(ports, wanted, LOCAL)[1]
    return {"team": wanted.team, "role": wanted.role, "key": text}


def _things(ports: Ports, api: ApiUnderTest, team: str) -> dict[str, Any]:
    def do(method: str, path: str, body: object = None, **query: str) -> Any:
        status, answer = api.call(method, path, body, **query)
        assert status < 300, answer
        return answer

    secret = f"kept-by-{team}"
    target = {"pool": "default", "handler": "h"}
    work = {"team": team, "target": target, "payload": {"note": secret}}
    do("PUT", f"/teams/{team}", {"contact": f"ann of {team}"})
    pool = do("PUT", f"/teams/{team}/pools/own", {})["pool"]
    do("PUT", f"/calendars/{team}:days", {"dates": ["2026-12-25"]})
    for name in ("nightly", "weekly", "monthly"):
        do("POST", "/jobs", work | {"name": name, "schedule": {"cron": "0 2 * * *"}})
    timer = do("POST", "/timers", work | {"delay_s": 30 * 86_400})
    due = [do("POST", "/timers", work | {"delay_s": delay})["timer_id"] for delay in range(0, 40, 2)]
    ports.clock.sleep_ms(1_000)
    run_window(ports, 0, ports.clock.now_ms() // 1_000)
    refs = [run["ref"] for run in do("GET", "/runs", team=team)["runs"] if run["job_id"] in due]
    key, _ = keys.create_key(ports, Wanted(team, "viewer", ports.clock.now_ms() + DAY_MS), LOCAL)
    return {
        "team": team,
        "name": "own",
        "pool": pool,
        "job_id": f"{team}:nightly",
        "timer_id": timer["timer_id"],
        "run": due[0],
        "calendar_id": f"{team}:days",
        "key_id": key.key_id,
        "ref": refs[0],
        "marks": [team, secret],
    }
