"""Creating the timers of a fan-out through the API, in batches, as fast as the team's quota lets it.

Where it is stands in a place (`Place`): the number of lines that are done, kept in a file after each round. Protects
one-run and no-lost-timer: a line's timer has a client key of its own, so that one that is sent again is created once;
and the place moves only behind lines that were answered. A crash, or a file that is lost, costs repeats and nothing
else. Refuses to know flows and tables, as any other client.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, Protocol

from tickwork.client import ApiRefused, ApiUnreachable
from tickwork.core.errors import TickworkError
from tickwork.core.instants import iso
from tickwork.core.jobs.fan_outs import LINES_MAX, Window, key_of

BATCH: Final = 100
"""Timers of a request: as many as one may have."""
BUSY_TRIES_MAX: Final = 60
"""How often a batch is sent again that got nowhere: with the waits between them half an hour, for a quota that others
use up, or an API that is away. Then the fan-out stops where it is, and can go on later."""
WAIT_S_MAX: Final = 30.0
AHEAD_MS: Final = 60_000
"""What is due sooner is not created any more for the sake of being cancelled: it might start before that."""
_AGAIN: Final = ("quota-exceeded", "busy")
"""What is told of an entry that is to be sent again."""


class Api(Protocol):
    """What of the client is used: `tickwork.client.ApiClient`."""

    def post(self, path: str, body: object) -> Any: ...


class LineRefused(TickworkError):
    """A line's timer cannot be created at any time: what to change is in it."""


class Stuck(TickworkError):
    """Nothing could be created for a long time. It can go on later from where it is."""


@dataclass(frozen=True, slots=True)
class Place:
    """A fan-out and how far it is. `work`: what each timer says beside its payload and its time. `done`: lines, counted
    from 0, of which each was answered. `created`, `before`, `late`: timers of those that are new, that were there by an
    earlier try, and, of the new, those whose time had passed, so that they are due at once."""

    fan_out_id: str
    start_ms: int
    length_ms: int
    work: Mapping[str, Any]
    lines: int = 0
    done: int = 0
    created: int = 0
    before: int = 0
    late: int = 0
    cancelled: int = 0
    status: str = "running"

    @property
    def window(self) -> Window:
        return Window(self.start_ms, self.length_ms, self.lines)

    def timer(self, line: int, payload: object) -> dict[str, Any]:
        """What is asked of the API for a line."""
        due = {"at": iso(self.window.due_ms(line)), "client_key": key_of(self.fan_out_id, line)}
        return {**self.work, "payload": payload, **due}


