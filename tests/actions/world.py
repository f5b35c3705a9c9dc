"""A whole service in virtual time that is spoken to over HTTP only: clients whose calls may die at any port call,
workers that lease over HTTP, and windows.

Owns the queue with its receipts, the going of time, and what workers were given. Refuses to know what ought to happen.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.actions.queue import Queue, Received, is_xml
from tests.scenarios.stage import Call, Killed, Process, Stage
from tests.support.http import ApiUnderTest
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger.tables import JOBS, TIMERS
from tickwork.core.ledger.writes import Committed
from tickwork.flows.audit.reconciling import reconcile
from tickwork.ports import TICKS_QUEUE, Layout, OutMessage, Ports, SendReport

LAYOUT = Layout(shards=2, slices=1, pools=("default",))
IDLE_STEP_S = 50
"""How far time goes at once while nothing is due: less than what a slice takes for an outage."""
AUDIT_EVERY_MS = 300 * SECOND_MS

type Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any

    @property
    def is_ok(self) -> bool:
        return self.status < 300


@dataclass(frozen=True, slots=True)
class Kill:
    """The n-th port call of a request is the last one that the API's process makes: its client has no answer. 0: it
    dies before it has made any."""

    call: int


@dataclass(slots=True)
class Held:
    """A run as a worker got it."""

    told: Body
    at_ms: int

    @property
    def ref(self) -> str:
        return str(self.told["ref"])

    @property
    def run_id(self) -> str:
        return str(self.told["run_id"])

    @property
    def payload(self) -> Any:
        return self.told.get("payload")

    def named(self, **more: Any) -> Body:
        return {"ref": self.ref, "token": self.told["token"], "receipt": self.told["receipt"], **more}


@dataclass(slots=True)
class Worked:
    """What workers were given: every attempt that started, in order."""

    starts: list[Held] = field(default_factory=list)

    def of(self, run_id: str) -> list[Held]:
        return [one for one in self.starts if one.run_id == run_id]


class World(Stage):
    """One team's service: a stage whose clients and workers speak HTTP."""

    def __init__(self) -> None:
        super().__init__(LAYOUT)
        self.queue = Queue(self)
        self.worked = Worked()
        self.audited_ms = self.at_ms
        self.calls_made = 0
        """Port calls of the last request."""
        self.took_effect = False
        """Whether the last request has written something of a job or a timer."""
        self._serving: list[_Noting] = []
        self._apis: list[ApiUnderTest] = []
        self.on_message: Callable[[Body], object] = lambda _: None
        self.on_start: Callable[[Held], object] = lambda _: None

    def put(self, queue: str, messages: Sequence[OutMessage]) -> SendReport:
        if queue == TICKS_QUEUE:
            return SendReport()
        refused = tuple((i, "not XML") for i, message in enumerate(messages) if not is_xml(message.body))
        for message in messages:
            if is_xml(message.body):
                self.on_message(json.loads(message.body))
                self.queue.put(message)
        return SendReport(refused=refused)

    def copy(self) -> World:
        """Another world as this one is now."""
        world = World()
        world.at_ms, world.audited_ms = self.at_ms, self.audited_ms
        world.store, world.ids = copy.deepcopy(self.store), self.ids
        world.queue.messages = copy.deepcopy(self.queue.messages)
        world.worked = copy.deepcopy(self.worked)
        return world

    # --- clients ----------------------------------------------------------------------------------------------

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kill: Kill | None = None,
        meanwhile: tuple[int, Callable[[], object]] | None = None,
        **query: str,
    ) -> Answer | None:
        """One request, served by a process of its own; None when that died before it had answered. `meanwhile`: what
        others do just before its n-th port call."""
        process = _Noting(self)
        self._serving.append(process)
        if meanwhile is not None:
            process.before(lambda call: call.n == meanwhile[0], meanwhile[1])
        if kill is not None:
            (process.after if kill.call else process.before)(lambda call: call.n == max(kill.call, 1), _die)
        try:
            status, found = self._api().call(method, path, body, **query)
        except Killed:
            return None
        finally:
            self._serving.pop()
            self.calls_made, self.took_effect = len(process.calls), process.took_effect
        return Answer(status, found)

    def _api(self) -> ApiUnderTest:
        """The API as the innermost process serves it. A resolver is at one request at a time, and dear to build."""
        depth = len(self._serving)
        if depth > len(self._apis):
            of = partial(_Part, self._serving, depth - 1)
            receiver = of("receiver")
            ports = Ports(of("clock"), of("store"), of("sender"), self.signals, self.ids, self.layout, receiver)
            self._apis.append(ApiUnderTest(ports))
        return self._apis[depth - 1]

    def ask(self, method: str, path: str, body: object = None, **query: str) -> Answer:
        answer = self.call(method, path, body, kill=None, meanwhile=None, **query)
        assert answer is not None
        return answer

    def must(self, method: str, path: str, body: object = None, **query: str) -> Any:
        """The answer's body; the request must be granted."""
        answer = self.ask(method, path, body, **query)
        assert answer.is_ok, (method, path, body, answer)
        return answer.body

    # --- workers ----------------------------------------------------------------------------------------------

    def take(self, worker: str = "w", limit: int = 10, **more: Any) -> list[Held]:
        told = self.must("POST", "/pools/default:lease", {"worker": worker, "max": limit, **more})
        held = [Held(one, self.at_ms) for one in told["runs"]]
        self.worked.starts += held
        for one in held:
            self.on_start(one)
        return held

    def complete(self, held: Held, outcome: str = "succeeded", **more: Any) -> Body:
        (told,) = self.must("POST", "/runs:complete", {"runs": [held.named(outcome=outcome, **more)]})["runs"]
        return dict(told)

    def beat(self, held: Held) -> Body:
        (told,) = self.must("POST", "/runs:heartbeat", {"runs": [held.named()]})["runs"]
        return dict(told)

    def work(self, *_: object) -> None:  # type: ignore[override]
        """Workers take whatever is there, and complete it."""
        while self.queue.has_visible() and (held := self.take()):
            for one in held:
                if self.beat(one).get("cancel"):
                    self.complete(one, "cancelled")
                else:
                    self.complete(one)

    # --- time -------------------------------------------------------------------------------------------------

    def go(self, seconds: float, each: Callable[[], object] = lambda: None) -> None:
        self.go_to(self.at_ms + int(seconds * SECOND_MS), each)

    def go_to(self, until_ms: int, each: Callable[[], object] = lambda: None) -> None:
        """On to an instant: a window wherever something is due (and now and then, as the ticker has it), the reconciler
        every five minutes; `each` after every window."""
        while self.at_ms < until_ms:
            coming_ms = min(until_ms, self.at_ms + IDLE_STEP_S * SECOND_MS, self._next_due_ms())
            self.at_ms = max(coming_ms, self.at_ms + 1)
            self.window()
            if self.at_ms - self.audited_ms >= AUDIT_EVERY_MS:
                self.audited_ms = self.at_ms
                reconcile(self.process().ports)
            each()

    def window(self) -> None:
        for slice_no in range(self.layout.slices):
            self.process().window(slice_no)

    def work_to(self, until_ms: int) -> None:
        """On to an instant, with workers that complete whatever comes."""
        self.work()
        self.go_to(until_ms, self.work)

    def _next_due_ms(self) -> int:
        """The next second in which a window or a worker has something to do."""
        later = [int(item["sk"][:10]) * SECOND_MS for item in self.store.items(TIMERS) if item["status"] == "pending"]
        hidden = [message.visible_ms for message in self.queue.messages if not message.gone]
        return min((at_ms for at_ms in later + hidden if at_ms > self.at_ms), default=self.at_ms + 10**9)


class _Part:
    """A port of whichever process serves the request at a depth of nesting."""

    def __init__(self, serving: list[_Noting], depth: int, part: str) -> None:
        self._serving, self._depth, self._part = serving, depth, part

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(self._serving[self._depth], self._part), name)


class _Noting(Process):
    """A process that remembers whether it has written anything of a job or a timer."""

    took_effect = False

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.clock, self.store, self.sender = self.ports.clock, self.ports.store, self.ports.sender
        self.receiver = Received(self, world.queue)

    def call[T](self, verb: str, what: str, detail: Any, effect: Callable[[], T]) -> T:
        def noted() -> T:
            result = effect()
            written = isinstance(result, Committed) and any(write.table in _OF_CLIENTS for write in detail)
            self.took_effect = self.took_effect or written
            return result

        return super().call(verb, what, detail, noted)


_OF_CLIENTS = (JOBS, TIMERS)


def _die() -> None:
    raise Killed


def is_step(call: Call) -> bool:
    """Whether a scanner is about to move a job's chain."""
    return call.sets("next_scheduled_at_ms")


def is_send(call: Call) -> bool:
    return call.verb == "send" and call.what != TICKS_QUEUE
