"""One message of the ready queue, as the worker holds it: its wire form read, its receipt, its state.

The wire form is docs/worker-protocol.md; unknown fields are ignored, so that the platform may add some.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from tickwork.worker.app import Context


@dataclass(slots=True)
class Delivery:
    """A received message. `claim` identifies this worker's try to start it, also when the call is repeated."""

    receipt: str
    body: dict[str, Any]
    claim: str
    token: int = 0
    attempt: int = 0
    payload: Any = None
    beaten_at_s: float = 0.0
    failed_beats: int = 0
    lost: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def read(cls, receipt: str, text: str, claim: str) -> Self:
        """ValueError when the text is not a ready message."""
        body = json.loads(text)
        missing = {"ref", "run_id", "job_id", "scheduled_at", "fire_at", "handler"} - set(body)
        if missing:
            raise ValueError(f"not a ready message: {', '.join(sorted(missing))} missing")
        return cls(receipt, body, claim, payload=body.get("payload"))

    @property
    def ref(self) -> str:
        return str(self.body["ref"])

    @property
    def handler(self) -> str:
        return str(self.body["handler"])

    @property
    def lease_s(self) -> int:
        return int(self.body.get("lease_s", 60))

    def start_request(self) -> dict[str, Any]:
        """This delivery's entry of a POST /runs:start."""
        passed_on = ("ref", "lease_s", "attempt", "retry_ref", "payload_id", "dispatched_at_ms", "dispatched_by")
        return {"claim": self.claim} | {name: self.body[name] for name in passed_on if name in self.body}

    def grant(self, answer: dict[str, Any], now_s: float) -> None:
        self.token = answer["token"]
        self.attempt = answer["attempt"]
        self.payload = answer.get("payload", self.payload)
        self.beaten_at_s = now_s

    def context(self, payload: object) -> Context:
        return Context(
            run_id=self.body["run_id"],
            job_id=self.body["job_id"],
            scheduled_at=_instant(self.body["scheduled_at"]),
            fire_at=_instant(self.body["fire_at"]),
            attempt=self.attempt,
            token=self.token,
            payload=payload,
            previous_at=_instant(self.body["previous_at"]) if "previous_at" in self.body else None,
            next_at=_instant(self.body["next_at"]) if "next_at" in self.body else None,
            _lost=self.lost,
        )


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
