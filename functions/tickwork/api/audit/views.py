"""An entry of the audit as the API shows it."""

from __future__ import annotations

from typing import Any, cast

from tickwork.api.audit.answers import EntryShown, FieldChanged, FindingShown
from tickwork.core.access.entries import CALL, Entry
from tickwork.core.instants import iso_ms
from tickwork.flows.audit.findings import BROKEN, Finding

_PLAIN = ("role", "address", "agent", "request_id", "version_before", "version")


def entry_view(entry: Entry) -> EntryShown:
    view: dict[str, Any] = {
        "entry": f"{entry.stream}|{entry.place}",
        "team": entry.team,
        "object": entry.stream.partition(":")[2],
        "action": entry.action,
        "at": iso_ms(entry.at_ms),
        "actor": entry.actor,
        "changes": [_changed(name, pair) for name, pair in sorted(entry.changes.items())],
        "hash": entry.hash,
    }
    view |= {name: value for name in _PLAIN if (value := getattr(entry, name))}
    if entry.facts:
        view["facts"] = dict(entry.facts)
    if entry.kind == CALL:
        view["result"] = dict(entry.result) if entry.result_at_ms else None
    if entry.result_at_ms:
        view["result_at"] = iso_ms(entry.result_at_ms)
    return cast("EntryShown", view)


def _changed(name: str, pair: Any) -> FieldChanged:
    """What a newer version tells in another way is shown as what came of it."""
    before, after = pair if isinstance(pair, list | tuple) and len(pair) == 2 else (None, pair)
    return {"field": name, "before": before, "after": after}


def finding_view(finding: Finding) -> FindingShown:
    return {
        "kind": finding.kind,
        "is_broken": finding.kind in BROKEN,
        "object": finding.stream.partition(":")[2],
        "entry": f"{finding.stream}|{finding.place}",
        "detail": finding.detail,
    }
