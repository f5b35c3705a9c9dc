"""The HTTP API as the production worker sees it: a client whose calls are served by simulated processes that crash,
stall and lose their answers; its tries and timeouts are those of `tickwork.client`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tests.simulator.threads import current, wait
from tickwork.api import workers as routes
from tickwork.api.models import BeatIn, CompleteIn, LeaseIn, StartIn
from tickwork.client import FIRST_PAUSE_S, TIMEOUT_S, TRIES_MAX, ApiRefused, ApiUnreachable
from tickwork.core.errors import CallerError, WorldError
from tickwork.core.ledger.keys import parse_ref
from tickwork.flows.runs import pulling
from tickwork.ports import Ports
from tickwork.testing.process import FAILED, Process

if TYPE_CHECKING:
    from tests.simulator.world import World

type Answer = dict[str, Any]


class SimApi:
    """What `ApiClient.post` is to a worker."""

    def __init__(self, world: World) -> None:
        self._world = world

    def post(self, path: str, body: dict[str, Any], *, repeat: bool = True, timeout_s: float = TIMEOUT_S) -> Answer:
        """The answer; ApiRefused, or ApiUnreachable after the last try."""
        for tries in range(1, (TRIES_MAX if repeat else 1) + 1):
            if tries > 1:
                wait([], FIRST_PAUSE_S * 2 ** (tries - 2))
            answer = _Call(self._world, path, body).answer(timeout_s)
            if isinstance(answer, ApiRefused):
                raise answer
            if answer is not None:
                self._note(body, answer)
                return answer
            self._world.seen["worker's api call failed"] += 1
        raise ApiUnreachable("simulated")

    def _note(self, body: dict[str, Any], answer: Answer) -> None:
        """What a worker was told, it may believe."""
        asked = body.get("runs") or answer["runs"]
        for one, run in zip(asked, answer["runs"], strict=True):
            if run.get("lease_until"):
                until_ms = int(datetime.fromisoformat(run["lease_until"]).timestamp() * 1_000)
                self._world.checks.ledger.promised(run["ref"], run.get("token") or one["token"], until_ms)


class _Call:
    """One try: a process of the API that serves it, and a caller who waits for it, but not for ever."""

    def __init__(self, world: World, path: str, body: dict[str, Any]) -> None:
        self._world, self._path, self._body = world, path, body
        self._waiters: list[Callable[[], None]] = []
        self._answer: Answer | ApiRefused | None = None

    def answer(self, timeout_s: float) -> Answer | ApiRefused | None:
        """None when nothing came in time, or the call failed on the way."""
        caller = current()
        caller.park()  # the way there
        if self._world.kernel.now_ms >= self._world.api_down_until_ms:
            self._world.kernel.at(self._world.kernel.now_ms, lambda: Process(self._world, "api", self._serve))
        wait(self._waiters, timeout_s)
        return self._answer

    def _serve(self, process: Process) -> None:
        answer: Answer | ApiRefused | None
        try:
            answer = serve(process.ports, self._path, self._body)
        except WorldError:
            answer, process.state = None, FAILED
        except (CallerError, ValidationError) as error:
            answer = ApiRefused(422, {"detail": str(error)})
        else:
            if not any(run.get("reason") == "busy" for run in answer["runs"]):
                self._world.checks.answered(process)
        self._answer = answer
        for wake in self._waiters:
            wake()


def serve(ports: Ports, path: str, body: dict[str, Any]) -> Answer:
    """The worker's calls as the API's routes serve them; each entry answers for itself."""
    if path.endswith(":lease"):
        lease = LeaseIn.model_validate(body)
        pool = path.removeprefix("/pools/").removesuffix(":lease")
        leased = pulling.lease_runs(
            ports, pool, lease.worker, limit=lease.max, lease_s=lease.lease_s, wait_s=lease.wait_s
        )
        return {"runs": [routes._leased(one) for one in leased]}
    return {"runs": [_entry(ports, ref, call) for ref, call in _entries(ports, path, body)]}


def _entries(ports: Ports, path: str, body: dict[str, Any]) -> Iterator[tuple[str, Callable[[], Answer]]]:
    """Each entry's ref, and the route's own function for it. (Private: the route without its HTTP.)"""
    if path == "/runs:start":
        start = StartIn.model_validate(body)
        requests = [routes._start_request(one, start.worker, f"runs.{i}.") for i, one in enumerate(start.runs)]
        for one, request in zip(start.runs, requests, strict=True):
            yield one.ref, partial(routes._start, ports, one, request)
    elif path == "/runs:heartbeat":
        for beat in BeatIn.model_validate(body).runs:
            yield beat.ref, partial(routes._beat, ports, beat, parse_ref(beat.ref))
    else:
        for end in CompleteIn.model_validate(body).runs:
            yield end.ref, partial(routes._end, ports, end, parse_ref(end.ref))


def _entry(ports: Ports, ref: str, call: Callable[[], Answer]) -> Answer:
    answer: Answer = routes._answer(ports, ref, call)
    return answer
