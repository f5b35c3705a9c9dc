"""A simulated process: one invocation of a Lambda, one client call, one worker; with clocks of its own.

Owns crashing and pausing. The production code inside sees plain ports; a crash is a `BaseException` that unwinds it
at the call where it died, and nothing after that call happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from greenlet import getcurrent, greenlet

from tickwork.core.errors import Conflict, InvariantViolated, OutcomeUnknown, Throttled, WorldError
from tickwork.testing.faults import CALL, pause_ms
from tickwork.testing.ports import sim_ports
from tickwork.testing.violation import Violation

if TYPE_CHECKING:
    from tickwork.testing.world import SimWorld

_LATENCIES_MS = (1, 1, 2, 2, 3, 4, 6, 9, 15, 40)
_AFTER_SHARE = 0.2
"""How often time passes between a call's effect and what its caller does next; else the next call parks anyway."""
_LATE_EFFECT_MS = 45_000

RUNNING, ENDED, FAILED, CRASHED = "running", "ended", "failed", "crashed"


class Crashed(BaseException):
    """The process is dead."""

    ends_process = True


class _HostClocks:
    """The clocks of the host that a process runs on."""

    __slots__ = ()
    world: SimWorld
    host: int
    began_true_ms: int
    _frozen_ms: int

    def now_ms(self) -> int:
        """This host's wall clock: the true time, skewed."""
        return self.world.kernel.now_ms + self.world.host_skews_ms[self.host]

    def monotonic_ms(self) -> int:
        """This host's monotonic clock: it may stand still while the process is frozen."""
        return self.world.kernel.now_ms - self._frozen_ms

    @property
    def is_deceived(self) -> bool:
        """Whether its monotonic clock has stood still with it."""
        return self._frozen_ms > 0

    def earliest_ms(self) -> int:
        """The earliest that its wall clock can have said since it began: the clock may have jumped on the way."""
        return self.began_true_ms + min(self.world.host_skews_seen_ms[self.host])

    def latest_ms(self) -> int:
        """The latest that its wall clock can have said up to now."""
        return self.world.kernel.now_ms + max(self.world.host_skews_seen_ms[self.host])


