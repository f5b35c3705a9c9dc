"""The HTTP API as the production worker sees it: a client whose calls are served by simulated processes that crash,
stall and lose their answers; its tries and timeouts are those of `tickwork.client`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from tests.simulator.threads import current, wait
from tickwork.api.fields import NoQuery
from tickwork.api.routing import Call
from tickwork.api.workers import routes
from tickwork.api.workers.bodies import BeatIn, CompleteIn, LeaseIn, ReleaseIn, StartIn, UnhandledIn
from tickwork.client import PAUSE_S, TIMEOUT_S, TRIES_MAX, ApiRefused, ApiUnreachable
from tickwork.core.access.actors import LOCAL
from tickwork.core.errors import CallerError, WorldError
from tickwork.ports import Ports
from tickwork.testing.process import FAILED, Process

if TYPE_CHECKING:
    from tests.simulator.world import World

_SLOW_MS = (500, 4_000, 12_000, 25_000)
"""How long an answer may be on its way: a call waits for thirty seconds."""
_LATE_MS = (50, 300, 1_000, 4_000, 8_000)
_UNFORESEEN_SHARE = 0.5
_OF_RUNS = frozenset({"start", "heartbeat", "complete", "lease"})
"""Calls that are answered run by run, and say what a worker has."""

type Answer = dict[str, Any]


class SimApi:
    """What `ApiClient.post` is to a worker."""

    def __init__(self, world: World) -> None:
        self._world = world

    def post(self, path: str, body: dict[str, Any], *, repeat: bool = True, timeout_s: float = TIMEOUT_S) -> Answer:
        """The answer; ApiRefused, or ApiUnreachable after the last try."""
        client = self._world.checks.handling.clients.get(current())
        if path != "/runs:unhandled" or client is None:
            return self._post(path, body, repeat, timeout_s)
        with client.at_work():  # it is told by the threads that tell the queue
            return self._post(path, body, repeat, timeout_s)

    def _post(self, path: str, body: dict[str, Any], repeat: bool, timeout_s: float) -> Answer:
        asked = body.get("runs", [])
        asked_ms = self._world.kernel.now_ms
        self._asks(path, asked)
        for tries in range(1, (TRIES_MAX if repeat else 1) + 1):
            if tries > 2:  # the second follows at once
                wait([], PAUSE_S * 2 ** (tries - 2))
            call = _Call(self._world, path, body)
            answer = call.answer(timeout_s)
            if isinstance(answer, ApiRefused):
                self._unanswered(path, asked, asked_ms, is_refused=True)
                raise answer
            if answer is not None and self._world.faults.strikes(self._world.rng, "odd_answer"):
                self._world.seen["odd_answer"] += 1
                self._unanswered(path, asked, asked_ms)
                if path == "/runs:complete" and self._world.rng.random() < _UNFORESEEN_SHARE:
                    raise ValueError("simulated: what nobody has foreseen")
                return {"runs": "simulated: a proxy's words"}
            if answer is not None:
                self._note(body, answer)
                self._answered(path, asked, answer.get("runs", []), (asked_ms, call.given_ms))
                return answer
            self._world.seen["worker's api call failed"] += 1
        self._unanswered(path, asked, asked_ms)
        raise ApiUnreachable("simulated")

    def _asks(self, path: str, asked: list[Answer]) -> None:
        """What a worker is about to say or to ask for."""
        checks, process = self._world.checks, current()
        match path:
            case "/runs:start":
                checks.handling.starts(process, asked)
            case "/runs:complete":
                checks.workers.reports(asked)
                for one in asked:
                    checks.duties.reports(one)
            case "/runs:heartbeat":
                for one in asked:
                    checks.duties.asks_beat(one)
            case "/runs:release":
                for one in asked:
                    until_ms = self._world.kernel.now_ms + one.get("stops_in_s", 0) * 1_000
                    checks.ledger.gave_up(one["ref"], one["token"], until_ms)
                    checks.duties.releases(one)

    def _answered(self, path: str, asked: list[Answer], runs: list[Answer], when: tuple[int, int]) -> None:
        """What a worker was told: when it had asked, and when that was given."""
        verb, checks, process = path.rpartition(":")[2], self._world.checks, current()
        if verb in _OF_RUNS:
            checks.workers.answered(path, asked or runs, runs, when)
        if verb == "start":
            checks.handling.answered(process, asked, runs)
        for one, run in zip(asked or runs, runs, strict=True):
            match verb:
                case "lease":
                    checks.duties.granted(process, run, when[1])
                    checks.groups.granted(process, run["ref"], run["token"], 0)
                case "start" if run.get("granted"):
                    checks.duties.granted(process, run, when[0])
                    checks.groups.granted(process, run["ref"], run["token"], when[0])
                case "heartbeat":
                    checks.duties.beat(one, run, when[0])
                case "complete":
                    checks.duties.reported(one, run)
                case "release":
                    checks.duties.released(one, run)

    def _unanswered(self, path: str, asked: list[Answer], asked_ms: int, *, is_refused: bool = False) -> None:
        """Nothing came that a worker can read, or a refusal of the whole call."""
        checks = self._world.checks
        checks.workers.unanswered(path, asked)
        if path == "/runs:heartbeat":
            for one in asked:
                checks.duties.beat(one, None, asked_ms)
        if path == "/runs:start" and not is_refused:
            checks.handling.answered(current(), asked, None)

    def _note(self, body: dict[str, Any], answer: Answer) -> None:
        """What a worker was told, it may believe."""
        if "runs" not in answer:
            return
        asked = body.get("runs") or answer["runs"]
        for one, run in zip(asked, answer["runs"], strict=True):
            if run.get("lease_until"):
                token, claim = run.get("token") or one["token"], one.get("claim", "")
                self._world.checks.ledger.granted(run["ref"], token, claim, one.get("attempt", 0))
                until_ms = int(datetime.fromisoformat(run["lease_until"]).timestamp() * 1_000)
                self._world.checks.ledger.promised(run["ref"], run.get("token") or one["token"], until_ms)


class _Call:
    """One try: a process of the API that serves it, and a caller who waits for it, but not for ever."""

    def __init__(self, world: World, path: str, body: dict[str, Any]) -> None:
        self._world, self._path, self._body = world, path, body
        self._waiters: list[Callable[[], None]] = []
        self._answer: Answer | ApiRefused | None = None
        self.given_ms = 0
        """When it was answered, and set out on its way back."""

    def answer(self, timeout_s: float) -> Answer | ApiRefused | None:
        """None when nothing came in time, or the call failed on the way."""
        caller = current()
        caller.park()  # the way there
        if self._world.kernel.now_ms >= self._world.api_down_until_ms:
            self._world.kernel.at(self._world.kernel.now_ms + self._late_ms(), self._arrive_there)
        wait(self._waiters, timeout_s)
        return self._answer

    def _late_ms(self) -> int:
        """How long the question is on its way: what is asked after it may overtake it."""
        if not self._world.faults.strikes(self._world.rng, "late_call"):
            return 0
        self._world.seen["late_call"] += 1
        return self._world.rng.choice(_LATE_MS)

    def _arrive_there(self) -> None:
        Process(self._world, "api", self._serve)

    def _serve(self, process: Process) -> None:
        answer: Answer | ApiRefused | None
        try:
            answer = serve(process.ports, self._path, self._body)
        except WorldError:
            answer, process.state = None, FAILED
        except (CallerError, ValidationError) as error:
            answer = ApiRefused(422, {"detail": str(error)})
        else:
            if any(run.get("reason") == "busy" for run in answer.get("runs", ())):
                process.gave_up = True
            else:
                self._world.checks.answered(process)
        world = self._world
        self.given_ms = world.kernel.now_ms
        if answer is not None and world.faults.strikes(world.rng, "slow_answer"):
            world.seen["slow_answer"] += 1
            late_ms = world.rng.choice(_SLOW_MS)
            world.kernel.at(world.kernel.now_ms + late_ms, lambda: self._arrive(answer))
            return
        self._arrive(answer)

    def _arrive(self, answer: Answer | ApiRefused | None) -> None:
        self._answer = answer
        for wake in self._waiters:
            wake()


def serve(ports: Ports, path: str, body: dict[str, Any]) -> Answer:
    """The worker's calls as the API's routes serve them; each entry answers for itself."""
    kind, handler = _HANDLERS[path.rpartition(":")[2]]
    pool = path.removeprefix("/pools/").partition(":")[0]
    call: Call[Any, Any] = Call(
        ports=ports, path={"pool": pool}, query=NoQuery(), body=kind.model_validate(body), actor=LOCAL
    )
    _, answer = handler(call)
    return dict(answer)


_HANDLERS: dict[str, tuple[type[BaseModel], Callable[[Call[Any, Any]], tuple[int, Any]]]] = {
    "start": (StartIn, routes.start_runs),
    "heartbeat": (BeatIn, routes.heartbeat_runs),
    "complete": (CompleteIn, routes.complete_runs),
    "release": (ReleaseIn, routes.release_runs),
    "unhandled": (UnhandledIn, routes.count_unhandled_runs),
    "lease": (LeaseIn, routes.lease_runs),
}
