"""One random sequence: three clients whose answers get lost and who repeat, two workers, windows, and time.

A seed is a sequence. Everything that is seen goes to the model of promises, which raises `Broken`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.actions import asks, watching
from tests.actions.asks import Ask, respelled
from tests.actions.model import Broken, Job, Promises, hold
from tests.actions.wishes import Client, Wishes
from tests.actions.workers import Workers
from tests.actions.world import Kill, World
from tests.scenarios.stage import NOW_MS, Killed
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import kinds

STEPS: Final = 80
CLIENTS: Final = ("ann", "bob", "cyd")
LOST: Final = 0.25
"""How often a request's process dies on the way."""
REPEATED: Final = 0.15
"""How often a request that was answered is made again."""
FOR_GOOD: Final = 0.1
"""How often a client without an answer gives up."""
WAITS_S: Final = (0, 1, 1, 2, 5, 20, 70, 100)
"""Until a request is repeated."""
QUIET_S: Final = 700
"""After the last step: every lease lapses, every retry comes, and the audit of some minutes finds what was left."""
STANDS_S_MAX: Final = 45
"""How long windows may stand still in all: more would be an outage, after which policies decide."""


class Sequence:
    def __init__(self, seed: int, log: Callable[[str], object] = lambda _: None) -> None:
        self.rng = Random(seed)
        self.world = World()
        self.world.at_ms += SECOND_MS
        self.promises = Promises()
        self.world.on_message = lambda body: self.promises.message(body, self.world.at_ms)
        self.world.on_start = lambda held: self.promises.start(held, self.world.at_ms)
        self.workers = Workers(self.rng, self.world, self.promises, self.note)
        self.clients = [Client(name) for name in CLIENTS]
        self.wishes = Wishes(self.rng, self.world, self.promises, self.note)
        self._log = log

    def note(self, what: str) -> None:
        self.promises.note(what.partition(" ")[0])
        self._log(f"{(self.world.at_ms - NOW_MS) / 1000:8.0f}  {what}")

    def run(self) -> Promises:
        self.world.window()
        for _ in range(STEPS):
            who = self.rng.random()
            if who < 0.55:
                self._client(self.rng.choice(self.clients))
            elif who < 0.78:
                self.workers.step()
            else:
                self._time()
        self._end()
        return self.promises

    # --- time -------------------------------------------------------------------------------------------------

    def _time(self) -> None:
        drawn = self.rng.random()
        if drawn < 0.06:
            self._stand_still()
        elif drawn < 0.18:
            self._killed_window()
        else:
            self._go(self.rng.choice((1, 1, 2, 3, 5, 8, 13, 30)))

    def _go(self, seconds: int) -> None:
        self.world.go(seconds)
        self.note(f"time +{seconds} s")

    def _stand_still(self) -> None:
        seconds = min(self.rng.randint(8, 40), self._served_s() + STANDS_S_MAX - self.world.at_ms // SECOND_MS)
        if seconds <= 0:
            return
        self.world.at_ms += seconds * SECOND_MS
        self.note(f"standstill {seconds} s")

    def _killed_window(self) -> None:
        if self.world.at_ms // SECOND_MS - self._served_s() > STANDS_S_MAX:
            return
        self.world.at_ms += SECOND_MS
        scanner, last = self.world.process(), self.rng.randint(1, 9)

        def die() -> None:
            raise Killed

        scanner.after(lambda call: call.n == last, die)
        try:
            scanner.window()
        except Killed:
            self.promises.killed_ms = self.world.at_ms
            self.note(f"killed_window after call {last}")

    def _served_s(self) -> int:
        return self.world.lease().done

    # --- clients ----------------------------------------------------------------------------------------------

    def _client(self, client: Client) -> None:
        if client.owed is not None:
            if self.world.at_ms >= client.again_ms:
                self._send(client, client.owed)
            return
        if client.paging is not None:
            if client.paging.turn(self.world):
                client.paging = None
            return
        if client.made and self.rng.random() < REPEATED:
            self._send(client, self.rng.choice(client.made[-6:]))
            return
        ask = self.wishes.draw(client)
        if ask is not None:
            self._send(client, ask)
            client.made.append(ask)

    def _send(self, client: Client, ask: Ask) -> None:
        """Send a request, for the first time or again. What its answer may be depends on what has become of it."""
        kill = Kill(self.rng.randint(0, 7)) if self.rng.random() < LOST else None
        body: object = respelled(ask.body, self.rng) if ask.body is not None and ask.tries else ask.body
        meanwhile = (self.rng.randint(1, 6), self._meanwhile) if self.rng.random() < 0.1 else None
        ask.tries += 1
        ask.look()
        ask.sent_ms = self.world.at_ms
        is_repeat = ask.is_untouched()
        if ask.job is not None and not is_repeat:
            self._look_back(ask.job)
        with self.promises.in_flight():
            self._sent(client, ask, body, kill, meanwhile, is_repeat=is_repeat)

    def _sent(
        self,
        client: Client,
        ask: Ask,
        body: object,
        kill: Kill | None,
        meanwhile: tuple[int, Callable[[], object]] | None,
        *,
        is_repeat: bool,
    ) -> None:
        now_ms, epoch = self.world.at_ms, ask.epoch_now
        answer = self.world.call(ask.method, ask.path, body, kill=kill, meanwhile=meanwhile)
        told = "no answer" if answer is None else f"{answer.status} {_short(answer.body)}"
        effect = " EFFECT" if self.world.took_effect and answer is None else ""
        self.note(f"{ask.method} {client.name} {ask.path} {json.dumps(ask.body)} #{ask.tries} -> {told}{effect}")
        if answer is None:
            self._unanswered(client, ask, now_ms, is_repeat=is_repeat)
            return
        client.owed = None
        hold(answer.status < 500, "no-answer-is-our-fault", f"{ask.method} {ask.path} {ask.body}: {answer}")
        if is_repeat:
            ask.repeated(answer)
        if not is_repeat or ask.is_always_judged:
            ask.judge(answer, now_ms)
        if ask.granted(answer) and (ask.first is None or not is_repeat):
            ask.first, ask.has_effect, ask.epoch = answer, True, ask.epoch_now
        if answer.is_ok and ask.job is not None and (is_repeat or (ask.path == "/jobs" and ask.epoch_now != epoch)):
            ask.job.is_unsettled = False  # what the one that died was to see to has been seen to

    def _unanswered(self, client: Client, ask: Ask, now_ms: int, *, is_repeat: bool) -> None:
        if self.world.took_effect and not is_repeat:
            ask.effect(now_ms)
            if ask.job is not None:
                ask.job.is_unsettled = True
            ask.first, ask.has_effect, ask.epoch = None, True, ask.epoch_now
        client.owed = None if self.rng.random() < FOR_GOOD else ask
        client.again_ms = self.world.at_ms + self.rng.choice(WAITS_S) * SECOND_MS

    def _meanwhile(self) -> None:
        """In the midst of a request: a window, or a worker."""
        if self.rng.random() < 0.5:
            self.world.window()
        else:
            self.workers.take()

    def _look_back(self, job: Job) -> None:
        """Before something is done to a job: what was previewed of it must have come true so far."""
        until_ms = min(self.world.at_ms - SECOND_MS, watching.served_to(self.world))
        for one in self.wishes.previews:
            if one.job is job and one.epoch == job.epoch:
                one.check(self.world, until_ms)
        self.wishes.previews = [one for one in self.wishes.previews if one.job is not job]

    # --- the end ------------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Nobody does anything any more: everything that is due ends, and all is as it was promised."""
        for job in self.promises.jobs.values():
            if job.is_known:
                self._look_back(job)
        if self.rng.random() < 0.7:  # most of what there is to see then are timers and retries
            for job in self.promises.jobs.values():
                if job.definition is not None:
                    self.world.must("DELETE", f"/jobs/{job.id}")
                    job.becomes(None, self.world.at_ms, None)
        self._work_off()
        self.world.assert_chains_unbroken()
        due_ms = self.world.at_ms - QUIET_S * SECOND_MS
        for run in self.world.runs():
            if run.key.fire_at_ms <= due_ms:
                hold(run.ended, "every-end-recorded", f"{run.key.ref} is {run.status}")
        for timer_id in self.promises.timers.keys() - self.promises.forgotten:
            shown = self.world.must("GET", f"/timers/{timer_id}")
            self._ended_well(timer_id, shown)
        for job in self.promises.jobs.values():
            if job.definition is not None:
                shown = self.world.must("GET", f"/jobs/{job.id}")
                hold(asks.shows(shown, job.definition), "a-change-is-shown", shown)

    def _work_off(self) -> None:
        """Whatever there is ends well, backfills that stand still too."""
        for backfill_id in self.promises.backfills:
            self.world.ask("POST", f"/backfills/{backfill_id}/resume", {})
        self.world.go(QUIET_S, self.workers.work_off)
        for backfill_id, matched in self.promises.backfills.items():
            self._has_run_what_it_counted(backfill_id, matched)

    def _has_run_what_it_counted(self, backfill_id: str, matched: int) -> None:
        """Each instant of its list once, unless it was stopped."""
        shown = self.world.must("GET", f"/backfills/{backfill_id}")
        job_id, _, unique = backfill_id.rpartition("~")
        made = [run.key for run in self.world.runs() if f"#{kinds.BACKFILL}.{unique}" in run.key.ref]
        made = [key for key in made if key.job_id == job_id]
        hold(len({key.scheduled_at_ms for key in made}) == len(made), "a-backfill-runs-each-once", f"{shown} {made}")
        hold(shown["status"] in ("finished", "cancelled"), "a-backfill-ends", shown)
        hold(shown["running"] == 0, "a-backfill-ends", shown)
        wanted = matched if shown["status"] == "finished" else shown["launched"]
        hold(len(made) == wanted, "a-backfill-runs-what-it-counted", f"{shown} has made {len(made)} of {matched}")

    def _ended_well(self, timer_id: str, shown: Any) -> None:
        hold(shown["status"] in ("succeeded", "dead", "cancelled"), "no-lost-timer", shown)
        if shown["status"] == "cancelled":
            hold(shown["run_id"] in self.promises.stopped, "no-lost-timer", f"nobody has cancelled {timer_id}")


def _short(body: Any) -> str:
    text = json.dumps(body)
    return text if len(text) < 300 else f"{text[:300]}..."


def run_sequence(seed: int, log: Callable[[str], object] = lambda _: None) -> Promises:
    """Raises Broken, or whatever else goes wrong."""
    return Sequence(seed, log).run()


__all__ = ["Broken", "Sequence", "run_sequence"]
