"""Two workers over HTTP: they take runs, beat, complete, fail with texts of every kind, and sometimes simply vanish."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.actions.model import Promises, hold
from tests.actions.queue import is_xml
from tests.actions.world import Held, World
from tickwork.core.instants import SECOND_MS, parse_iso

ERRORS: Final = ("boom", "", "cannot open 'caf\udce9.txt'", "x" * 10_001, "odd \ufffe\uffff", "nul \x00")
WAITS_S: Final = (0, 0, 0, 3, 1.5, math.nan)


class Workers:
    def __init__(self, rng: Random, world: World, promises: Promises, note: Callable[[str], object]) -> None:
        self._rng, self._world, self._promises, self._note = rng, world, promises, note
        self.holding: list[Held] = []

    def step(self) -> None:
        if not self.holding or self._rng.random() < 0.4:
            self.take()
            return
        held = self.holding.pop(self._rng.randrange(len(self.holding)))
        drawn = self._rng.random()
        if self._has_lapsed(held):
            return
        if drawn < 0.15:
            self._note(f"vanish with {held.ref} {held.told['attempt']}")
        elif drawn < 0.25:
            self._beat(held)
        elif drawn < 0.35:
            self._hand_back(held)
        elif drawn < 0.6:
            self._fail(held)
        else:
            self._succeed(held)

    def take(self) -> None:
        """The first worker has every handler, the second is an older one, that lacks a handler."""
        if self._rng.random() < 0.8:
            found = self._world.take("w1", self._rng.randint(1, 3))
        else:
            found = self._world.take("w2", self._rng.randint(1, 3), handlers=["a"])
            hold(all(one.told["handler"] == "a" for one in found), "no-run-without-its-handler", found)
        self.holding += found
        for one in found:
            self._note(
                f"take {one.told['job_id']} {one.told['scheduled_at']} attempt {one.told['attempt']} {one.payload}"
            )

    def work_off(self) -> None:
        """Whatever there is ends well."""
        holding, self.holding = self.holding, []
        for held in holding:
            if not self._has_lapsed(held):
                self._succeed(held)
        while found := self._world.take("w1", 10):
            for held in found:
                self._succeed(held)

    def _has_lapsed(self, held: Held) -> bool:
        return self._world.at_ms >= parse_iso(held.told["lease_until"]) - SECOND_MS

    def _beat(self, held: Held) -> None:
        answer = self._world.beat(held)
        hold(answer["accepted"], "a-lease-is-trusted", answer)
        self._is_told(held, answer)
        held.told["lease_until"] = answer["lease_until"]
        self.holding.append(held)

    def _hand_back(self, held: Held) -> None:
        """The worker has to stop: nobody counts that against the run."""
        (told,) = self._world.must("POST", "/runs:release", {"runs": [held.named()]})["runs"]
        self._note(f"hand_back {held.told['job_id']} {held.told['attempt']}: {told}")
        hold(told["accepted"], "a-run-is-handed-back", told)
        self._promises.handed_back(held.run_id)

    def _is_recorded(self, held: Held, error: str) -> None:
        """A failure stands in the history, in words that every store and reader takes."""
        runs = self._world.must("GET", f"/jobs/{held.told['job_id']}/runs", limit="200")["runs"]
        (run,) = [one for one in runs if one["ref"] == held.ref]
        record = run["attempts"][-1]
        what = f"{error[:30]!r}: {record}"
        hold(record["outcome"] == "failed" and bool(record["error"]) == bool(error), "a-failure-told-is-recorded", what)
        hold(is_xml(record["error"]), "a-failure-told-is-recorded", what)

    def _is_told(self, held: Held, answer: dict[str, Any]) -> None:
        """A worker hears that its run is to stop, if and only if somebody has cancelled it."""
        wanted = bool(self._promises.why_stopped(held.run_id, held.told["job_id"]))
        hold(bool(answer.get("cancel")) == wanted, "a-worker-hears-of-it", f"{answer}, wanted {wanted}")

    def _succeed(self, held: Held) -> None:
        answer = self._world.complete(held)
        self._note(f"succeed {held.told['job_id']} {held.told['attempt']}")
        hold(answer["accepted"] and answer["status"] == "succeeded", "a-success-is-recorded", answer)

    def _fail(self, held: Held) -> None:
        outcome = self._rng.choice(("failed", "failed", "failed", "failed_permanent"))
        wait_s, error = self._rng.choice(WAITS_S), self._rng.choice(ERRORS)
        entries = [held.named(outcome=outcome, error=error, **({"retry_after_s": wait_s} if wait_s else {}))]
        if self._rng.random() < 0.2:
            entries.append({"ref": held.ref, "token": "none"})
        now_ms = self._world.at_ms
        answer = self._world.ask("POST", "/runs:complete", {"runs": entries})
        self._note(f"fail {held.told['job_id']} {held.told['attempt']} {outcome} {error[:20]!r} {wait_s}: {answer}")
        hold(answer.is_ok, "a-failure-told-is-recorded", f"{answer} to {outcome} {error[:30]!r} {wait_s}")
        told = answer.body["runs"][0]
        self._is_recorded(held, error)
        self._promises.failed(
            held, told, now_ms, 0 if math.isnan(wait_s) else wait_s, permanent=outcome == "failed_permanent"
        )
