"""Many runs in one call, each answered for itself: in order, whatever becomes of the others (F14, A10).

Owns what a batch and its entries have in common. Refuses to know what the calls do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from tickwork.api.fields import Batch, Unread
from tickwork.api.workers.answers import DeclinedRun
from tickwork.core.errors import InvalidField, NotFound, WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.runs.attempts import Declined
from tickwork.flows.runs import isolating
from tickwork.ports import Ports

INVALID = "invalid"
"""The reason given for an entry that cannot be read."""


class Entry(Protocol):
    @property
    def ref(self) -> str: ...


def each[One: Entry, Asked, Answer: Mapping[str, Any]](
    ports: Ports,
    batch: Batch,
    runs: Sequence[One],
    read: Callable[[One, str], Asked],
    answer: Callable[[One, Asked], Answer | Declined],
) -> list[Answer | DeclinedRun]:
    """The answer to each entry of a batch, in the order of the request. `read` checks an entry that stands at such a
    place, and may raise InvalidField; the whole call is refused only when none can be read."""
    unread = dict(batch.unread)
    places = [place for place in range(len(runs) + len(unread)) if place not in unread]
    asked: dict[int, tuple[One, Asked]] = {}
    refused: InvalidField | None = None
    for place, one in zip(places, runs, strict=True):
        try:
            asked[place] = one, read(one, f"runs.{place}.")
        except InvalidField as error:
            refused = refused or error
            unread[place] = Unread(one.ref, f"{error.field}: {error.detail}")
    if not asked and refused is not None:
        raise refused
    answers: list[Answer | DeclinedRun] = []
    for place in range(len(asked) + len(unread)):
        if place in unread:
            answers.append(_unread(unread[place]))
        else:
            one, checked = asked[place]
            answers.append(_alone(ports, one.ref, partial(answer, one, checked)))
    return answers


def _unread(entry: Unread) -> DeclinedRun:
    answer = _declined(entry.ref, Declined(INVALID, discard=False))
    answer["detail"] = entry.detail
    return answer


def _alone[Answer: Mapping[str, Any]](
    ports: Ports, ref: str, answer: Callable[[], Answer | Declined]
) -> Answer | DeclinedRun:
    """One entry; whatever fails, fails this entry and not its neighbours."""
    try:
        answered = answer()
    except NotFound:
        # Another team's: not this worker's to start, and not its message's to be deleted by it.
        return _declined(ref, Declined(isolating.NOT_YOURS, discard=False, retry_after_ms=SECOND_MS))
    except WorldError as error:
        ports.signals.count("runs.calls_busy_total")
        ports.signals.log("run_call_busy", ref=ref, error=repr(error))
        return _declined(ref, Declined("busy", discard=False))
    except Exception as error:  # noqa: BLE001 - the others of the batch must not pay for it
        isolating.tell(ports, ref, error)
        retry_after_ms = isolating.TRY_AGAIN_S * SECOND_MS
        return _declined(ref, Declined(isolating.UNREADABLE, discard=False, retry_after_ms=retry_after_ms))
    return _declined(ref, answered) if isinstance(answered, Declined) else answered


def _declined(ref: str, result: Declined) -> DeclinedRun:
    answer: DeclinedRun = {
        "ref": ref,
        "granted": False,
        "accepted": False,
        "reason": result.reason,
        "discard": result.discard,
    }
    if result.retry_after_ms:
        answer["retry_after_s"] = -(-result.retry_after_ms // SECOND_MS)
    return answer
