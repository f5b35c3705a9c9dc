"""What the tables hold, as frozen values, and the only code that turns them into items and back.

Reading is tolerant (attributes of a newer version are kept out of the way), writing is strict. An item that can
not be read raises `Unreadable`: it is parked by the caller, never deleted and never guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from tickwork.core.ids import run_id_of
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.items import Unreadable, without_defaults
from tickwork.core.ledger.keys import LedgerKey, parse_ledger_key, parse_ref
from tickwork.core.ledger.work import Work
from tickwork.core.ledger.writes import Item


@dataclass(frozen=True, slots=True)
class Run:
    """A ledger item of an occurrence: the timer while it is pending, the record of its run ever after.

    `work` is None for a recurring job's run (the definition is in `jobs`). `attempts` lists the attempts that
    have ended; the current one, and a first one that succeeded, is in the fields of the run itself.
    """

    key: LedgerKey
    status: str = lifecycle.PENDING
    work: Work | None = None
    attempt: int = 0
    token: int = 0
    claim: str = ""
    worker: str = ""
    lease_until_ms: int = 0
    started_at_ms: int = 0
    ended_at_ms: int = 0
    retry_at_ms: int = 0
    """When the pending retry of a waiting run is due."""
    dispatched_at_ms: int = 0
    dispatched_by: str = ""
    created_at_ms: int = 0
    reason: str = ""
    attempts: tuple[Mapping[str, Any], ...] = ()
    guarded: bool = False
    """Its definition limits how it may start, so no start may pass without reading it."""
    stop_at_ms: int = 0
    """When the current attempt has taken as long as it may; 0: no bound."""
    slots: tuple[str, ...] = ()
    """The slots that the current attempt holds, by name."""
    replays: tuple[Mapping[str, Any], ...] = ()
    """Who had it run again after it was dead, when, why, and after how many attempts."""
    cancel_requested: str = ""
    """Why the running attempt should stop; its worker learns of it with the next heartbeat."""

    @property
    def run_id(self) -> str:
        return run_id_of(self.key.job_id, self.key.scheduled_at_ms)

    @property
    def is_recurring(self) -> bool:
        return self.work is None

    @property
    def ended(self) -> bool:
        return self.status in lifecycle.ENDED

    @property
    def replayed_after(self) -> int:
        """Attempts before the last replay: a policy's attempts and waits count from there."""
        return int(self.replays[-1]["after_attempt"]) if self.replays else 0

    def to_item(self) -> Item:
        item: Item = self.key.as_item() | without_defaults(self) | {"status": self.status}
        for name in _RUN_STRUCTURED:
            item.pop(name, None)
        if self.work is None:
            item |= {"job_id": self.key.job_id, "scheduled_at_ms": self.key.scheduled_at_ms}
        else:
            item["work"] = self.work.to_item()
        listed = (("attempts", self.attempts), ("replays", self.replays))
        item |= {name: [dict(one) for one in records] for name, records in listed if records}
        return item | ({"slots": list(self.slots)} if self.slots else {})

    @classmethod
    def from_item(cls, item: Item) -> Self:
        try:
            if item["status"] not in lifecycle.MEANING:
                raise Unreadable(f"{item['pk']}|{item['sk']}: unknown status {item['status']!r}")
            plain = {name: item[name] for name in _RUN_PLAIN if name in item}
            return cls(
                key=parse_ledger_key(item["pk"], item["sk"]),
                work=Work.from_item(item["work"]) if "work" in item else None,
                attempts=tuple(item.get("attempts", ())),
                replays=tuple(item.get("replays", ())),
                slots=tuple(item.get("slots", ())),
                **plain,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Unreadable(f"{item.get('pk')}|{item.get('sk')}: {error!r}") from error


_RUN_STRUCTURED = ("key", "work", "attempts", "replays", "slots")
_RUN_PLAIN = tuple(f.name for f in fields(Run) if f.name not in _RUN_STRUCTURED)


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry of a run: a small ledger item of its own, which points at the run's."""

    key: LedgerKey
    run_ref: str
    attempt: int
    status: str = lifecycle.PENDING

    def to_item(self) -> Item:
        return self.key.as_item() | {"status": self.status, "run_ref": self.run_ref, "attempt": self.attempt}

    @classmethod
    def from_item(cls, item: Item) -> Self:
        try:
            key = parse_ledger_key(item["pk"], item["sk"])
            parse_ref(item["run_ref"])
            return cls(key, item["run_ref"], item["attempt"], item["status"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Unreadable(f"{item.get('pk')}|{item.get('sk')}: {error!r}") from error
