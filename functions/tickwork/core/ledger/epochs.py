"""What has become of a group: its epoch, which each cancellation raises (F12).

A group that was cancelled is one item, whatever it holds. Whoever makes what bears its label reads the epoch before,
and has it carry that: what carries an earlier one than the group's was cancelled, though nobody has written that to it.
No clocks are compared. A group that was never cancelled has no item, and is in epoch 0. Owns what is stored, and what
it means. Protects cancelled-stays: an epoch never goes back, and its item is never deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tickwork.core.instants import DAY_MS, SECOND_MS
from tickwork.core.ledger.items import Record, Spelling, always, spelled
from tickwork.core.ledger.keys import LedgerKey
from tickwork.core.ledger.writes import Item

_GROUP = "@group"

KEPT_BEYOND_RETENTION_S = 365 * DAY_MS // SECOND_MS
"""What bears a label has a time to live from its birth: so long behind the time for which its record would be kept, had
it ended when it was due. It may be cancelled without a write that would give it one."""

REASON_CHARS_MAX = 200


@dataclass(frozen=True, slots=True, order=True)
class Label:
    """A group by its team and its name."""

    team: str
    name: str

    @property
    def text(self) -> str:
        return f"{self.team}#{self.name}"


def group_key(label: Label) -> Item:
    """Each group has a partition of the table `teams` to itself: its item is read by every start of what it holds."""
    return {"cell": f"{_GROUP}#{label.text}", "team": label.text}


def _label(text: str) -> Label:
    team, sign, name = text.partition("#")
    if not (team and sign and name):
        raise ValueError(f"{text[:80]!r} is no group")
    return Label(team, name)


_BY_KEY = Spelling(("team",), group_key, lambda item: _label(item["team"]), is_required=True)


@dataclass(frozen=True, slots=True)
class Group(Record):
    """A group that was cancelled: by whom and why the last time. `token`: of the call that has written it."""

    DERIVED: ClassVar[tuple[str, ...]] = ("cell",)

    label: Label = field(metadata=spelled(_BY_KEY))
    epoch: int = always(0)
    cancelled_at_ms: int = 0
    by: str = ""
    reason: str = ""
    token: str = ""
    audit_head: str = ""

    def has_cancelled(self, epoch: int) -> bool:
        """Whether what was made in an epoch was cancelled with the group."""
        return epoch < self.epoch

    @property
    def why(self) -> str:
        """The reason of the end of what it held."""
        return f"its group {self.label.name} was cancelled by {self.by}: {self.reason}"[:REASON_CHARS_MAX]


def expires_at_s(key: LedgerKey, retention_s: int) -> int:
    """The time to live, at its birth, of a timer that bears a label."""
    return key.fire_second + retention_s + KEPT_BEYOND_RETENTION_S