def read_place(path: Path) -> Place | None:
    """A place that was kept; None: there is none."""
    try:
        return Place(**json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None


def keep_place(path: Path, place: Place) -> None:
    """Keep it: what is read is a whole place, the old one or the new one."""
    beside = path.with_name(f"{path.name}.new")
    with beside.open("w", encoding="utf-8") as file:
        json.dump(asdict(place), file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


@dataclass(slots=True)
class _Round:
    """What came of a batch. `is_busy`: something of it is to be sent again, when there is room."""

    is_busy: bool = False
    created: int = 0
    before: int = 0
    late: int = 0
    timer_ids: list[str] = field(default_factory=list)


@dataclass(slots=True)
class FanOut:
    """Creates what is missing of a fan-out. `keep` is given its place after each round; `parallel`: requests of one."""

    api: Api
    place: Place
    keep: Callable[[Place], object] = lambda _: None
    parallel: int = 4
    sleep: Callable[[float], object] = time.sleep
    now_ms: Callable[[], int] = lambda: int(time.time() * 1000)

    def run(self, payloads: Iterable[object]) -> Place:
        """Create a timer for each payload from the place on; `payloads` begins with line 0. LineRefused for one that
        cannot be created, Stuck where nothing goes on: what was created stays, and the place says how far it is."""
        for rounds in self._rounds(payloads, self.place.done, self._create):
            for count, one in rounds:
                done, place = self.place.done + count, self.place
                self.place = replace(
                    place,
                    done=done,
                    created=place.created + one.created,
                    before=place.before + one.before,
                    late=place.late + one.late,
                )
            self.keep(self.place)
        self.place = replace(self.place, status="created")
        self.keep(self.place)
        return self.place

    def cancel(self, payloads: Iterable[object]) -> Place:
        """Cancel the timers of the lines that were sent. Their ids are asked for by their keys, with the same request:
        what was on its way is created then, and cancelled; unless it is due before that, when it is left as it is.
        What has started goes on."""
        self.place = replace(self.place, status="cancelling", cancelled=0)
        self.keep(self.place)
        sent = islice(payloads, self.place.done + self.parallel * BATCH)
        for rounds in self._rounds(sent, 0, self._cancel):
            self.place = replace(self.place, cancelled=self.place.cancelled + sum(one.before for _, one in rounds))
            self.keep(self.place)
        self.place = replace(self.place, status="cancelled")
        self.keep(self.place)
        return self.place

    def _rounds(
        self, payloads: Iterable[object], done: int, send: Callable[[int, list[object]], _Round]
    ) -> Iterator[list[tuple[int, _Round]]]:
        """Rounds of requests at once, each with how many lines it has; no more is read of the payloads than that."""
        line, rest = done, islice(iter(payloads), done, None)
        with ThreadPoolExecutor(self.parallel) as pool:
            while batches := list(islice(_batches(rest), self.parallel)):
                sent = []
                for batch in batches:
                    sent.append((len(batch), pool.submit(send, line, batch)))
                    line += len(batch)
                if line > LINES_MAX:
                    raise LineRefused(f"a fan-out has at most {LINES_MAX:,} lines: make several")
                yield [(count, each.result()) for count, each in sent]

    def _create(self, line: int, payloads: list[object]) -> _Round:
        found, tries = _Round(), 0
        left = {line + n: self._asked(line + n, payload) for n, payload in enumerate(payloads)}
        if self.is_cancelling:
            left = {at: timer for at, timer in left.items() if at < self.place.done or self._is_ahead(at)}
        while left:
            found.is_busy = False
            left = self._ask(left, found)
            if found.is_busy:
                if (tries := tries + 1) == BUSY_TRIES_MAX:
                    raise Stuck(
                        f"no timer from line {min(left) + 1} on could be created: the quota, or the API, is busy"
                    )
                self.sleep(self._wait_s(line, tries))
        return found

    @property
    def is_cancelling(self) -> bool:
        return self.place.status == "cancelling"

    def _is_ahead(self, line: int) -> bool:
        return self.place.window.due_ms(line) > self.now_ms() + AHEAD_MS

    def _asked(self, line: int, payload: object) -> dict[str, Any]:
        """What is asked of the API: what would be due in the past is due at once."""
        timer = self.place.timer(line, payload)
        has_passed = not self.is_cancelling and self.place.window.due_ms(line) < self.now_ms()
        return _at_once(timer) if has_passed else timer

    def _wait_s(self, line: int, tries: int) -> float:
        """Longer each time, and another for each: many may wait for one quota."""
        share = zlib.crc32(f"{self.place.fan_out_id} {line} {tries}".encode()) / 2**32
        return min(WAIT_S_MAX, 0.5 * 2.0**tries) * (0.5 + share / 2)

    def _ask(self, timers: dict[int, dict[str, Any]], found: _Round) -> dict[int, dict[str, Any]]:
        """Those that are to be sent again, as they are then to be asked for."""
        try:
            told = self.api.post("/timers:batch", {"timers": list(timers.values())})["timers"]
        except ApiUnreachable:
            found.is_busy = True
            return timers
        except ApiRefused as error:
            if error.refuses_the_caller:
                raise
            if len(timers) == 1:
                return self._alone(timers, error, found)
            return {line: again for line in timers for again in self._ask({line: timers[line]}, found).values()}
        again: dict[int, dict[str, Any]] = {}
        for (line, timer), one in zip(timers.items(), told, strict=True):
            if "timer_id" in one:
                found.created += one["created"]
                found.before += not one["created"]
                found.late += bool(one["created"]) and "delay_s" in timer
                found.timer_ids.append(one["timer_id"])
            elif one["problem"] in _AGAIN:
                found.is_busy, again[line] = True, timer
            else:
                again |= self._otherwise(line, timer, one["problem"], str(one["detail"]), found)
        return again

    def _alone(self, timers: dict[int, dict[str, Any]], error: ApiRefused, found: _Round) -> dict[int, dict[str, Any]]:
        """A request for one timer that was refused as a whole."""
        ((line, timer),) = timers.items()
        return self._otherwise(line, timer, str(error.problem.get("type", "")).rpartition(":")[2], str(error), found)

    def _otherwise(
        self, line: int, timer: dict[str, Any], problem: str, detail: str, found: _Round
    ) -> dict[int, dict[str, Any]]:
        """A timer that was refused, as it is to be asked for then. One whose time has passed is due at once. What is
        there under its key is its own, from a try that had it due at another time."""
        if problem == "already-exists":
            found.before += 1
            return {}
        if problem == "bad-schedule" and "at" in timer:
            return {} if self.is_cancelling else {line: _at_once(timer)}
        raise LineRefused(f"line {line + 1}: {detail}")

    def _cancel(self, line: int, payloads: list[object]) -> _Round:
        """How many were cancelled stands where those are that were there before."""
        made = self._create(line, payloads)
        if not made.timer_ids:
            return _Round()
        for tries in range(BUSY_TRIES_MAX):
            try:
                told = self.api.post("/timers:cancel", {"timer_ids": made.timer_ids})["timers"]
                return _Round(before=sum(one["cancelled"] for one in told))
            except ApiUnreachable:
                self.sleep(self._wait_s(line, tries))
        raise Stuck(f"the timers from line {line + 1} on could not be cancelled: the API is busy")


def _at_once(timer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in timer.items() if name != "at"} | {"delay_s": 0}


def _batches(payloads: Iterator[object]) -> Iterator[list[object]]:
    while batch := list(islice(payloads, BATCH)):
        yield batch
