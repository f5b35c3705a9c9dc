"""What verifying a team's audit finds, and where it goes on: values that its walks share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tickwork.core.access.seals import Sealed

EDITED, REMOVED, FORKED, HEAD = "edited", "removed", "forked", "wrong_head"
UNRECORDED, UNFINISHED = "unrecorded", "unfinished"
BROKEN = (EDITED, REMOVED, FORKED, HEAD)
"""What no version of the service leaves behind by itself. (A table that was restored to an earlier time does.)"""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was written. `stream`, `place`: of which entry, or of which thing."""

    kind: str
    stream: str
    place: str
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyPlace:
    """Where the next call goes on: in which walk, and after what of it."""

    phase: str
    at_ms: int = 0
    stream: str = ""
    place: str = ""


@dataclass(slots=True)
class Verified:
    """What one call has looked at, and found."""

    sealed: Sealed
    findings: list[Finding] = field(default_factory=list)
    seals: int = 0
    entries: int = 0
    things: int = 0
    after: VerifyPlace | None = None
    now_s: int = 0

    def find(self, kind: str, key: Mapping[str, Any], detail: str) -> None:
        self.findings.append(Finding(kind, str(key["stream"]), str(key.get("place", "")), detail))

    def is_kept(self, until_s: int) -> bool:
        """Whether something that is kept until then has to be there still."""
        return until_s > self.now_s