class Process(_HostClocks):
    """One process. `owed`: the pending items it has put behind a cursor and must see to before it answers. `tokens`:
    the fencing tokens it was granted, by slice or run. `gave_up`: its caller was told of a failure. `met_failure`:
    a fault has struck a call of its own. `began_ms`: its own wall clock when it began (`began_true_ms`: the true time
    then). `is_whole`: a pause strikes all of it, not only a thread. `stood_until_ms`: the true time when its last pause
    was over; `stood_in`: the call that it was in."""

    __slots__ = (
        "_frozen_ms",
        "began_ms",
        "began_true_ms",
        "gave_up",
        "host",
        "is_whole",
        "kind",
        "met_failure",
        "name",
        "owed",
        "ports",
        "state",
        "stood_in",
        "stood_until_ms",
        "tokens",
        "world",
    )

    def __init__(self, world: SimWorld, kind: str, body: Callable[[Process], None], host: int | None = None) -> None:
        self.world = world
        self.kind = kind
        world.processes += 1
        self.name = f"{kind}-{world.processes}"
        self.host = world.rng.randrange(len(world.host_skews_ms)) if host is None else host
        self.state = RUNNING
        self.gave_up = self.met_failure = False
        self.owed: set[str] = set()
        self.tokens: dict[str, int] = {}
        self._frozen_ms = 0
        self.stood_until_ms, self.stood_in = -1, ""
        self.is_whole = True
        self.began_true_ms = world.kernel.now_ms
        self.began_ms = self.now_ms()
        self.ports = sim_ports(self)
        greenlet(self._run).switch(body)

    def thread(self, function: Callable[[], object]) -> None:
        """Another thread of this process, which runs from now on."""
        self.is_whole = False
        beside = greenlet(self._guard, self.world.kernel.hub)
        self.world.kernel.at(self.world.kernel.now_ms, lambda: beside.switch(lambda _: function()))

    def end(self) -> None:
        """From now on nothing of it happens, whatever its threads are at: it was killed, or has ended itself."""
        if self.state == RUNNING:
            self.state = CRASHED

    def _run(self, body: Callable[[Process], None]) -> None:
        self._guard(body)
        if self.state == RUNNING:
            self.state = FAILED if self.gave_up else ENDED

    def _guard(self, body: Callable[[Process], object]) -> None:
        """Run something of this process, and say what came of it."""
        world = self.world
        getcurrent().process = self
        try:
            body(self)
        except Crashed:
            if self.state != CRASHED:
                world.seen["crash"] += 1
                world.trace(self.name, "CRASH", "")
            self.state = CRASHED
        except InvariantViolated as error:
            self.state = FAILED
            world.fail(Violation("never-caught", f"{self.name} raised InvariantViolated: {error}"))
        except Violation as violation:
            self.state = FAILED
            world.fail(violation)
        except Exception as error:  # noqa: BLE001 - whatever the code under test lets out is a finding
            self.state = FAILED
            world.fail(Violation("no-surprise", f"{self.name} raised {error!r}"), error)

    # --- port calls -------------------------------------------------------------------------------------------

    def park(self) -> None:
        world = self.world
        if self.state == CRASHED:  # another of its threads met the end
            raise Crashed
        world.kernel.park(_LATENCIES_MS[int(world.rng.random() * 10)])

    def call[T](
        self, verb: str, detail: object, effect: Callable[[], T], kind: str = CALL, table: str | None = None
    ) -> T:
        """One port call: park, let the swarm decide, take effect, perhaps park again. `table`: where it goes to."""
        world = self.world
        world.port_calls += 1
        self.park()
        fault = world.faults.draw(world.rng, kind, None if table is None else (verb, table))
        if fault is not None:
            return self._faulty(fault, verb, detail, effect)
        result = effect()
        if world.timeline is not None:
            world.trace(self.name, verb, detail, result)
        if world.rng.random() < _AFTER_SHARE:
            self.park()
        return result

    def _faulty[T](self, fault: str, verb: str, detail: object, effect: Callable[[], T]) -> T:
        world = self.world
        world.seen[fault] += 1
        self.met_failure = True
        if world.timeline is not None:
            world.trace(self.name, f"{verb} !{fault}", detail)
        match fault:
            case "crash_before":
                raise Crashed
            case "throttle":
                raise Throttled("simulated")
            case "conflict":
                raise Conflict("simulated")
            case "unknown_lost":
                raise OutcomeUnknown("simulated: it never arrived")
            case "unknown_late":
                late_ms = world.rng.randint(1, _LATE_EFFECT_MS)
                world.kernel.at(world.kernel.now_ms + late_ms, lambda: _late(self, verb, detail, effect))
                raise OutcomeUnknown("simulated: it arrives late")
            case "pause_before":
                self._pause(verb)
        result = effect()
        if world.timeline is not None:
            world.trace(self.name, verb, detail, result)
        match fault:
            case "crash_after":
                raise Crashed
            case "unknown_done":
                raise OutcomeUnknown("simulated: the reply was lost")
            case "pause_after":
                self._pause(verb)
        return result

    def _pause(self, verb: str) -> None:
        world = self.world
        duration_ms = pause_ms(world.rng)
        if self.is_whole and world.faults.strikes(world.rng, "freeze"):
            world.seen["freeze"] += 1
            self._frozen_ms += duration_ms
        world.trace(self.name, "PAUSE", f"{duration_ms / 1000:.1f} s")
        world.kernel.park(duration_ms)
        self.stood_until_ms, self.stood_in = world.kernel.now_ms, verb


def _late(process: Process, verb: str, detail: object, effect: Callable[[], Any]) -> None:
    """What a call does long after its caller has given it up."""
    try:
        result = effect()
    except Violation as violation:
        process.world.fail(violation)
        return
    except WorldError:  # it arrives at a part that is broken
        return
    process.world.trace(process.name, f"{verb} (late)", detail, result)
