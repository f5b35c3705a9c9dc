"""The window protocol against creators of near timers: announce, read, send, advance, and what is set aside.

Two scanners (crash, pause and take-over at any time) and two creators over two seconds. The queue may take nothing, at
any send. What a window could not send it sets aside: a row of the seconds it covers, written in one transaction with
the advance that passes them; whoever holds the slice later reads the row's seconds again, sends, and takes the row
away. Checked in every state, cursor-honest: a timer whose creator was answered and that `done` has passed was sent, or
lies in the row. Variants leave out a rule each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.protocol.explore import Verdict, explore, put

FIRE = (1, 2)
"""The second of each of the two timers."""
NOW, TOKEN_MAX = 2, 3
NO_ROW = (0, 0)

IDLE, ANNOUNCED, READ, SENT, ADVANCED, ASIDE_READ, ASIDE_SENT = range(7)
PUT, LOOK, SEND, ANSWER, ANSWERED = range(5)

CAUGHT = (
    "creator does not look",
    "creator reads done",
    "announce after read",
    "advance before send",
    "closing may go back",
    "advance before the row is written",
    "row is deleted before it is served",
    "row is deleted without the token",
    "row is replaced, not widened",
    "what failed gets no row",
)


class Scanner(NamedTuple):
    """`read` are the timers it has read, `left` those it could not send."""

    at: int = IDLE
    token: int = 0
    second: int = 0
    begin: int = 0
    read: tuple[int, ...] = ()
    left: tuple[int, ...] = ()


class State(NamedTuple):
    items: tuple[bool, ...] = (False, False)
    sent: tuple[bool, ...] = (False, False)
    closing: int = 0
    done: int = 0
    token: int = 0
    row: tuple[int, int] = NO_ROW
    creators: tuple[int, ...] = (PUT, PUT)
    scanners: tuple[Scanner, ...] = (Scanner(), Scanner())


def check(variant: str = "") -> Verdict:
    """Explore the protocol as designed, or without the rule that the variant names."""
    return explore(State(), lambda state: _successors(state, variant), _violated)


def _violated(state: State) -> str:
    for i, second in enumerate(FIRE):
        aside = state.row[0] <= second <= state.row[1]
        if state.creators[i] == ANSWERED and state.done >= second and not state.sent[i] and not aside:
            return "cursor-honest"
    return ""


def _successors(state: State, variant: str) -> Iterator[State]:
    for i in range(len(FIRE)):
        yield from _creator(state, i, variant)
    for k, scanner in enumerate(state.scanners):
        for after, then in _scanner(state, scanner, variant):
            yield after._replace(scanners=put(state.scanners, k, then))
        if scanner.at != IDLE:
            yield state._replace(scanners=put(state.scanners, k, Scanner()))  # it crashes


def _creator(state: State, i: int, variant: str) -> Iterator[State]:
    def to(step: int) -> State:
        return state._replace(creators=put(state.creators, i, step))

    at = state.creators[i]
    if at == PUT:
        yield to(LOOK)._replace(items=put(state.items, i, value=True))
    elif at == LOOK:
        cursor = state.done if variant == "creator reads done" else state.closing
        announced = cursor >= FIRE[i] and variant != "creator does not look"
        yield to(SEND if announced else ANSWER)
    elif at == SEND:  # a queue that takes nothing leaves it here: it does not answer
        yield to(ANSWER)._replace(sent=put(state.sent, i, value=True))
    elif at == ANSWER:
        yield to(ANSWERED)


def _scanner(state: State, it: Scanner, variant: str) -> Iterator[tuple[State, Scanner]]:
    """What a scanner may do next, and what it then is."""
    if it.at == IDLE:
        yield from _take(state, variant)
    elif it.at == ANNOUNCED:
        read = tuple(i for i, second in enumerate(FIRE) if state.items[i] and it.begin < second <= it.second)
        yield state, it._replace(at=READ, read=read)
    elif it.at == READ:
        if variant == "advance before send":
            yield _advanced(state, it, variant), it._replace(at=SENT)
        else:
            yield from _send(state, it, SENT)
    elif it.at == SENT:
        if variant == "advance before send":
            yield _with_sent(state, it.read), Scanner()
        elif it.token == state.token:
            yield _advanced(state, it, variant), it._replace(at=ADVANCED)
        else:
            yield state, Scanner()
    elif it.at == ADVANCED:
        yield from _begin_aside(state, it, variant)
    elif it.at == ASIDE_READ:
        yield from _send(state, it, ASIDE_SENT)
    elif it.at == ASIDE_SENT:
        mine = it.token == state.token or variant == "row is deleted without the token"
        served = mine and not it.left and variant != "row is deleted before it is served"
        yield state._replace(row=NO_ROW) if served else state, Scanner()


def _take(state: State, variant: str) -> Iterator[tuple[State, Scanner]]:
    """When a lease lapses is anybody's guess: it may be taken at any time, for any window."""
    if state.token >= TOKEN_MAX:
        return
    for second in range(1, NOW + 1):
        closing = max(state.closing, second)
        if variant == "announce after read":
            closing = state.closing
        elif variant == "closing may go back":
            closing = second
        token = state.token + 1
        yield state._replace(closing=closing, token=token), Scanner(ANNOUNCED, token, second, state.done)


def _send(state: State, it: Scanner, then: int) -> Iterator[tuple[State, Scanner]]:
    """All of it goes, or the queue takes nothing."""
    yield _with_sent(state, it.read), it._replace(at=then, left=())
    if it.read:
        yield state, it._replace(at=then, left=it.read)


def _with_sent(state: State, timers: tuple[int, ...]) -> State:
    return state._replace(sent=tuple(was or i in timers for i, was in enumerate(state.sent)))


def _advanced(state: State, it: Scanner, variant: str) -> State:
    """One transaction: the cursor, and the row of what it passes unsent."""
    closing = max(state.closing, it.second) if variant == "announce after read" else state.closing
    after = state._replace(closing=closing, done=max(state.done, it.second))
    if not it.left or variant in ("what failed gets no row", "advance before the row is written"):
        return after
    return after._replace(row=_widened(state.row, it.left, variant))


def _widened(row: tuple[int, int], left: tuple[int, ...], variant: str) -> tuple[int, int]:
    seconds = [FIRE[i] for i in left]
    if row == NO_ROW or variant == "row is replaced, not widened":
        return min(seconds), max(seconds)
    return min(row[0], *seconds), max(row[1], *seconds)


def _begin_aside(state: State, it: Scanner, variant: str) -> Iterator[tuple[State, Scanner]]:
    """What is set aside is served behind what is due, by whoever holds the slice."""
    if it.left:
        if variant == "advance before the row is written" and it.token == state.token:
            yield state._replace(row=_widened(state.row, it.left, variant)), Scanner()
        yield state, Scanner()  # it waits for its next try
        return
    if state.row == NO_ROW:
        yield state, Scanner()
        return
    read = tuple(i for i, second in enumerate(FIRE) if state.items[i] and state.row[0] <= second <= state.row[1])
    early = variant == "row is deleted before it is served" and it.token == state.token
    yield state._replace(row=NO_ROW) if early else state, it._replace(at=ASIDE_READ, read=read)
