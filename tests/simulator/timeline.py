"""A history as a person reads it: one line per port call, with what was asked and what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tickwork.core.instants import iso_ms
from tickwork.core.ledger.writes import (
    Absent,
    AllOf,
    AnyOf,
    Anyway,
    AtLeast,
    Below,
    Check,
    Committed,
    Condition,
    Delete,
    Is,
    Missing,
    Put,
    Refused,
    Update,
    Write,
)
from tickwork.ports import OutMessage, Page, SendReport

if TYPE_CHECKING:
    from tests.simulator.world import Entry

_LINE_MAX = 320
_ITEM_SHOWN = (
    "status",
    "attempt",
    "token",
    "lease_until_ms",
    "owner",
    "closing",
    "done",
    "version",
    "next_scheduled_at_ms",
    "fired_through_ms",
    "reason",
)


def render(entries: Iterable[Entry], start_ms: int) -> Iterator[str]:
    """The lines of a timeline: seconds since the start, who, what, with what, and `->` the answer."""
    yield f"begins {iso_ms(start_ms)}, times in seconds since then"
    for at_ms, who, what, detail, result in entries:
        answer = f"  -> {show(result)}" if result is not None else ""
        line = f"{(at_ms - start_ms) / 1000:10.3f}  {who:<14} {what:<22} {show(detail)}{answer}"
        yield line if len(line) <= _LINE_MAX else f"{line[: _LINE_MAX - 3]}..."


def show(value: Any) -> str:
    """A value in as few words as can be understood."""
    match value:
        case Put() | Update() | Delete() | Check():
            return _write(value)
        case Committed(item):
            return f"ok {show(item)}" if item else "ok"
        case Refused(failed):
            return "REFUSED " + ", ".join(f"#{index} by {show(item)}" for index, item in failed.items())
        case Page(items, more):
            return f"{len(items)} items [{'; '.join(show(item) for item in items)}]{' and more' if more else ''}"
        case OutMessage(body, delay_s, _):
            return f"{body[:110]} in {delay_s} s"
        case SendReport(failed, refused):
            return f"failed {list(failed)} refused {[index for index, _ in refused]}" if failed or refused else "sent"
        case dict():
            return _item(value)
        case list() | tuple():
            return "; ".join(show(one) for one in value)
    return str(value)


def _item(item: dict[str, Any]) -> str:
    name = item.get("sk") or item.get("job_id") or item.get("slice") or ""
    shown = " ".join(f"{key}={item[key]}" for key in _ITEM_SHOWN if key in item)
    if name or shown:
        return f"<{name} {shown}>" if shown else f"<{name}>"
    return " ".join(f"{key}={value}" for key, value in item.items())


def _write(write: Write) -> str:
    verb = type(write).__name__.upper()
    subject = _item(write.item) if isinstance(write, Put) else "/".join(str(part) for part in write.key.values())
    changes = ""
    if isinstance(write, Update):
        changes = " set " + " ".join(f"{name}={value}" for name, value in write.set.items())
        changes += "".join(f" append {name}" for name in write.append)
        changes += "".join(f" {name}+={number}" for name, number in write.add.items())
    return f"{verb} {write.table.name} {subject}{changes} IF {_condition(write.condition)}"


def _condition(condition: Condition) -> str:
    match condition:
        case Absent():
            return "absent"
        case Is(attribute, value):
            return f"{attribute}={value}"
        case Missing(attribute):
            return f"no {attribute}"
        case Below(attribute, value):
            return f"{attribute}<{value}"
        case AtLeast(attribute, value):
            return f"{attribute}>={value}"
        case AllOf(conditions):
            return _joined(" & ", conditions)
        case AnyOf(conditions):
            return _joined(" | ", conditions)
        case Anyway():
            return "anyway"


def _joined(word: str, conditions: Sequence[Condition]) -> str:
    return "(" + word.join(_condition(one) for one in conditions) + ")"
