"""What may become of an occurrence, and of the ones after it: each outcome in the words of docs/what-happens.md, with
what has to be seen for it to be true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.actions.states import AFTER, BEFORE, NEXT_MS, Setting
from tests.actions.world import Answer, Body, Held
from tests.scenarios.stage import NOW_MS
from tickwork.core.instants import MINUTE_MS, iso
from tickwork.core.ledger import kinds


def _granted(answer: Answer) -> None:
    assert answer.is_ok, answer


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of the occurrence, and what the one who acted was told."""

    text: str
    holds: Callable[[Setting], None]
    told: Callable[[Answer], None] = _granted


def _starts(at: Setting) -> list[Held]:
    """Attempts of the occurrence since somebody acted."""
    return [one for one in at.world.worked.starts[at.starts_before :] if one.run_id == at.run_id]


def _once(starts: list[Held]) -> None:
    attempts = [one.told["attempt"] for one in starts]
    assert attempts == sorted(set(attempts)), attempts


def _runs_with(payload: Body) -> Callable[[Setting], None]:
    def holds(at: Setting) -> None:
        starts = _starts(at)
        _once(starts)
        assert starts, "it never started"
        assert all(one.payload == payload for one in starts), [one.payload for one in starts]
        assert at.run()["status"] == "succeeded", at.run()

    return holds


def _never(status: str, why: str) -> Callable[[Setting], None]:
    def holds(at: Setting) -> None:
        assert not _starts(at), "it has started"
        run = at.run()
        assert run["status"] == status, run
        assert why in (run["reason"] or ""), run

    return holds


def _stays(at: Setting) -> None:
    assert not _starts(at), "it has started"
    assert at.run()["status"] in ("succeeded", "dead")


def _entry(name: str, **wanted: Any) -> Callable[[Answer], None]:
    def told(answer: Answer) -> None:
        _granted(answer)
        (entry,) = answer.body[name]
        assert {key: entry.get(key) for key in wanted} == wanted, entry

    return told


def _refused(problem: str) -> Callable[[Answer], None]:
    def told(answer: Answer) -> None:
        assert answer.status >= 400, answer
        assert answer.body["type"].endswith(problem), answer

    return told


_TOO_LATE = _entry("runs", accepted=False, problem="too-late")

RUNS = Fate("runs", _runs_with(BEFORE))
RUNS_CHANGED = Fate("runs as changed", _runs_with(AFTER))
AS_DISPATCHED = Fate("goes on as it was dispatched, in its retries too", _runs_with(BEFORE))
SKIPPED = Fate("is skipped, with the pause's reason", _never("skipped", "paused by local (ann): stocktaking"))
GIVEN_UP = Fate("is cancelled, with the version of the job", _never("cancelled", "the job was changed (version 2)"))
ENDED = Fate("stays as it ended", _stays)
CANCELLED = Fate("is cancelled, and starts no more", _never("cancelled", "not today"), _entry("runs", accepted=True))
STOPPED = Fate(
    "its worker is told to stop at the next heartbeat; no attempt follows",
    _never("cancelled", "not today"),
    _entry("runs", accepted=True, cancel_requested=True),
)
CANCEL_REFUSED = Fate("refused (`too-late`): it stays as it ended", _stays, _TOO_LATE)
DELETED = Fate("is cancelled with its job", _never("cancelled", "the job was deleted"))
REPLAYED = Fate("gets another attempt, as it was dispatched", _runs_with(BEFORE), _entry("runs", replayed=True))
NOT_DEAD_GOES_ON = Fate(
    "refused (`not_dead`): it goes its way", _runs_with(BEFORE), _entry("runs", replayed=False, reason="not_dead")
)
NOT_DEAD_ENDED = Fate("refused (`not_dead`): it stays", _stays, _entry("runs", replayed=False, reason="not_dead"))

_CALLED_OFF = "its group month-end was cancelled by local: called off"
WITH_ITS_GROUP = Fate("is cancelled with its group, and never starts", _never("cancelled", _CALLED_OFF))
NO_ATTEMPT_FOLLOWS = Fate("its worker goes on; no attempt follows", _never("cancelled", _CALLED_OFF))

LEFT_OUT = Fate("is skipped, with the reason", _never("skipped", "skipped by local (ann): the bank is closed"))
TOO_LATE_TO_SKIP = Fate("refused (`too-late`): it goes as dispatched", _runs_with(BEFORE), _refused("too-late"))
SKIP_REFUSED = Fate("refused (`too-late`): it stays as it ended", _stays, _refused("too-late"))


