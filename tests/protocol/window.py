"""The window protocol against creators of near timers: announce, read, send, advance, and what is set aside.

Two scanners (crash, pause and take-over at any time) and two creators over two seconds. The queue may take nothing, at
any send. What a window could not send it sets aside: a row of the seconds it covers, written in one transaction with
the advance that passes them; whoever holds the slice later reads the row's seconds again, sends, and takes the row
away. Both timers are of one team, which may have had its part of a window before they are sent: what it had due beyond
that goes into the team's row, again in one transaction with the advance; the row is served behind what is due, the
older timer first, and shrinks in one write. Checked in every state, cursor-honest: a timer whose creator was answered
and that `done` has passed was sent, or lies in a row. Checked at each send of whoever holds the slice, the team's
order: nothing of it goes before an older one that lies in its row. Variants leave out a rule each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.protocol.explore import Verdict, explore, put

FIRE = (1, 2)
"""The second of each of the two timers."""
NOW, TOKEN_MAX = 2, 3
NO_ROW = (0, 0)

IDLE, ANNOUNCED, READ, SENT, ADVANCED, ASIDE_READ, ASIDE_SENT, TEAM_READ, TEAM_SENT = range(9)
PUT, LOOK, SEND, ANSWER, ANSWERED = range(5)

ROW_CAUGHT = (
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
TEAM_CAUGHT = (
    "advance before the team's row is written",
    "what is beyond the team's part gets no row",
    "the team's row is replaced, not widened",
    "the team's row forgets what its turn did not reach",
    "the team's row shrinks before it is served",
    "the team's row shrinks without the token",
    "the team's newer work goes before its row",
)
CAUGHT = (*ROW_CAUGHT, *TEAM_CAUGHT)

FAILING, SHARING = "queues fail", "teams share"
"""What may happen in a world. With both there are 1.4 million states: `make protocol-larger` goes through them. Where
teams share and nothing fails, the slice is taken over once only: that is enough to miss each rule."""


class Scanner(NamedTuple):
    """`read` are the timers it has read, `left` those it could not send, `over` those beyond the team's part."""

    at: int = IDLE
    token: int = 0
    second: int = 0
    begin: int = 0
    read: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    over: tuple[int, ...] = ()


class State(NamedTuple):
    world: tuple[str, ...] = (FAILING, SHARING)
    items: tuple[bool, ...] = (False, False)
    sent: tuple[bool, ...] = (False, False)
    closing: int = 0
    done: int = 0
    token: int = 0
    row: tuple[int, int] = NO_ROW
    team: tuple[int, int] = NO_ROW
    out_of_order: bool = False
    creators: tuple[int, ...] = (PUT, PUT)
    scanners: tuple[Scanner, ...] = (Scanner(), Scanner())


def check(variant: str = "", *, larger: bool = False) -> Verdict:
    """Explore the protocol as designed, or without the rule that the variant names. `larger`: with all that may happen
    in one world."""
    worlds = ((FAILING, SHARING),) if larger else ((FAILING,), (SHARING,))
    if variant:
        worlds = ((FAILING,),) if variant in ROW_CAUGHT else ((SHARING,),)
    verdicts = []
    for world in worlds:
        verdict = explore(State(world), lambda state: _successors(state, variant), _violated)
        if verdict.violated:
            return verdict
        verdicts.append(verdict)
    return Verdict(sum(verdict.states for verdict in verdicts))


def _violated(state: State) -> str:
    if state.out_of_order:
        return "order of a team"
    for i, second in enumerate(FIRE):
        aside = _is_in(state.row, second) or _is_in(state.team, second)
        if state.creators[i] == ANSWERED and state.done >= second and not state.sent[i] and not aside:
            return "cursor-honest"
    return ""


def _is_in(row: tuple[int, int], second: int) -> bool:
    return row[0] <= second <= row[1]


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
        waits = state.team != NO_ROW and variant != "the team's newer work goes before its row"
        parts = range(0 if SHARING in state.world else len(read), len(read) + 1)
        for part in (0,) if waits else parts:
            yield state, it._replace(at=READ, read=read[:part], over=read[part:])
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
    else:
        yield from _aside(state, it, variant)


