"""The chain of a recurring job: two scanners, one update that moves its next occurrence, crashes anywhere.

Occurrences are the seconds 1 to LAST; the one after that stands for "later". A scanner may find at any time that the
job cannot be read, or that the queue takes nothing: it sets the occurrence aside, in one transaction with the advance
that passes it, and whoever holds the slice later steps and sends it then. Checked in every state:

- cursor-honest: `done` never passes a pending item that was not sent and lies in no row;
- moved-stays: an occurrence that an acknowledged update removed is never sent afterwards;
- chain-unbroken: the job's `next` always names a pending item, or "later".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.protocol.explore import Verdict, explore, put

LAST, TOKEN_MAX = 2, 3
ABSENT, PENDING, REMOVED = range(3)
IDLE, READ, JOB, STEP, SEND, ADVANCE, DELETE = range(7)
U_IDLE, U_READ, U_WROTE, U_ENDED = range(4)
NO_ROW = (0, 0)

CAUGHT = (
    "next not fenced",
    "update does not look",
    "scanner forgets its own next",
    "refusal always means drop",
    "refusal always means resend",
    "advance before the row is written",
    "row is deleted before it is served",
    "row forgets its own next",
    "row does not cover what it materialises",
)


class Scanner(NamedTuple):
    """`todo` are the occurrences it has read, `left` those it sets aside; `aside`: it is serving the row."""

    at: int = IDLE
    token: int = 0
    second: int = 0
    begin: int = 0
    todo: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    version: int = 0
    next: int = 0
    aside: bool = False

    @property
    def passing(self) -> int:
        """The second up to which nobody else will look any more: its own, or where the cursor stands already."""
        return max(self.second, self.begin)


class Updater(NamedTuple):
    at: int = U_IDLE
    old: int = 0
    new: int = 0
    version: int = 0


class State(NamedTuple):
    items: tuple[int, ...] = (PENDING, *(ABSENT for _ in range(LAST)))
    sent: tuple[bool, ...] = (False,) * (LAST + 1)
    closing: int = 0
    done: int = 0
    token: int = 0
    next: int = 1
    version: int = 0
    row: tuple[int, int] = NO_ROW
    updater: Updater = Updater()
    late: bool = False
    """An occurrence was sent after the update that removed it."""
    scanners: tuple[Scanner, ...] = (Scanner(), Scanner())

    def item(self, second: int) -> int:
        return self.items[second - 1]


def check(variant: str = "") -> Verdict:
    """Explore the protocol as designed, or without the rule that the variant names."""
    return explore(State(), lambda state: _successors(state, variant), _violated)


def _violated(state: State) -> str:
    if state.late:
        return "moved-stays"
    moving = state.updater.new if state.updater.at == U_WROTE else 0
    for second in range(1, LAST + 1):
        aside = state.row[0] <= second <= state.row[1] or second == moving
        if state.item(second) == PENDING and not state.sent[second - 1] and state.done >= second and not aside:
            return "cursor-honest"
    if state.next <= LAST and state.item(state.next) != PENDING:
        return "chain-unbroken"
    return ""


def _successors(state: State, variant: str) -> Iterator[State]:
    yield from _update(state, variant)
    for k, scanner in enumerate(state.scanners):
        for after, then in _scanner(state, scanner, variant):
            yield after._replace(scanners=put(state.scanners, k, then))
        if scanner.at != IDLE:
            yield state._replace(scanners=put(state.scanners, k, Scanner()))  # it crashes


def _update(state: State, variant: str) -> Iterator[State]:
    """Removes the pending occurrence and puts the one after it in its place; then it is a creator."""
    it = state.updater
    if it.at == U_IDLE and state.next <= LAST:
        yield state._replace(updater=Updater(U_READ, state.next, 0, state.version))
    elif it.at == U_READ:
        yield state._replace(updater=Updater(U_ENDED))  # gives up: a conflict is reported
        if it.version == state.version and state.next == it.old and state.item(it.old) == PENDING:
            new = it.old + 1
            items = put(state.items, it.old - 1, REMOVED)
            if new <= LAST and items[new - 1] == ABSENT:
                items = put(items, new - 1, PENDING)
            moved = state._replace(items=items, next=new, version=state.version + 1)
            yield moved._replace(updater=Updater(U_WROTE, it.old, new))
    elif it.at == U_WROTE:
        look = it.new <= LAST and state.closing >= it.new and variant != "update does not look"
        sent = put(state.sent, it.new - 1, value=True) if look else state.sent
        yield state._replace(sent=sent, updater=Updater(U_ENDED))


def _scanner(state: State, it: Scanner, variant: str) -> Iterator[tuple[State, Scanner]]:
    """What a scanner may do next, and what it then is."""
    if it.at == IDLE and state.token < TOKEN_MAX:
        for second in range(1, LAST + 1):
            taken = state._replace(closing=max(state.closing, second), token=state.token + 1)
            yield taken, Scanner(READ, taken.token, second, state.done)
    elif it.at == READ:
        todo = tuple(s for s in range(it.begin + 1, it.second + 1) if state.item(s) == PENDING)
        yield state, it._replace(at=JOB if todo else ADVANCE, todo=todo)
    elif it.at == JOB:
        yield state, it._replace(at=STEP, version=state.version, next=state.next)
        yield state, _passed(it, left=(*it.left, it.todo[0]))  # it cannot be read
    elif it.at == STEP:
        yield from _step(state, it, variant)
    elif it.at == SEND:
        second = it.todo[0]
        late = state.item(second) == REMOVED and variant == "refusal always means resend"
        yield state._replace(sent=put(state.sent, second - 1, value=True), late=late), _passed(it)
        yield state, _passed(it, left=(*it.left, second))  # the queue takes nothing
    elif it.at == ADVANCE:
        yield from _advance(state, it, variant)
    elif it.at == DELETE:
        yield _row_served(state, it), Scanner()


def _passed(it: Scanner, left: tuple[int, ...] | None = None) -> Scanner:
    """It goes on to the next occurrence that it has read."""
    rest = it.todo[1:]
    then = JOB if rest else DELETE if it.aside else ADVANCE
    return it._replace(at=then, todo=rest, version=0, next=0, left=it.left if left is None else left)


def _step(state: State, it: Scanner, variant: str) -> Iterator[tuple[State, Scanner]]:
    """One transaction: the lease's token, the job's `next`, the next item."""
    second = it.todo[0]
    if it.token != state.token and variant != "next not fenced":
        yield state, Scanner()
        return
    pending = state.item(second) == PENDING
    if it.version == state.version and state.next == second == it.next and pending:
        new = second + 1
        fresh = new <= LAST and state.item(new) == ABSENT
        items = put(state.items, new - 1, PENDING) if fresh else state.items
        forgets = variant == ("row forgets its own next" if it.aside else "scanner forgets its own next")
        own = (new,) if new <= it.passing and new not in it.todo and not forgets else ()
        yield state._replace(items=items, next=new), it._replace(at=SEND, todo=(*it.todo, *own))
        return
    mine, passed = pending, state.next > second  # the item's own state tells what a refusal means
    if variant == "refusal always means drop":
        mine = False
    elif variant == "refusal always means resend":
        mine = passed = True
    if mine and passed:
        own = (state.next,) if state.next <= it.passing and state.next not in it.todo else ()
        yield state, it._replace(at=SEND, todo=(*it.todo, *own))
    elif mine:
        yield state, it._replace(at=JOB)  # the job was moved meanwhile: read again
    else:
        yield state, _passed(it)


def _advance(state: State, it: Scanner, variant: str) -> Iterator[tuple[State, Scanner]]:
    """One transaction: the cursor, and the row of what it passes. Then the row is served, if nothing was left: its
    steps may put next occurrences behind the cursor, so that write also widens it up to there."""
    if it.token != state.token:
        yield state, Scanner()
        return
    passed = state._replace(done=max(state.done, it.second))
    if it.left:
        seconds = [*it.left, *(edge for edge in state.row if state.row != NO_ROW)]
        if variant == "advance before the row is written":
            yield passed, Scanner()
        else:
            yield passed._replace(row=(min(seconds), max(seconds))), Scanner()
        return
    if state.row == NO_ROW:
        yield passed, Scanner()
        return
    if variant != "row does not cover what it materialises":
        passed = passed._replace(row=(state.row[0], passed.done))
    todo = tuple(s for s in range(state.row[0], state.row[1] + 1) if state.item(s) == PENDING)
    serving = it._replace(at=JOB if todo else DELETE, todo=todo, aside=True)
    if variant == "row is deleted before it is served":
        passed = passed._replace(row=NO_ROW)
    yield passed, serving


def _row_served(state: State, it: Scanner) -> State:
    """The row is taken away under the token, or narrowed to what is left of it."""
    if it.token != state.token:
        return state
    return state._replace(row=(min(it.left), max(it.left)) if it.left else NO_ROW)
