"""What the production worker does with messages and claims (W2, W3, W12, W7): it hides a message as long as its lease
lasts, deletes that of a run that has ended, shows that of one that it has handed back, starts none whose handler it has
not, and names a claim again when, and only when, nobody knows what became of it.

Judged at the call: what the queue makes of it is the queue's. A call that had to wait for a thread is not judged.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from tickwork.core.ledger.messages import read_ready
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tests.simulator.checks.duties import Duty
    from tests.simulator.workers import SimSqsClient
    from tests.simulator.world import World
    from tickwork.testing.process import Process

_UNDECIDED = frozenset({"busy", "contended", "unreadable"})
_AT_ONCE_MS = 1_000
_SOON_MS = 2_000
_LONGER_MS = 3_000
"""A message may stay hidden for so much longer than its lease."""

type Message = tuple[str, int, str]
"""What a start names of its message: the run, the attempt, the retry."""


class HandlingChecks:
    """`clients` are the queues of workers that have one; `names` the handlers of each worker."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.clients: dict[Process, SimSqsClient] = {}
        self.names: dict[Process, frozenset[str]] = {}
        self._numbers: dict[tuple[Process, str], set[int]] = defaultdict(set)
        self._shown: dict[tuple[Process, str], tuple[int, int]] = {}
        self._declined_ms: dict[tuple[Process, str], int] = {}
        self._dropped: set[tuple[Process, str]] = set()
        self._kept: dict[Process, dict[Message, str]] = defaultdict(dict)
        self._spent: set[str] = set()

    # --- messages ---------------------------------------------------------------------------------------------

    def received(self, process: Process, number: int, body: str) -> None:
        """It has a message in its hands."""
        if (ref := _ref_in(body)) is not None:
            self._numbers[process, ref].add(number)

    def _is_alone(self, process: Process, ref: str) -> bool:
        """Whether it had but one message of the run: of several nobody here can say which one is the attempt's."""
        return len(self._numbers[process, ref]) == 1

    def shows(self, process: Process, body: str, seconds: int) -> None:
        """It asks that a message be visible in so many seconds."""
        if (ref := _ref_in(body)) is None:
            return
        now_ms = self._world.kernel.now_ms
        self._shown[process, ref] = now_ms, seconds
        duty = self._world.checks.duties.of(process, ref)
        if (
            duty is None
            or not self._is_alone(process, ref)
            or self._declined_ms.get((process, ref), 0) >= duty.arrived_ms
        ):
            return  # a start that finds its run held hides its message as long as it is told to
        if not duty.is_over and not duty.released_ms and duty.ended_as is None:
            hidden_ms = seconds * 1_000
            if hidden_ms > duty.lease_ms + _LONGER_MS and now_ms + hidden_ms > duty.end_ms + _LONGER_MS:
                self._fail(
                    "bounded-lag", f"{process.name} hides {ref} for {seconds} s, and has it for {duty.lease_ms} ms"
                )

    def drops(self, process: Process, body: str) -> None:
        """It asks that a message be deleted."""
        if (ref := _ref_in(body)) is not None:
            self._dropped.add((process, ref))

    def extended(self, duty: Duty) -> None:
        """A lease was given or lengthened: its message stays hidden with it, or another worker is told of it."""
        client, end_ms = self.clients.get(duty.process), duty.end_ms
        if client is None:
            return

        def look() -> None:
            at_ms, seconds = self._shown.get((duty.process, duty.ref), (0, 0))
            is_idle = duty.is_over or duty.released_ms or duty.end_ms != end_ms or duty.ended_as is not None
            if (
                not is_idle
                and client.is_free
                and self._is_alone(duty.process, duty.ref)
                and at_ms + seconds * 1_000 < end_ms
            ):
                self._fail("bounded-attempts", f"{duty.process.name} has not hidden {duty.ref} with its lease")

        self._world.kernel.at(self._world.kernel.now_ms + _SOON_MS, look)

    def is_useless(self, duty: Duty) -> None:
        """An end was taken: the message has nothing more to start."""
        if duty.process not in self.clients or duty.process.kind != "real-worker":
            return

        def look() -> None:
            if duty.process.state == "running" and (duty.process, duty.ref) not in self._dropped:
                self._fail(
                    "every-end-recorded", f"{duty.process.name} keeps the message of {duty.ref}, which has ended"
                )

        self._world.kernel.at(self._world.kernel.now_ms + _AT_ONCE_MS, look)

    def given_back(self, duty: Duty, stops_in_s: int) -> None:
        """The platform has taken a run back: its message is to be seen when its worker is gone."""
        since_ms = self._world.kernel.now_ms
        if duty.process not in self.clients:
            return

        def look() -> None:
            at_ms, seconds = self._shown.get((duty.process, duty.ref), (0, 0))
            is_judged = duty.process.state == "running" and self._is_alone(duty.process, duty.ref)
            if is_judged and (at_ms < since_ms or seconds != stops_in_s):
                self._fail("bounded-lag", f"{duty.process.name} has handed {duty.ref} back, and hides its message")

        self._world.kernel.at(since_ms + _AT_ONCE_MS, look)

    # --- starts -----------------------------------------------------------------------------------------------

    def starts(self, process: Process, asked: list[dict[str, Any]]) -> None:
        """It asks for runs."""
        for one in asked:
            handler = self._world.checks.ledger.handler_of(one["ref"])
            if handler and handler not in self.names.get(process, {handler}):
                self._fail("untouched", f"{process.name} asks for {one['ref']}, and has no handler {handler}")
            if one["claim"] in self._spent:
                self._fail("one-attempt-running", f"{process.name} names a claim of {one['ref']} once more")
            kept = self._kept[process].pop(_message(one), one["claim"])
            if kept != one["claim"]:
                self._fail("bounded-attempts", f"{process.name} asks for {one['ref']} anew, which may be its own")

    def answered(self, process: Process, asked: list[dict[str, Any]], answers: list[dict[str, Any]] | None) -> None:
        """Its starts were answered; None: nobody knows what they have done."""
        if process.kind != "real-worker":
            return
        for index, one in enumerate(asked):
            answer = None if answers is None else answers[index]
            is_open = answer is None or (answer.get("reason") in _UNDECIDED and not answer.get("discard"))
            if not (answer or {}).get("granted"):
                self._declined_ms[process, one["ref"]] = self._world.kernel.now_ms
            if is_open and not (answer or {}).get("granted"):
                self._kept[process][_message(one)] = one["claim"]
            else:
                self._spent.add(one["claim"])

    def _fail(self, invariant: str, what: str) -> None:
        self._world.fail(Violation(invariant, what))


def _message(one: dict[str, Any]) -> Message:
    return one["ref"], int(one.get("attempt", 1)), str(one.get("retry_ref", ""))


def _ref_in(body: str) -> str | None:
    try:
        return str(read_ready(body)["ref"])
    except (ValueError, RecursionError):
        return None
