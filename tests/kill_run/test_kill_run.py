"""`make run` ended in every way at random moments: no part outlives it, it starts again, what it accepted is there.

What may be lost is what docs/local.md says: when the endpoint itself is killed, or the disk is full, what was written
after its last save.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from tests.support.machine import eventually, free_port
from tests.support.terminal_session import TerminalSession, processes_of
from tickwork.client import ApiRefused
from tickwork.local.snapshots import MARK

TIMES = int(os.environ.get("KILL_TIMES", "10"))
SEED = int(os.environ.get("KILL_SEED", "1"))
READY_WITHIN_S = 90
GONE_WITHIN_S = 60
BEFORE_IT_IS_READY = 0.25
"""Of the kills."""
SLOWER_MAX = 8
"""A start after a kill, against the first one of this machine: it may wait for what is left of its predecessor."""
SAVES_THE_REST = ("kill -9", "SIGTERM", "SIGHUP", "closed terminal")
KILLS_THE_ENDPOINT = ("kill -9 of the endpoint", "kill -9 of all")
DISK_IS_FULL = 0.2
"""Of the ends of a session that was ready: nothing more can be written to any file of it, as on a full disk."""
ON_A_FULL_DISK_S = 3.0
FULL_FIRST = 1
"""This end is surely one of them: a short trial has it too."""
OLDER_LOOKED_FOR = 50
"""Of what was there at a start before, at each start; at the last one, all of it: looked for each time, two hundred
ends would be two hours of looking."""
TOLD_EVERY = 10
CANNOT_SAVE = "the state cannot be saved (is the disk full?)"


class Accepted:
    """Timers that the API has answered for, with the moment before they were asked for."""

    def __init__(self) -> None:
        self.at_s: dict[str, float] = {}
        self.lost = 0

    def create_until(self, session: TerminalSession, end_s: float, rng: random.Random) -> None:
        while time.monotonic() < end_s:
            body = {"team": "payments", "delay_s": 86_400, "target": {"pool": "default", "handler": "x"}}
            timer = session.api.post("/timers", body, repeat=False)
            self.at_s[timer["timer_id"]] = time.time()
            time.sleep(rng.uniform(0, 0.1))

    def missing(self, session: TerminalSession, rng: random.Random, unseen: set[str], *, all_of_them: bool) -> set[str]:
        """Of the `unseen`, which no start has looked for yet, and of some or all of the others."""
        seen = sorted(self.at_s.keys() - unseen)
        chosen = seen if all_of_them else rng.sample(seen, min(OLDER_LOOKED_FOR, len(seen)))
        return {timer_id for timer_id in [*unseen, *chosen] if not _is_there(session, timer_id)}


def _is_there(session: TerminalSession, timer_id: str) -> bool:
    try:
        return bool(session.api.get(f"/timers/{timer_id}"))
    except ApiRefused as error:
        if error.status == 404:
            return False
        raise


def end(session: TerminalSession, way: str) -> None:
    if way == "closed terminal":
        session.close_terminal()
    elif way == "kill -9 of the endpoint":
        if (pid := session.endpoint_pid()) is not None:
            os.kill(pid, signal.SIGKILL)
        else:  # not there yet: then the session
            session.process.kill()
    elif way == "kill -9 of all":
        session.kill_all()
    else:
        signum = {"kill -9": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGHUP": signal.SIGHUP}[way]
        session.process.send_signal(signum)


def fill_the_disk(session: TerminalSession) -> None:
    """No file of the session can grow from now on, as on a full disk: Python ignores SIGXFSZ, and the write fails."""
    for pid in processes_of(session.state):
        with suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def test_whatever_ends_a_session_nothing_outlives_it_and_nothing_more_is_lost_than_we_say(tmp_path: Path) -> None:
    rng, accepted, state, ways = random.Random(SEED), Accepted(), tmp_path / "state", Counter[str]()
    ports = free_port(), free_port()
    starts_s: list[float] = []
    gone_s: list[float] = []
    session: TerminalSession | None = None
    may_be_lost, unseen = set[str](), set[str]()
    began_s = time.monotonic()
    try:
        for number in range(TIMES + 1):
            begun_s = time.monotonic()
            session = TerminalSession(state, *ports)
            early = 0 < number < TIMES and rng.random() < BEFORE_IT_IS_READY
            if early:
                time.sleep(rng.uniform(0, starts_s[0]))
            else:
                _until_ready(session)
                starts_s.append(time.monotonic() - begun_s)
                missing = accepted.missing(session, rng, unseen | may_be_lost, all_of_them=number == TIMES)
                assert missing <= may_be_lost, f"after {ways}: {len(missing)} are lost"
                accepted.lost += len(missing)
                for timer_id in missing:
                    del accepted.at_s[timer_id]
                may_be_lost, known = set(), set(accepted.at_s)
                accepted.create_until(session, time.monotonic() + rng.uniform(0, 4), rng)
            full = not early and number < TIMES and (number == FULL_FIRST or rng.random() < DISK_IS_FULL)
            if full:
                fill_the_disk(session)
                accepted.create_until(session, time.monotonic() + ON_A_FULL_DISK_S, rng)
                eventually(session.text, lambda shown: CANNOT_SAVE in shown, within_s=READY_WITHIN_S)
            if not early:
                unseen = accepted.at_s.keys() - known
            way = "SIGTERM" if number == TIMES else rng.choice(SAVES_THE_REST + KILLS_THE_ENDPOINT)
            end(session, way)
            ways[way + (", while it started" if early else ", the disk full" if full else "")] += 1
            if full or way in KILLS_THE_ENDPOINT:
                saved_at_s = (state / "aws" / MARK).stat().st_mtime if (state / "aws" / MARK).exists() else 0.0
                may_be_lost |= {timer_id for timer_id, at_s in accepted.at_s.items() if at_s >= saved_at_s}
            ended_s = time.monotonic()
            _until_gone(session, way)
            gone_s.append(time.monotonic() - ended_s)
            if number % TOLD_EVERY == 0:
                print(
                    f"\n{number} ends in {(time.monotonic() - began_s) / 60:.0f} min: {dict(ways)}", end="", flush=True
                )
                print(f"; {len(accepted.at_s)} timers kept, {accepted.lost} lost with a killed endpoint", flush=True)
    finally:
        if session is not None:
            session.kill_all()
    print(f"\n{sum(ways.values())} ends: {dict(ways)}")
    print(f"{len(accepted.at_s)} timers kept, {accepted.lost} lost with a killed endpoint or a full disk")
    print(f"first start {starts_s[0]:.1f} s, later at most {max(starts_s[1:]):.1f} s", end="; ")
    print(f"all parts gone after at most {max(gone_s):.1f} s")
    assert len(accepted.at_s) > TIMES, "next to nothing was accepted: nothing was tested"
    assert max(starts_s[1:]) <= SLOWER_MAX * starts_s[0]


def _until_ready(session: TerminalSession) -> None:
    def ready() -> bool:
        assert session.process.poll() is None, session.text()[-3_000:]
        return session.answers()

    eventually(ready, bool, within_s=READY_WITHIN_S)


def _until_gone(session: TerminalSession, way: str) -> None:
    """No process of the session may be left; looked for by what only they have."""
    try:
        eventually(lambda: processes_of(session.state), lambda left: not left, within_s=GONE_WITHIN_S)
    except AssertionError as error:
        raise AssertionError(f"after {way}: {error}\n{session.text()[-2_000:]}") from None
    session.process.wait(10)
    session.close_terminal()
