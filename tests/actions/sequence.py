"""One random sequence: three clients whose answers get lost and who repeat, two workers, windows, and time.

A seed is a sequence. Everything that is seen goes to the model of promises, which raises `Broken`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.actions import asks, watching
from tests.actions.asks import Ask, WantedTimer, respelled
from tests.actions.model import TEAM, Broken, Definition, Job, Promises, hold
from tests.actions.watching import Paging, Preview
from tests.actions.workers import Workers
from tests.actions.world import Body, Kill, World
from tests.scenarios.stage import Killed
from tickwork.core.instants import SECOND_MS, iso

STEPS: Final = 70
CLIENTS: Final = ("ann", "bob", "cyd")
JOBS: Final = ("j0", "j1", "j2")
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


@dataclass(slots=True)
class _Client:
    name: str
    owed: Ask | None = None
    """A request without an answer."""
    again_ms: int = 0
    paging: Paging | None = None
    made: list[Ask] = field(default_factory=list)


class Sequence:
    def __init__(self, seed: int, log: Callable[[str], object] = lambda _: None) -> None:
        self.rng = Random(seed)
        self.world = World()
        self.world.at_ms += SECOND_MS
        self.promises = Promises()
        self.world.on_message = lambda body: self.promises.message(body, self.world.at_ms)
        self.world.on_start = lambda held: self.promises.start(held, self.world.at_ms)
        self.workers = Workers(self.rng, self.world, self.promises, self.note)
        self.clients = [_Client(name) for name in CLIENTS]
        self.previews: list[Preview] = []
        self.marks = 0
        self.keys = 0
        self._log = log

    def note(self, what: str) -> None:
        self.promises.note(what.partition(" ")[0])
        self._log(f"{(self.world.at_ms - 1_793_318_400_000) / 1000:8.0f}  {what}")

    def run(self) -> Promises:
        self.world.window()
        for _ in range(STEPS):
            who = self.rng.random()
            if who < 0.5:
                self._client(self.rng.choice(self.clients))
            elif who < 0.75:
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
        elif drawn < 0.12:
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
        scanner, last = self.world.process(), self.rng.randint(1, 6)

        def die() -> None:
            raise Killed

        scanner.after(lambda call: call.n == last, die)
        try:
            scanner.window()
        except Killed:
            self.note(f"killed_window after call {last}")

    def _served_s(self) -> int:
        return self.world.lease().done

    # --- clients ----------------------------------------------------------------------------------------------

    def _client(self, client: _Client) -> None:
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
        ask = self._draw(client)
        if ask is not None:
            self._send(client, ask)
            client.made.append(ask)

    def _send(self, client: _Client, ask: Ask) -> None:
        """Send a request, for the first time or again. What its answer may be depends on what has become of it."""
        kill = Kill(self.rng.randint(0, 7)) if self.rng.random() < LOST else None
        body: object = respelled(ask.body, self.rng) if ask.body is not None and ask.tries else ask.body
        meanwhile = (self.rng.randint(1, 6), self._meanwhile) if self.rng.random() < 0.1 else None
        ask.tries += 1
        is_repeat = ask.is_untouched()
        if ask.job is not None and not is_repeat:
            self._look_back(ask.job)
        ask.look()
        with self.promises.in_flight():
            self._sent(client, ask, body, kill, meanwhile, is_repeat=is_repeat)

    def _sent(
        self,
        client: _Client,
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
        if answer.is_ok and (ask.first is None or not is_repeat):
            ask.first, ask.has_effect, ask.epoch = answer, True, ask.epoch_now
        if answer.is_ok and ask.job is not None and (is_repeat or ask.epoch_now != epoch):
            ask.job.is_unsettled = False

    def _unanswered(self, client: _Client, ask: Ask, now_ms: int, *, is_repeat: bool) -> None:
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
        for one in self.previews:
            if one.job is job and one.epoch == job.epoch:
                one.check(self.world, until_ms)
        self.previews = [one for one in self.previews if one.job is not job]

    # --- what they want -----------------------------------------------------------------------------------------

    def _draw(self, client: _Client) -> Ask | None:
        job = self.promises.job(self.rng.choice(JOBS))
        wish = self.rng.choice(_WISHES)
        return wish(self, client, job)

    def _definition(self, *, is_job: bool) -> Definition:
        self.marks += 1
        definition = Definition(
            mark=self.marks,
            handler=self.rng.choice("ab"),
            lease_s=self.rng.choice((30, 40, 50)),
            max_attempts=self.rng.randint(1, 3),
            base_s=self.rng.choice((2, 5, 9)),
            schedule=self._schedule() if is_job else "",
            max_lateness_s=self.rng.choice((0, 0, 5)) if is_job else 0,
            is_long=self.rng.random() < 0.2,
        )
        self.promises.definitions[definition.mark] = definition
        return definition

    def _schedule(self) -> str:
        now_ms = self.world.at_ms
        drawn = self.rng.random()
        if drawn < 0.65:
            spec: Body = {"rate": f"{self.rng.choice((5, 7, 12, 30, 60))} seconds", "anchor": iso(1_793_318_400_000)}
        elif drawn < 0.75:
            spec = {"cron": "* * * * *"}
        elif drawn < 0.85:
            spec = {"at": iso(now_ms + self.rng.randint(3, 60) * SECOND_MS)}
        else:
            end = iso(now_ms + self.rng.randint(20, 90) * SECOND_MS)
            spec = {"rate": "7 seconds", "anchor": iso(1_793_318_400_000), "end": end}
        return json.dumps(spec)

    def _create(self, _: _Client, job: Job) -> Ask:
        if job.definition is not None and self.rng.random() < 0.3:
            return asks.create_job(job, job.definition)
        return asks.create_job(job, self._definition(is_job=True))

    def _change(self, _: _Client, job: Job) -> Ask | None:
        base = job.definition
        if base is None:
            return None
        shown = self.world.must("GET", f"/jobs/{job.id}")
        hold(job.version in (None, shown["version"]), "a-version-is-a-change", f"{job} is at {shown['version']}")
        job.version = shown["version"]
        drawn = self._definition(is_job=True)
        kept = [name for name in ("handler", "schedule", "max_attempts", "max_lateness_s") if self.rng.random() < 0.5]
        new = asks.merged(drawn, base, kept) if self.rng.random() < 0.85 else base
        self.promises.definitions[new.mark] = new
        return asks.change_job(job, shown["version"], base, new)

    def _pause(self, client: _Client, job: Job) -> Ask:
        until_ms = self.world.at_ms // SECOND_MS * SECOND_MS + self.rng.randint(5, 60) * SECOND_MS
        return asks.pause_job(job, client.name, until_ms if self.rng.random() < 0.4 else 0)

    def _resume(self, client: _Client, job: Job) -> Ask:
        return asks.resume_job(job, client.name)

    def _delete(self, _: _Client, job: Job) -> Ask:
        return asks.delete_job(job)

    def _timers(self, _: _Client, __: Job) -> Ask:
        wanted = []
        for _number in range(self.rng.choice((1, 1, 2, 3))):
            self.keys += 1
            delay_s = self.rng.randint(0, 40)
            when: Body = {"delay_s": delay_s}
            if self.rng.random() < 0.5:
                when = {"at": iso(self.world.at_ms + (delay_s + 1) * SECOND_MS)}
            wanted.append(WantedTimer(f"key-{self.keys}", self._definition(is_job=False), when))
        return asks.create_timers(self.promises, wanted)

    def _cancel_next(self, _: _Client, job: Job) -> Ask | None:
        """The coming occurrence of a job, by its nominal time."""
        if job.definition is None:
            return None
        coming = self.world.must("GET", f"/jobs/{job.id}")["next"]
        if coming is None:
            return None
        named = {"job_id": job.id, "scheduled_at": coming["scheduled_at"]}
        runs = self.world.must("GET", f"/jobs/{job.id}/runs", limit="50")["runs"]
        run = next(one for one in runs if one["scheduled_at"] == coming["scheduled_at"])
        return asks.cancel_run(self.promises, run, named, lambda: self._read_again(run, by="scheduled_at"))

    def _cancel_any(self, _: _Client, __: Job) -> Ask | None:
        runs = self.world.must("GET", "/runs", team=TEAM, limit="30")["runs"]
        if not runs:
            return None
        run = self.rng.choice(runs)
        return asks.cancel_run(self.promises, run, {"ref": run["ref"]}, lambda: self._read_again(run))

    def _replay(self, _: _Client, __: Job) -> Ask | None:
        dead = self.world.must("GET", "/dead-letters", team=TEAM, limit="10")["runs"]
        if not dead:
            return None
        run = self.rng.choice(dead)
        return asks.replay(self.promises, run, lambda: self._read_again(run))

    def _read_again(self, run: Body, by: str = "ref") -> None:
        """The run as it stands now. Of several items of one instant the one that counts."""
        runs = self.world.must("GET", f"/jobs/{run['job_id']}/runs", limit="200")["runs"]
        found = [one for one in runs if one[by] == run[by]]
        live = [one for one in found if one["status"] != "cancelled"]
        run.update(next(iter(live or found), run))

    def _preview(self, _: _Client, job: Job) -> None:
        if job.is_unsettled:
            return
        found = watching.preview(self.world, job)
        if found is not None:
            self.previews.append(found)
            self.note(f"preview of {job.id}: {[(row['scheduled_at'][11:19], row['note']) for row in found.rows]}")

    def _list(self, client: _Client, job: Job) -> None:
        status = self.rng.choice(("", "queued", "queued", "succeeded", "dead", "cancelled", "skipped"))
        drawn = self.rng.random()
        if drawn < 0.6:
            cancels = status == "queued" and self.rng.random() < 0.5
            client.paging = watching.runs_list(self.world, status, self._cancel_page if cancels else lambda _: None)
        elif drawn < 0.7:
            client.paging = watching.jobs_list(self.promises)
        elif drawn < 0.85 and job.is_known:
            client.paging = watching.history_list(self.world, job)
        else:
            client.paging = watching.dead_list(self.world)
        self.note(f"list {client.paging.path} {client.paging.query}")

    def _cancel_page(self, page: list[Body]) -> None:
        if not page:
            return
        body = {"runs": [{"ref": one["ref"]} for one in page]}
        for entry in self.world.must("POST", "/runs:cancel", body)["runs"]:
            hold(entry["accepted"], "a-cancellation-is-granted", entry)
            self.promises.cancelled(entry["run_id"], entry["job_id"], "with its page")

    def _twice(self, _: _Client, job: Job) -> None:
        """A key that stands twice: nothing is done."""
        body = b'{"by": "ann", "reason": "one", "reason": "two"}'
        answer = self.world.ask("POST", f"/jobs/{job.id}/pause", body)
        hold(400 <= answer.status < 500, "a-key-stands-once", answer)
        hold(not self.world.took_effect, "a-key-stands-once", answer)

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
        self.world.go(QUIET_S, self.workers.work_off)
        self.world.assert_chains_unbroken()
        due_ms = self.world.at_ms - QUIET_S * SECOND_MS
        for run in self.world.runs():
            if run.key.fire_at_ms <= due_ms:
                hold(run.ended, "every-end-recorded", f"{run.key.ref} is {run.status}")
        for timer_id in self.promises.timers:
            shown = self.world.must("GET", f"/timers/{timer_id}")
            self._ended_well(timer_id, shown)
        for job in self.promises.jobs.values():
            if job.definition is not None:
                shown = self.world.must("GET", f"/jobs/{job.id}")
                hold(shown["target"]["handler"] == job.definition.handler, "a-change-is-shown", shown)

    def _ended_well(self, timer_id: str, shown: Any) -> None:
        hold(shown["status"] in ("succeeded", "dead", "cancelled"), "no-lost-timer", shown)
        if shown["status"] == "cancelled":
            hold(shown["run_id"] in self.promises.stopped, "no-lost-timer", f"nobody has cancelled {timer_id}")


def _short(body: Any) -> str:
    text = json.dumps(body)
    return text if len(text) < 300 else f"{text[:300]}..."


type _Wish = Callable[[Sequence, _Client, Job], Ask | None]
_WISHES: Final[tuple[_Wish, ...]] = (
    *(Sequence._create,) * 5,
    *(Sequence._change,) * 4,
    *(Sequence._pause,) * 2,
    *(Sequence._resume,) * 2,
    *(Sequence._delete,) * 2,
    *(Sequence._timers,) * 4,
    *(Sequence._cancel_next,) * 3,
    *(Sequence._cancel_any,) * 2,
    *(Sequence._replay,) * 2,
    *(Sequence._preview,) * 4,
    *(Sequence._list,) * 4,
    Sequence._twice,
)


def run_sequence(seed: int, log: Callable[[str], object] = lambda _: None) -> Promises:
    """Raises Broken, or whatever else goes wrong."""
    return Sequence(seed, log).run()


__all__ = ["Broken", "Sequence", "run_sequence"]
