"""Zones and changes of clocks that histories begin beside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Africa/Casablanca")


def _changes(zone: str) -> list[tuple[int, str]]:
    """The instants of half a year and more at which the clocks of a zone change, to the hour, as the zone data says."""
    found, here = [], ZoneInfo(zone)
    at = datetime(2026, 9, 1, tzinfo=UTC)
    offset = at.astimezone(here).utcoffset()
    for hours in range(300 * 48):
        then = at + timedelta(minutes=30 * hours)
        if (now := then.astimezone(here).utcoffset()) != offset:
            found.append((int(then.timestamp()) * 1_000, zone))
            offset = now
    return found


CLOCK_CHANGES: tuple[tuple[int, str], ...] = tuple(
    change for zone in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe") for change in _changes(zone)
)
"""(instant in ms, zone)"""
