"""Runs that somebody asked for, as the checkers tell them: by what their keys end in. They are none of a chain."""

from __future__ import annotations


def is_by_hand(place: str) -> bool:
    """Of a ref, or of a sort key; also of a retry of such a run."""
    return "#manual." in place or "#backfill." in place
