"""What a planted bug is, and the small tools to make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tickwork.core.ledger.writes import Anyway, Committed, Refused, Update, Write
from tickwork.flows.ledger import commit as committing
from tickwork.ports import Ports

type Patch = tuple[Any, str, Any]
"""Module or class, the name of the attribute, what to put there."""


@dataclass(frozen=True, slots=True)
class Bug:
    """A small change of production code. Nothing is changed before `mutants.planted` does it."""

    name: str
    patches: Callable[[], Sequence[Patch]]


def unconditional(write: Update) -> Update:
    return replace(write, condition=Anyway("planted"))


def with_condition(original: Callable[..., Update], condition: Callable[..., Any]) -> Callable[..., Update]:
    def wrong(*arguments: Any, **named: Any) -> Update:
        return replace(original(*arguments, **named), condition=condition(*arguments))

    return wrong


def one_by_one(ports: Ports, *writes: Write) -> Committed | Refused:
    result: Committed | Refused = Committed()
    for write in writes:
        result = committing.commit(ports, write)
        if isinstance(result, Refused):
            return result
    return result
