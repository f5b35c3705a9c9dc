"""One run as this worker holds it: its message, the receipt of that, its lease, and whether it has to stop.

The wire form is docs/worker-protocol.md; unknown fields are ignored, so that the platform may add some.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from tickwork.worker.context import SCHEDULED, Context, StopFlag
from tickwork.worker.stopping import Stoppable

REQUIRED = frozenset({"ref", "run_id", "job_id", "scheduled_at", "fire_at", "handler"})
PASSED_ON = ("ref", "lease_s", "attempt", "retry_ref", "payload_id", "dispatched_at_ms", "dispatched_by")
"""What a start hands back of the message."""
LEASE_S_DEFAULT = 60


def occurrence_of(body: Mapping[str, Any]) -> str:
    """The run of a message as a person names it, and every command takes it: a timer's id, or job@time."""
    job_id = str(body["job_id"])
    return str(body.get("occurrence") or (job_id if "~" in job_id else f"{job_id}@{body['scheduled_at']}"))


class BadMessage(ValueError):
    """Not a ready message."""


@dataclass(slots=True, eq=False)
class Delivery:
    """A received message, or a leased run. `claim` names this worker's try to start it, also when it is repeated;
    `receipt` is empty where there is no queue."""

    receipt: str
    body: dict[str, Any] = field(repr=False)
    claim: str
    scheduled_at: datetime
    fire_at: datetime
    lease_s: int
    token: int = 0
    attempt: int = 0
    payload: Any = field(default=None, repr=False)
    beaten_at_s: float = 0.0
    trust_s: float = 0.0
    """How long the lease was good for when it was last granted: the heartbeat goes by a third of this."""
    lease_ends_s: float = 0.0
    failed_beats: int = 0
    ended_at_s: float = 0.0
    """When its function had ended; 0: not yet."""
    is_given_back: bool = False
    """The platform has taken the run back: nothing of this worker may hide its message any more."""
    shown_in_s: int = 0
    """Of one that was given back: after so long its message is to be visible."""
    receives: int = 1
    """How often its message has been received."""
    lane: str = ""
    """Of a worker of several lanes: the one that it came from."""
    stop: StopFlag = field(default_factory=StopFlag)
    call: Stoppable = field(init=False)

    def __post_init__(self) -> None:
        self.call = Stoppable(self.stop)

    @classmethod
    def read(cls, receipt: str, text: str, claim: str, receives: int = 1) -> Self:
        """From a message's text. BadMessage when it is none."""
        try:
            body = json.loads(text)
        except (ValueError, RecursionError) as error:  # nested so deeply that reading it would end the thread
            raise BadMessage(f"not JSON: {error}") from error
        delivery = cls.of(receipt, body, claim)
        delivery.receives = receives
        return delivery

    @classmethod
    def of(cls, receipt: str, body: object, claim: str) -> Self:
        """From a message's fields. BadMessage when one is missing or of no use."""
        if not isinstance(body, dict):
            raise BadMessage("not a JSON object")
        missing = REQUIRED - body.keys()
        if missing:
            raise BadMessage(f"{', '.join(sorted(missing))} missing")
        try:
            scheduled_at, fire_at = _instant(body["scheduled_at"]), _instant(body["fire_at"])
            lease_s = int(body.get("lease_s", LEASE_S_DEFAULT))
        except (ValueError, TypeError) as error:
            raise BadMessage(str(error)) from error
        return cls(receipt, body, claim, scheduled_at, fire_at, max(1, lease_s), payload=body.get("payload"))

    @property
    def ref(self) -> str:
        return str(self.body["ref"])

    @property
    def handler(self) -> str:
        return str(self.body["handler"])

    @property
    def lease_receipt(self) -> str:
        """Of a run leased over HTTP: the platform's name for its message, to be handed back with each call."""
        return str(self.body.get("receipt", ""))

    @property
    def names(self) -> dict[str, Any]:
        """What every log line about it says."""
        facts = {"run_id": self.body["run_id"], "job_id": self.body["job_id"], "attempt": self.attempt}
        facts["occurrence"] = occurrence_of(self.body)
        traceparent = self.traceparent
        return facts | ({"trace_id": traceparent.split("-")[1]} if traceparent else {})

    @property
    def traceparent(self) -> str | None:
        """The creator's W3C trace context, when it is well-formed enough to be passed on."""
        text = self.body.get("traceparent")
        return text if isinstance(text, str) and text.count("-") >= 3 else None

    def start_request(self) -> dict[str, Any]:
        """This delivery's entry of a POST /runs:start."""
        passed_on = {name: self.body[name] for name in PASSED_ON if name in self.body}
        return {"claim": self.claim, **passed_on, "lease_s": self.lease_s}

    def grant(self, answer: dict[str, Any], asked_at_s: float) -> None:
        """Take what a start granted."""
        self.token = int(answer["token"])
        self.attempt = int(answer["attempt"])
        self.payload = answer.get("payload", self.payload)
        self.extend(answer, asked_at_s)

    def extend(self, answer: dict[str, Any], asked_at_s: float) -> None:
        """The lease is trusted as long as the answer says (W14), from the moment it was asked for: the platform may
        have granted less than was wanted, and no wall clock of two hosts is compared."""
        self.trust_s = _granted_s(answer, self.lease_s)
        self.beaten_at_s, self.lease_ends_s, self.failed_beats = asked_at_s, asked_at_s + self.trust_s, 0

    def context(self, payload: object) -> Context:
        return Context(
            run_id=str(self.body["run_id"]),
            job_id=str(self.body["job_id"]),
            scheduled_at=self.scheduled_at,
            fire_at=self.fire_at,
            attempt=self.attempt,
            token=self.token,
            payload=payload,
            previous_at=_instant(self.body["previous_at"]) if self.body.get("previous_at") else None,
            next_at=_instant(self.body["next_at"]) if self.body.get("next_at") else None,
            traceparent=self.traceparent,
            kind=str(self.body.get("kind", SCHEDULED)),
            occurrence_id=str(self.body.get("occurrence_id", self.body["run_id"])),
            _stop=self.stop,
        )


def _granted_s(answer: dict[str, Any], asked_for_s: int) -> float:
    """How long a lease lasts by the answer that granted it. A platform of an older version does not say: then what
    was asked for."""
    lease_ms = answer.get("lease_ms")
    if isinstance(lease_ms, bool) or not isinstance(lease_ms, int | float):
        return float(asked_for_s)
    return max(0.0, lease_ms / 1000)


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