def _beside(at: Setting, kind: str) -> list[Held]:
    """Attempts, since somebody acted, of runs of the job that are not of its schedule."""
    return [one for one in at.world.worked.starts[at.starts_before :] if f"#{kind}." in one.ref]


def _and_one(kind: str, holds: Callable[[Setting], None]) -> Callable[[Setting], None]:
    """Beside what becomes of the occurrence: one run of a kind has run, once."""

    def both(at: Setting) -> None:
        holds(at)
        beside = _beside(at, kind)
        assert [(one.told["attempt"], one.payload) for one in beside] == [(1, BEFORE)], [one.told for one in beside]
        made = [one for one in at.runs() if f"#{kind}." in one["ref"]]
        assert [one["status"] for one in made] == ["succeeded"], made

    return both


def _and_none(kind: str, holds: Callable[[Setting], None]) -> Callable[[Setting], None]:
    def both(at: Setting) -> None:
        holds(at)
        assert not [one for one in at.runs() if f"#{kind}." in one["ref"]], "there is one beside it"

    return both


RUNS_BESIDE = Fate("runs; so does the one by hand, at once", _and_one(kinds.MANUAL, _runs_with(BEFORE)))
HELD_BY_HAND = Fate(
    "is skipped (`overlap`): the one by hand runs", _and_one(kinds.MANUAL, _never("skipped", "overlap"))
)
HELD = Fate("refused (`held`): it goes its way", _and_none(kinds.MANUAL, _runs_with(BEFORE)), _refused("held"))
ENDED_BESIDE = Fate("stays as it ended; the one by hand runs", _and_one(kinds.MANUAL, _stays))
NOT_PASSED = Fate(
    "refused: it has not passed", _and_none(kinds.BACKFILL, _runs_with(BEFORE)), _refused("invalid-field")
)
LIVE = Fate("refused: it is still to end", _and_none(kinds.BACKFILL, _runs_with(BEFORE)), _refused("invalid-field"))
AGAIN = Fate("stays as it ended, and another run does it again", _and_one(kinds.BACKFILL, _stays))

TIMER_CANCELLED = Fate("is cancelled, and never starts", _never("cancelled", "cancelled"))
TIMER_STARTED = Fate(
    "refused (`too-late`): cancel the run with `POST /runs:cancel`", _runs_with(BEFORE), _refused("too-late")
)
TIMER_ENDED = Fate("refused (`too-late`): it stays as it ended", _stays, _refused("too-late"))


@dataclass(frozen=True, slots=True)
class Then:
    """What becomes of the occurrences after it."""

    text: str
    holds: Callable[[Setting], None]


def _later(at: Setting) -> list[Held]:
    """Attempts of the schedule's other occurrences since somebody acted."""
    later = [one for one in at.world.worked.starts[at.starts_before :] if one.run_id != at.run_id]
    return [one for one in later if not any(f"#{kind}." in one.ref for kind in (kinds.MANUAL, kinds.BACKFILL))]


def _next_runs_with(payload: Body) -> Callable[[Setting], None]:
    def holds(at: Setting) -> None:
        later = _later(at)
        assert [one.told["scheduled_at"] for one in later] == [iso(NEXT_MS)], [one.told for one in later]
        assert later[0].payload == payload, later[0].told

    return holds


def _next_is_skipped(at: Setting) -> None:
    assert not _later(at)
    skipped = [one for one in at.runs() if one["scheduled_at"] == iso(NEXT_MS)]
    assert [one["status"] for one in skipped] == ["skipped"], skipped


def _no_more(at: Setting) -> None:
    assert not _later(at)


def _moved(at: Setting) -> None:
    minutes = [minute for minute in (45, 90, 135) if NOW_MS + minute * MINUTE_MS > at.acted_ms]
    later = [one.told["scheduled_at"] for one in _later(at)]
    assert later == [iso(NOW_MS + minute * MINUTE_MS) for minute in minutes], later


GO_ON = Then("run as before", _next_runs_with(BEFORE))
GO_ON_CHANGED = Then("run as changed", _next_runs_with(AFTER))
AT_NEW_TIMES = Then("run at the new times", _moved)
ARE_SKIPPED = Then("are skipped, until somebody resumes it", _next_is_skipped)
ARE_NO_MORE = Then("are no more", _no_more)