def _aside(state: State, it: Scanner, variant: str) -> Iterator[tuple[State, Scanner]]:
    """What was set aside is read, sent, and no longer covered."""
    if it.at == ASIDE_READ:
        yield from _send(state, it, ASIDE_SENT)
    elif it.at == TEAM_READ:
        for part in range(1, len(it.read) + 1):
            turn = it._replace(read=it.read[:part], over=it.read[part:])
            yield from _send(state, turn, TEAM_SENT)
    elif it.at == TEAM_SENT:
        mine = it.token == state.token or variant == "the team's row shrinks without the token"
        yield _turned(state, it, variant) if mine else state, Scanner()
    elif it.at == ASIDE_SENT:
        mine = it.token == state.token or variant == "row is deleted without the token"
        served = mine and not it.left and variant != "row is deleted before it is served"
        yield state._replace(row=NO_ROW) if served else state, Scanner()


def _take(state: State, variant: str) -> Iterator[tuple[State, Scanner]]:
    """When a lease lapses is anybody's guess: it may be taken at any time, for any window."""
    if state.token >= (TOKEN_MAX if FAILING in state.world else TOKEN_MAX - 1):
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
    older = range(min(it.read)) if it.read else ()
    overtakes = it.token == state.token and any(_is_in(state.team, FIRE[i]) and not state.sent[i] for i in older)
    after = _with_sent(state, it.read)
    if then == SENT and overtakes:
        after = after._replace(out_of_order=True)
    yield after, it._replace(at=then, left=())
    if it.read and FAILING in state.world:
        yield state, it._replace(at=then, left=it.read)


def _with_sent(state: State, timers: tuple[int, ...]) -> State:
    return state._replace(sent=tuple(was or i in timers for i, was in enumerate(state.sent)))


def _advanced(state: State, it: Scanner, variant: str) -> State:
    """One transaction: the cursor, and the row of what it passes unsent."""
    closing = max(state.closing, it.second) if variant == "announce after read" else state.closing
    after = state._replace(closing=closing, done=max(state.done, it.second))
    if it.over and variant not in (
        "what is beyond the team's part gets no row",
        "advance before the team's row is written",
    ):
        after = after._replace(team=_widened(after.team, it.over, variant, "the team's row is replaced, not widened"))
    if not it.left or variant in ("what failed gets no row", "advance before the row is written"):
        return after
    return after._replace(row=_widened(state.row, it.left, variant))


def _turned(state: State, it: Scanner, variant: str) -> State:
    """One transaction at the end of a turn: the team's row, and the row of what could not be sent."""
    _, until = state.team
    begin = FIRE[it.over[0]] if it.over and variant != "the team's row forgets what its turn did not reach" else 0
    after = state._replace(team=(begin, until) if begin else NO_ROW)
    return after._replace(row=_widened(state.row, it.left, variant)) if it.left else after


def _widened(
    row: tuple[int, int], left: tuple[int, ...], variant: str, replaced: str = "row is replaced, not widened"
) -> tuple[int, int]:
    seconds = [FIRE[i] for i in left]
    if row == NO_ROW or variant == replaced:
        return min(seconds), max(seconds)
    return min(row[0], *seconds), max(row[1], *seconds)


def _begin_aside(state: State, it: Scanner, variant: str) -> Iterator[tuple[State, Scanner]]:
    """What is set aside is served behind what is due, by whoever holds the slice."""
    if it.left:
        if variant == "advance before the row is written" and it.token == state.token:
            yield state._replace(row=_widened(state.row, it.left, variant)), Scanner()
        yield state, Scanner()  # it waits for its next try
        return
    if it.over and variant == "advance before the team's row is written":
        if it.token == state.token:
            wider = _widened(state.team, it.over, variant)
            yield state._replace(team=wider), it._replace(over=())
        return
    if state.team != NO_ROW:
        read = tuple(i for i, second in enumerate(FIRE) if state.items[i] and _is_in(state.team, second))
        early = variant == "the team's row shrinks before it is served" and it.token == state.token
        served = state._replace(team=NO_ROW) if early or (not read and it.token == state.token) else state
        yield served, it._replace(at=TEAM_READ, read=read, over=()) if read else Scanner()
    if state.row == NO_ROW:
        yield state, Scanner()
        return
    read = tuple(i for i, second in enumerate(FIRE) if state.items[i] and _is_in(state.row, second))
    early = variant == "row is deleted before it is served" and it.token == state.token
    yield state._replace(row=NO_ROW) if early else state, it._replace(at=ASIDE_READ, read=read)
