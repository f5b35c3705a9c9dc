"""What each version stores that the one before it does not: `python -m tests.recorded.differences`.

From the recorded forms, so that docs/deploy.md cannot forget a field when it says what an older version does not read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent
FREE = frozenset({"changes", "facts", "payload", "spec", "schedule", "retry_map", "resources", "result", "tick_map"})
"""What is inside of these is said by users, or by the store's own maps."""


def folders() -> list[Path]:
    return sorted(ROOT.glob("v*"), key=lambda folder: int(folder.name[1:]))


def attributes(folder: Path) -> dict[str, set[str]]:
    """The attributes of each table, and fields of each message, that a version was seen to write."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in folder.glob("*.json"):
        for item in json.loads(path.read_text(encoding="utf-8")):
            found[path.stem] |= set(_names(item))
    return found


def _names(item: Any, within: str = "") -> Iterator[str]:
    if isinstance(item, list):
        for one in item:
            yield from _names(one, within)
    if not isinstance(item, dict):
        return
    for name, value in item.items():
        yield within + name
        if name not in FREE:
            yield from _names(value, f"{within}{name}.")


def lines() -> list[str]:
    """A row of the page for each version and table that gained something."""
    rows = []
    every = folders()
    for before, after in pairwise(every):
        old, new = attributes(before), attributes(after)
        for table in sorted(new):
            gained = sorted(new[table] - old.get(table, set()))
            if gained:
                rows.append(f"| {after.name} | `{table}` | {', '.join(f'`{name}`' for name in gained)} |")
    return rows


if __name__ == "__main__":
    print("\n".join(lines()))
