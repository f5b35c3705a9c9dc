"""Breadth-first over every state of a small model, until something is violated or nothing is new."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

STATES_MAX = 6_000_000
"""A model that grows beyond this is too large to be checked, and says so."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many states were seen, and the first violation among them ('' when it holds), with its state."""

    states: int
    violated: str = ""
    state: Any = None


def explore[S: NamedTuple](begin: S, successors: Callable[[S], Iterable[S]], violated: Callable[[S], str]) -> Verdict:
    """Every state that can be reached, each once."""
    seen, waiting = {begin}, deque([begin])
    while waiting:
        state = waiting.popleft()
        broken = violated(state)
        if broken:
            return Verdict(len(seen), broken, state)
        for following in successors(state):
            if following not in seen:
                seen.add(following)
                waiting.append(following)
        if len(seen) > STATES_MAX:
            return Verdict(len(seen), "too many states")
    return Verdict(len(seen))


def put[T](values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    """A tuple with one of its values changed."""
    return (*values[:index], value, *values[index + 1 :])
