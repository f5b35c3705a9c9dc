"""Peers side by side: the same one-shots, once in peace (a burst, then a steady rate), once with kill -9 in mid-drain.

`make bench-peers`. Each job waits 50 ms; each peer has as many slots. Killed is what decides when a timer runs, when a
third of the burst has left it, and it is started again at once: tickwork's windows, Dynein's scheduler; APScheduler,
Celery's worker and BullMQ's are scheduler and worker in one. Lost: has not run when the peer's own recovery is over.
Ends with an error if tickwork lost any.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.peers.contestants import ALL, Tickwork
from benchmarks.peers.load import Load
from benchmarks.peers.outcome import Outcome, outcome
from benchmarks.peers.peer import Peer, Place
from tickwork.local import endpoint

WATCH_S = 300
AHEAD_S = 10
SETTLES_S = 15
"""Nothing new for so long after all have run: there will be no more doubles either."""
LOOK_S = 0.05
STARTED_S, ACKNOWLEDGED_S = 5, 2
"""What starting uses is not counted; what is written after the last effect is."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timers", type=int, default=5_000)
    parser.add_argument("--rate", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--port", type=int, default=4820)
    parser.add_argument("--only", nargs="*", choices=[kind.__name__ for kind in ALL], help="some of them")
    chosen = parser.parse_args()
    # For the clients of this process; the peers' processes get theirs from the peer.
    os.environ.update(endpoint.client_environ(chosen.port))
    print(
        f"{chosen.timers} due in one second, then {chosen.rate}/s for {chosen.seconds} s; {chosen.slots} slots.\n\n"
        "| peer | created /s | drained in s | its lag p50 / p99 s | steady lag p50 / p99 s "
        "| CPU ms a timer: own + service | kill -9 at: dispatched / run | lost | doubled | last one s |\n"
        + "|---" * 10
        + "|"
    )
    lost_by_tickwork = 0
    for number, kind in enumerate(kind for kind in ALL if not chosen.only or kind.__name__ in chosen.only):
        cells = ["", "", "", "", ""]
        if not kind.only_killed:
            with tempfile.TemporaryDirectory() as folder:
                peer = kind(Place(Path(folder), chosen.port + 4 * number, chosen.slots))
                cells, lost = in_peace(peer, chosen.timers, chosen.rate, chosen.seconds)
            lost_by_tickwork += lost * isinstance(peer, Tickwork)
        with tempfile.TemporaryDirectory() as folder:
            peer = kind(Place(Path(folder), chosen.port + 4 * number + 2, chosen.slots))
            more, lost = killed(peer, chosen.timers)
        lost_by_tickwork += lost * isinstance(peer, Tickwork)
        print("| " + " | ".join([kind.name, *cells, *more]) + " |", flush=True)
    return 1 if lost_by_tickwork else 0


def in_peace(peer: Peer, count: int, rate: int, seconds: int) -> tuple[list[str], int]:
    """The cells of a burst and of a steady rate, and how many were lost."""
    try:
        peer.start()
        time.sleep(STARTED_S)
        before = peer.cpu_s()
        burst = load_of(peer, "burst", count)
        created_s = peer.create(burst)
        came = watch(peer, burst)
        time.sleep(ACKNOWLEDGED_S)
        own_ms, service_ms = ((b - a) / count * 1_000 for a, b in zip(before, peer.cpu_s(), strict=True))
        steady = load_of(peer, "steady", rate * seconds, rate)
        peer.create(steady)
        kept = watch(peer, steady)
    finally:
        peer.stop()
    missing = [f" ({one.lost} LOST)" if one.lost else "" for one in (came, kept)]
    cells = [
        f"{count / created_s:.0f}",
        f"{came.lag_s(100):.1f}{missing[0]}",
        f"{came.lag_s(50):.1f} / {came.lag_s(99):.1f}",
        f"{kept.lag_s(50):.2f} / {kept.lag_s(99):.2f}{missing[1]}",
        f"{own_ms:.1f} + {service_ms:.1f}",
    ]
    return cells, came.lost + kept.lost


def killed(peer: Peer, count: int) -> tuple[list[str], int]:
    """The cells of a burst with a kill in its drain, and how many were lost."""
    try:
        peer.start()
        burst = load_of(peer, "burst", count)
        peer.create(burst)
        sleep_until(burst.due_ms)
        give_up_s = time.monotonic() + WATCH_S
        while (left := peer.dispatched()) < count // 3 and time.monotonic() < give_up_s:
            time.sleep(LOOK_S)
        peer.kill(*peer.victims)
        ran = len(peer.lines())
        peer.start_programs(*peer.victims)
        came, held = watch(peer, burst, at_least_s=peer.recovers_within_s), peer.held()
    finally:
        peer.stop()
    lost = f"{came.lost} ({held} of them come later)" if held else str(came.lost)
    return [f"{left} / {ran}", lost, str(came.doubled), f"{came.lag_s(100):.1f}"], came.lost


def load_of(peer: Peer, name: str, count: int, rate: int = 0) -> Load:
    """Due when it has been created, by a low guess, and some seconds more."""
    ahead_s = AHEAD_S + count // peer.creates_per_s
    return Load(name, count, (int(time.time()) + ahead_s) * 1_000, rate)


def watch(peer: Peer, load: Load, at_least_s: float = 0) -> Outcome:
    """Until all have run and the peer has settled, or nothing has run for as long as its recovery takes."""
    sleep_until(load.due_ms)
    began = since = time.monotonic()
    seen, have_all = 0, False
    while (now := time.monotonic()) < began + WATCH_S:
        lines = peer.lines()
        if len(lines) != seen:
            seen, since = len(lines), now
            have_all = not outcome(load, lines).lost
        if have_all and now >= began + at_least_s and (not at_least_s or now - since > SETTLES_S):
            break
        if now - since > peer.recovers_within_s:
            break
        time.sleep(LOOK_S * 4)
    return outcome(load, peer.lines())


def sleep_until(due_ms: int) -> None:
    time.sleep(max(0.0, due_ms / 1_000 - time.time()))


if __name__ == "__main__":
    sys.exit(main())
