"""One pass of the watchdog: the deadlines that were reached, then the incidents that are open (O2).

It shares nothing with firing but the tables: a function, a schedule and an alarm of its own. The order of writes, and
what a crash between two of them leaves:

- a deadline is reached and all is well: the next deadline is put, then this one is taken. Between: both stand, and this
  one is judged again, to the same end.
- a deadline is reached and the job is silent: the incident is opened, then the deadline is taken. Between: the incident
  stands, the deadline is judged again, finds it there, and is taken.
- an incident is told: it is claimed, the message goes out, and that is noted. Between: whoever finds the claim a little
  later tells it again, under the same name.
- an incident is over: that is noted together with the next deadline, those who were told hear of it, and it is taken
  away. Between: as above.

So a job that is watched has a deadline ahead or an open incident at any moment. Protects: what cannot be read is
`unknown`, is looked at again, and opens nothing; what fails for one job costs that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tickwork.core.errors import Throttled, WorldError
from tickwork.core.instants import MINUTE_MS
from tickwork.core.ledger.items import Unreadable
from tickwork.core.ledger.tables import TEAMS
from tickwork.core.ledger.values import whole
from tickwork.core.ledger.writes import Absent, Is, Item, Put, Update
from tickwork.core.watch import wheel
from tickwork.core.watch.wheel import Deadline
from tickwork.flows.ledger.commit import commit
from tickwork.flows.ledger.reading import pages
from tickwork.flows.watch import incidents
from tickwork.flows.watch.judging import Judge
from tickwork.ports import Ports

BUDGET_MS = 45_000
"""Of a pass: within its function's timeout, and before the next one begins."""
PAGE = 200
FIRST, LAST = "!", "~"


@dataclass(slots=True)
class Pass:
    """What a pass has done. `behind_min`: how many minutes of deadlines are still to be looked through."""

    judged: int = 0
    opened: int = 0
    unknown: int = 0
    told: int = 0
    closed: int = 0
    behind_min: int = 0


def watch(ports: Ports, *, budget_ms: int = BUDGET_MS) -> Pass:
    """One pass. Throttled at its end when something could not be read: the next pass looks again, and this one is
    seen to have failed."""
    done, end_ms = Pass(), ports.clock.monotonic_ms() + budget_ms
    judge = Judge(ports)
    try:
        _turn_wheel(ports, judge, done, end_ms)
    finally:  # whatever is wrong with the wheel, who is to be told is told
        incidents.see_to_all(ports, judge, done)
    ports.signals.observe("watch.behind_minutes", done.behind_min)
    ports.signals.log("watched", judged=done.judged, opened=done.opened, unknown=done.unknown, told=done.told)
    if done.unknown:
        ports.signals.count("watch.unknown_total", done.unknown)
        raise Throttled(f"{done.unknown} jobs or incidents could not be judged")
    return done


def _turn_wheel(ports: Ports, judge: Judge, done: Pass, end_ms: int) -> None:
    """Look through the minutes that are over. The place stays where something is left: what was done there is gone
    from the wheel, so that coming back costs its reads."""
    last = wheel.looked_through(ports.clock.now_ms())
    place, first = _place(ports, last)
    held: int | None = None
    minute = first
    while minute <= last and ports.clock.monotonic_ms() < end_ms:
        served = [_serve(ports, judge, one, done) for one in _deadlines(ports, minute, done)]
        if held is None and not all(served):
            held = minute
        minute += 1
    done.behind_min = last + 1 - minute
    _move(ports, place, minute if held is None else held)


def _place(ports: Ports, last: int) -> tuple[Item | None, int]:
    """(the place as it is stored, the first minute to look through). Where none is, nothing was ever put before this
    version: it begins with the present, and looks back as far as a deadline is put ahead at least."""
    item = ports.store.get(TEAMS, wheel.PLACE)
    try:
        return item, (last - wheel.AHEAD_MS // MINUTE_MS) if item is None else whole(item.get("minute"))
    except ValueError as error:
        raise Unreadable(f"the watchdog's place: {error}") from error


def _move(ports: Ports, before: Item | None, minute: int) -> None:
    """A refusal is another watchdog's move: both have looked, and the next pass goes on from where it stands."""
    if before is None:
        commit(ports, Put(TEAMS, wheel.PLACE | {"minute": minute}, Absent()))
    elif before["minute"] != minute:
        commit(ports, Update(TEAMS, wheel.PLACE, Is("minute", int(before["minute"])), set={"minute": minute}))


def _deadlines(ports: Ports, minute: int, done: Pass) -> Iterator[Deadline]:
    for spread in range(wheel.SPREADS):
        for page in pages(ports, TEAMS, wheel.partition(minute, spread), FIRST, LAST, limit=PAGE):
            for item in page.items:
                try:
                    yield wheel.deadline_from(item)
                except Unreadable as error:
                    done.unknown += 1
                    ports.signals.log("deadline_unreadable", why=str(error))


def _serve(ports: Ports, judge: Judge, one: Deadline, done: Pass) -> bool:
    """Whether a deadline is done with."""
    try:
        verdict = judge.of(one.job_id, one.silence_s)
        done.judged += 1
        if verdict.job is not None and verdict.job.deadline_mark != one.mark:
            commit(ports, wheel.taken(one))  # a change has put one of its own
            return True
        if verdict.incident is not None:
            is_open = incidents.open_one(ports, verdict.incident)
            done.opened += is_open is True
            if is_open is None:  # the one before is ending: this one is looked at when it has ended
                return False
        elif verdict.expected is not None:
            assert verdict.job is not None
            ahead = wheel.deadline(
                verdict.job, verdict.expected.by_ms, verdict.expected.silence_s, ports.clock.now_ms()
            )
            commit(ports, wheel.put(ahead))
        commit(ports, wheel.taken(one))  # a refusal: another watchdog has taken it
        return True
    except WorldError as error:
        done.unknown += 1
        ports.signals.log("job_not_judged", job_id=one.job_id, verdict="unknown", error=repr(error))
        return False
