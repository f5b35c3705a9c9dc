"""The two messages that travel through SQS, and their frozen wire forms.

`ReadyMessage` goes to a pool's ready queue and is part of the public wire protocol (docs/worker-protocol.md);
`Tick` wakes a scanner. Fields are added, never renamed: old and new processes run side by side in a deploy.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Self

from tickwork.core.ids import run_id_of
from tickwork.core.instants import iso, parse_iso
from tickwork.core.ledger import kinds
from tickwork.core.ledger.keys import LedgerKey, parse_ref, slice_key
from tickwork.core.ledger.work import Work
from tickwork.core.texts import carriable

MESSAGE_VERSION = 1
READY_CHARS_MAX = 1_048_576
"""What SQS carries at most: a longer one has not come through it."""
TICK_CHARS_MAX = 1_000
"""Ten times the longest tick of ours, with room for fields of later versions."""

LEVELS_MAX = 200
"""Of lists and objects in a message: twice what a payload may have. What is read may have to be written again, by
writers that give up at another depth than the reader."""

_COMPACT = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def compact_json(value: object) -> str:
    return _COMPACT.encode(value)


def _read_object(text: str, chars_max: int) -> dict[str, Any]:
    """The JSON object of a message's body. ValueError for whatever else anybody may have put into the queue."""
    if len(text) > chars_max:
        raise ValueError(f"{len(text)} characters, at most {chars_max} are read")
    try:
        body = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(body, dict):
        raise ValueError("not an object")
    if text.count("[") + text.count("{") > LEVELS_MAX and _has_levels_over(body, LEVELS_MAX):
        raise ValueError(f"nested in more than {LEVELS_MAX} levels")
    return body


def _has_levels_over(value: object, levels_max: int) -> bool:
    """Whether lists and objects stand in more levels than that. Level by level, not by recursion."""
    level: list[object] = [value]
    for _ in range(levels_max):
        inner: list[object] = []
        for one in level:
            inner += one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        level = inner
    return any(isinstance(one, dict | list) for one in level)


def _checked(body: dict[str, Any], kinds: dict[str, type]) -> dict[str, Any]:
    """ValueError when one of the names is missing, or of another type (a boolean is no number)."""
    for name, kind in kinds.items():
        value = body.get(name)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{name!r} is missing, or not {kind.__name__}")
    return body


@dataclass(frozen=True, slots=True)
class ReadyMessage:
    """One run, ready to start. `attempt` is the attempt this message asks for; the ledger decides."""

    key: LedgerKey
    work: Work
    attempt: int
    dispatched_at_ms: int
    dispatched_by: str
    """`slice#token` of the scanner, or who else sent it (`creator`, `audit`)."""
    retry_ref: str = ""
    previous_at_ms: int = 0
    next_at_ms: int = 0

    @property
    def due_ms(self) -> int:
        """When this message is due: a retry by its own item's time, a first attempt by the run's."""
        return parse_ref(self.retry_ref).fire_at_ms if self.retry_ref else self.key.fire_at_ms

    def to_json(self) -> str:
        body: dict[str, Any] = {
            "v": MESSAGE_VERSION,
            "ref": self.key.ref,
            "run_id": self.key.run_id,
            "job_id": self.key.job_id,
            "scheduled_at": iso(self.key.scheduled_at_ms),
            "fire_at": iso(self.key.fire_at_ms),
            "attempt": self.attempt,
            "handler": self.work.handler,
            "lease_s": self.work.lease_s,
            "dispatched_at_ms": self.dispatched_at_ms,
            "dispatched_by": self.dispatched_by,
        }
        if self.key.kind:
            body |= {"kind": kinds.word_of(self.key.kind), "occurrence": self.key.occurrence}
            body |= {"occurrence_id": occurrence_id_of(self.key)}
        if self.retry_ref:
            body["retry_ref"] = self.retry_ref
        if self.work.url:
            body["url"] = self.work.url
        if self.work.traceparent:
            body["traceparent"] = self.work.traceparent
        if self.work.payload_id is not None:
            body["payload_id"] = self.work.payload_id
        for name, at_ms in (("previous_at", self.previous_at_ms), ("next_at", self.next_at_ms)):
            if at_ms:
                body[name] = iso(at_ms)
        text = compact_json(body)
        if self.work.payload is None or self.work.payload_id is not None:
            return carriable(text)
        return carriable(f'{text[:-1]},"payload":{self.work.payload}}}')  # it is JSON text already, and may be long


def read_ready(text: str) -> dict[str, Any]:
    """A ready message as it travels. ValueError when it is none: its names and types are checked, its refs parsed."""
    body = _checked(_read_object(text, READY_CHARS_MAX), _READY)
    key = parse_ref(body["ref"])
    if "retry_ref" in body and not is_retry_of(parse_ref(str(body["retry_ref"])), key):
        raise ValueError("retry_ref is not of this run")
    return body


def occurrence_id_of(key: LedgerKey) -> str:
    """The run_id that the scheduled run of this nominal instant has."""
    return run_id_of(key.job_id, key.scheduled_at_ms)


def is_retry_of(retry: LedgerKey, run: LedgerKey) -> bool:
    """Whether one key is that of a retry of the other's run."""
    return kinds.is_retry(retry.kind) and (retry.job_id, retry.run_id) == (run.job_id, run.run_id)


def ref_in(text: str) -> str:
    """Which run a message is about, as far as it says so: all that a log tells of one, for the rest may be a payload.
    Empty where it says none."""
    try:
        ref = parse_ref(str(_read_object(text, READY_CHARS_MAX)["ref"])).ref
    except (KeyError, ValueError):
        return ""
    return ref


_READY = {"ref": str, "run_id": str, "job_id": str, "handler": str, "attempt": int, "lease_s": int}


@dataclass(frozen=True, slots=True, order=True)
class Tick:
    """Wake the scanner of a slice for the window that ends with `second`. Level-triggered: losing one costs lag."""

    cell: str
    slice_no: int
    second: int

    @property
    def slice(self) -> str:
        return slice_key(self.cell, self.slice_no)

    def to_json(self) -> str:
        return compact_json({"v": MESSAGE_VERSION, "cell": self.cell, "slice": self.slice_no, "second": self.second})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """A tick as it travels. ValueError when it is none."""
        body = _checked(_read_object(text, TICK_CHARS_MAX), _TICK)
        return cls(body["cell"], body["slice"], body["second"])


_TICK = {"cell": str, "slice": int, "second": int}


def instant_of(text: str) -> int:
    """The instant of a wire time."""
    return parse_iso(text)
