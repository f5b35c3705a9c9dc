"""What a ledger item is beside the occurrence of a schedule: a run that somebody asked for, or a retry.

Owns the spelling of a kind in a key: nothing for a scheduled occurrence, `manual.UNIQUE` for a run that was asked for,
`retry.N` behind either, `look` for an item that looks at one that waits. Refuses to know who asks. Protects one-run: a
kind is part of its run's identity, and a retry's number is not.
"""

from __future__ import annotations

import re

MANUAL, BACKFILL = "manual", "backfill"
SCHEDULED = "scheduled"
"""How a run without a kind of its own is called. Never stored."""

UNIQUE_DIGITS = 16
"""Of the hash that tells a job's runs of one second and one kind apart."""

PATTERN = rf"(?:{MANUAL}|{BACKFILL})\.[0-9a-f]{{{UNIQUE_DIGITS}}}"
"""The kind of a run that somebody asked for."""

LOOK = "look"
"""The kind of an item that looks at a run which waits."""
_RETRY = "retry."


def kind_of(word: str, unique: str) -> str:
    """The kind of a run that somebody asked for. `unique`: in hex, at least as many digits as it takes."""
    return f"{word}.{unique[:UNIQUE_DIGITS]}"


def own(kind: str) -> str:
    """What of a kind belongs to the identity of its run: not a retry's number, nor that an item looks at it."""
    return "" if kind == LOOK else kind.partition(_RETRY)[0].rstrip(".")


def is_own(kind: str) -> bool:
    """Whether it is the kind of a run that somebody asked for, as a person may write it."""
    return re.fullmatch(PATTERN, kind, re.ASCII) is not None


def is_retry(kind: str) -> bool:
    return _RETRY in kind


def points(kind: str) -> bool:
    """Whether an item is no run, and points at one."""
    return kind == LOOK or is_retry(kind)


def retry_of(kind: str, attempt: int) -> str:
    """The kind of a retry of a run."""
    return f"{own(kind)}.{_RETRY}{attempt}".lstrip(".")


def word_of(kind: str) -> str:
    """How people call it."""
    return own(kind).partition(".")[0] or SCHEDULED
