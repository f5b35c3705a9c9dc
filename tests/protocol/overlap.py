"""Overlap: one job's occurrences, each due in turn; who fires, waits or is skipped while another has not ended.

Two scanners (the second may take over at any time), one who looks at the buffer, one who replays what is dead, one who
changes the policy; each reads the job, then the runs that hold it, then writes on condition that the job is as it was
read, then sends; each may crash between any two. Who looks stands for all three that do in the code: the timer, who has
just buffered, who has just ended a run. The first makes the release certain, the other two make it prompt.

A job names its `holders`: the runs that were dispatched and may not have ended; mostly one, the newest. `held` says up
to where that is so: under `allow`, and by scanners of an older version, occurrences are passed that nobody has put
down, and then `held` lies behind `next`, and what lies between is looked for. Checked in every state:

- two at once: nothing is dispatched, under another policy than `allow`, while another run has not ended;
- overtaken: nothing newer is dispatched while an older one waits in the buffer;
- cancelled for nobody: under `cancel_other` nothing is asked to end but what holds the job while one waits;
- not the newest: under `cancel_other` nothing is dispatched that a newer one, which waits, would have replaced;
- the buffer is whole: from `first`, each names the one behind it, `count` of them, to `last`; and no other waits;
- every-end-recorded: when all is at rest, every occurrence has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.protocol.explore import Verdict, explore, put

ALLOW, SKIP, BUFFER_ONE, BUFFER_ALL, CANCEL_OTHER = "allow", "skip", "buffer_one", "buffer_all", "cancel_other"
BUFFER_MAX = {BUFFER_ONE: 1, BUFFER_ALL: 2}

PENDING, LIVE, ASKED, LAPSED, BUFFERED, ENDED, DEAD, SKIPPED = range(8)
NOBODY_COMES = (
    "nobody looks by timer",
    "who looks asks nobody to end",
    "of several only the newest is asked to end",
)
"""Without these rules what waits may wait for ever: that is looked for where all others have come to rest."""

HOLDING = (PENDING, LIVE, ASKED)
"""Queued or waiting for a retry; running; running, and asked to stop. One that was asked and whose lease has lapsed is
not begun again, and holds nothing."""

IDLE, READ, HELD, SEND, ASK = range(5)
NOBODY = -1
NEW, OLD = "new", "old"


class World(NamedTuple):
    """`to`: the policy that somebody may change it to; `scanners`: of which version each is; `last`: how many
    occurrences there are; `endless`: what runs goes on until it is asked to end."""

    policy: str
    to: str = ""
    replays: int = 0
    scanners: tuple[str, ...] = (NEW,)
    last: int = 3
    endless: bool = False


TWO = (NEW, NEW)
QUICK = (
    World(SKIP, scanners=TWO, replays=1, last=2),
    World(BUFFER_ONE, scanners=TWO),
    World(BUFFER_ALL, replays=1),
    World(BUFFER_ALL, last=4),
    World(CANCEL_OTHER, replays=1),
    World(CANCEL_OTHER, scanners=TWO, last=2, endless=True),
    World(ALLOW, CANCEL_OTHER),
    World(ALLOW, SKIP, replays=1),
    World(ALLOW, BUFFER_ONE),
    World(BUFFER_ONE, ALLOW),
    World(BUFFER_ALL, SKIP),
    World(SKIP, scanners=(OLD, NEW)),
    World(BUFFER_ONE, scanners=(OLD, NEW)),
)
"""What CI goes through."""

LARGER = (
    *(World(policy, replays=1, scanners=TWO) for policy in (SKIP, BUFFER_ONE, CANCEL_OTHER)),
    World(BUFFER_ALL, scanners=TWO, last=4),
    World(BUFFER_ALL, replays=1, last=4),
    *(World(ALLOW, to, replays=1) for to in (SKIP, BUFFER_ONE, CANCEL_OTHER)),
    World(ALLOW, SKIP, scanners=TWO),
    World(ALLOW, BUFFER_ALL, last=4),
    *(World(BUFFER_ALL, to, last=4) for to in (ALLOW, SKIP, BUFFER_ONE)),
    *(World(CANCEL_OTHER, to) for to in (ALLOW, SKIP, BUFFER_ONE, BUFFER_ALL)),
    World(CANCEL_OTHER, scanners=TWO, endless=True),
    World(BUFFER_ONE, CANCEL_OTHER, endless=True),
    World(BUFFER_ALL, CANCEL_OTHER, last=4),
    *(World(policy, scanners=(OLD, NEW)) for policy in (SKIP, BUFFER_ONE, BUFFER_ALL, CANCEL_OTHER)),
)
"""What `make protocol` goes through."""

CAUGHT = {
    "compares next alone": World(SKIP, replays=1, scanners=TWO),
    "newer before older": World(BUFFER_ONE),
    "nobody looks by timer": World(BUFFER_ONE),
    "dispatch does not look": World(SKIP),
    "replay does not take the holder": World(SKIP, replays=1),
    "replay does not look": World(SKIP, replays=1),
    "replay leaves the holder as it was": World(SKIP, replays=1),
    "replay under allow does not check the policy": World(ALLOW, SKIP, replays=1),
    "what was fired as allow is not looked for": World(SKIP, scanners=(OLD, NEW)),
    "what was fired as allow is looked for before the change": World(ALLOW, SKIP, replays=1),
    "of what was fired as allow only the newest is waited for": World(ALLOW, SKIP),
    "change forgets the buffer": World(BUFFER_ONE, ALLOW),
    "nobody names the one behind": World(BUFFER_ALL, last=4),
    "cancelled is not waited for": World(CANCEL_OTHER),
    "cancelled is begun again": World(CANCEL_OTHER),
    "replaced is not recorded": World(CANCEL_OTHER),
    "who looks asks nobody to end": World(CANCEL_OTHER, endless=True),
    "of several only the newest is asked to end": World(ALLOW, CANCEL_OTHER, endless=True),
    "who asks does not compare the job": World(CANCEL_OTHER, replays=1),
    "who asks compares next alone": World(CANCEL_OTHER, replays=1),
    "it is asked before the newer one waits": World(CANCEL_OTHER, scanners=TWO, last=2),
    "of several that wait the oldest is let go": World(BUFFER_ALL, CANCEL_OTHER, last=4),
}
"""Each rule, and a world in which its absence shows."""


class Job(NamedTuple):
    """One item, and one value: every transaction compares the whole of it. A holder is an occurrence and how often it
    was replayed, so that one which is replayed while it is the holder makes another value."""

    policy: str
    version: int = 0
    next: int = 0
    held: int = 0
    holders: tuple[tuple[int, int], ...] = ()
    first: int = NOBODY
    last: int = NOBODY
    count: int = 0


class Actor(NamedTuple):
    """`seen`: the job as it was read; `found`: the runs that then held it; `run`: what is replayed, or to be sent."""

    at: int = IDLE
    seen: Job | None = None
    found: tuple[tuple[int, int], ...] = ()
    run: int = NOBODY


class State(NamedTuple):
    job: Job
    items: tuple[int, ...]
    lives: tuple[int, ...]
    behind: tuple[int, ...]
    sent: tuple[bool, ...]
    replays: int
    changes: bool
    superseded: bool = False
    scanners: tuple[Actor, ...] = (Actor(),)
    looker: Actor = Actor()
    replayer: Actor = Actor()
    changer: Actor = Actor()
    broken: str = ""


def check(variant: str = "", worlds: Iterable[World] = ()) -> Verdict:
    """Explore the protocol as designed, in one world after the other; or without the rule that the variant names."""
    states = 0
    for world in worlds or ((CAUGHT[variant],) if variant else QUICK):
        size = world.last
        blank = (NOBODY,) * size
        begin = State(
            Job(world.policy),
            (PENDING,) * size,
            (0,) * size,
            blank,
            (False,) * size,
            world.replays,
            bool(world.to),
            scanners=(Actor(),) * len(world.scanners),
        )
        model = _Model(world, variant)
        verdict = explore(begin, model.successors, model.violated)
        states += verdict.states
        if verdict.violated:
            return Verdict(states, verdict.violated, verdict.state)
    return Verdict(states)


class _Model:
    def __init__(self, world: World, variant: str) -> None:
        self.world, self.variant = world, variant

    def violated(self, state: State) -> str:
        job = state.job
        if state.broken:
            return state.broken
        at, seen = job.first, 0
        while seen < job.count and at != NOBODY and state.items[at] == BUFFERED:
            seen, last, at = seen + 1, at, state.behind[at]
        if seen != job.count or seen != state.items.count(BUFFERED) or (seen and last != job.last):
            return "the buffer is whole"
        looks = job.count and self.variant not in NOBODY_COMES
        resting = all(it.at == IDLE for it in (*state.scanners, state.looker, state.replayer, state.changer))
        going = {PENDING, ASKED, LAPSED} | (set() if self.world.endless else {LIVE})
        if not resting or looks or job.next < self.world.last or going & {*state.items}:
            return ""
        return "every-end-recorded" if BUFFERED in state.items else ""

    def successors(self, state: State) -> Iterator[State]:
        for k, actor in enumerate(state.scanners):
            for after, then in self._scanner(state, actor, k):
                yield after._replace(scanners=put(state.scanners, k, then))
        for after, then in self._looker(state, state.looker):
            yield after._replace(looker=then)
        for after, then in self._replayer(state, state.replayer):
            yield after._replace(replayer=then)
        for after, then in self._changer(state, state.changer):
            yield after._replace(changer=then)
        yield from self._runs(state)
        if not state.superseded and len(state.scanners) > 1:
            yield state._replace(superseded=True)

    # --- what becomes of runs ---------------------------------------------------------------------------------

    def _runs(self, state: State) -> Iterator[State]:
        def to(k: int, status: int) -> State:
            return state._replace(items=put(state.items, k, status))

        for k, status in enumerate(state.items):
            if status == PENDING and k < state.job.next:
                if state.sent[k]:
                    yield to(k, LIVE)
                else:
                    yield state._replace(sent=put(state.sent, k, value=True))  # the audit
            elif status == LIVE and not self.world.endless:
                yield to(k, DEAD if state.replays else ENDED)
            elif status == ASKED:
                yield to(k, ENDED)
                yield to(k, LAPSED)
            elif status == LAPSED:  # the next start
                yield self._dispatched(to(k, LIVE), k) if self.variant == "cancelled is begun again" else to(k, ENDED)

    def _dispatched(self, state: State, k: int) -> State:
        """It is on its way to a worker: is another one?"""
        if state.job.policy != ALLOW:
            others = (j for j in range(state.job.next) if j != k)
            if any(state.items[j] in HOLDING for j in others):
                return state._replace(broken="two at once")
        if BUFFERED in state.items[:k]:
            return state._replace(broken="overtaken")
        if state.job.policy == CANCEL_OTHER and BUFFERED in state.items[k + 1 :]:
            return state._replace(broken="not the newest")
        return state

    # --- reading ----------------------------------------------------------------------------------------------

    def _held(self, state: State, seen: Job) -> tuple[tuple[int, int], ...]:
        """The runs that hold the job: of those that it names, and those that it has passed and put down nowhere."""
        among = seen.holders
        if self.variant != "what was fired as allow is not looked for":
            among += tuple((k, state.lives[k]) for k in range(seen.held, seen.next))
            if self.variant == "of what was fired as allow only the newest is waited for":
                among = among[-1:]
        return tuple((k, life) for k, life in among if state.items[k] in HOLDING)

    def _reads(self, state: State, it: Actor) -> tuple[State, Actor]:
        if it.at == IDLE:
            return state, it._replace(at=READ, seen=state.job)
        assert it.seen is not None
        return state, it._replace(at=HELD, found=self._held(state, it.seen))

    def _is_as_read(self, state: State, seen: Job) -> bool:
        if self.variant == "compares next alone":
            return (state.job.next, state.job.version) == (seen.next, seen.version)
        return state.job == seen

    # --- writing ----------------------------------------------------------------------------------------------

    def _head(self, seen: Job, found: tuple[tuple[int, int], ...]) -> str:
        """What is due to the oldest that waits."""
        if not seen.count:
            return ""
        if seen.policy == SKIP or (seen.policy == CANCEL_OTHER and seen.count > 1):
            return "drop" if self.variant != "of several that wait the oldest is let go" or found else "release"
        return "release" if seen.policy == ALLOW or not found else ""

    def _head_taken(self, state: State, it: Actor, does: str) -> tuple[State, Actor]:
        seen = it.seen
        assert seen is not None
        head = seen.first
        rest = seen.count - 1
        job = state.job._replace(
            first=state.behind[head] if rest else NOBODY, last=seen.last if rest else NOBODY, count=rest
        )
        if does == "drop":
            return state._replace(job=job, items=put(state.items, head, SKIPPED)), Actor()
        if seen.policy != ALLOW:
            job = job._replace(holders=((head, state.lives[head]),), held=seen.next)
        after = state._replace(job=job, items=put(state.items, head, PENDING))
        return self._dispatched(after, head), Actor(SEND, run=head)

    def _scanner(self, state: State, it: Actor, k: int) -> Iterator[tuple[State, Actor]]:
        if it.at == IDLE:
            if state.job.next < self.world.last:
                yield self._reads(state, it)
            return
        yield state, Actor()  # it crashes
        if it.at == SEND:
            yield self._sends(state, it)
            return
        if self.world.scanners[k] == OLD:
            yield self._fires_as_allow(state, it, k)
            return
        if it.at == READ:
            yield self._reads(state, it)
            return
        assert it.seen is not None
        fenced = state.superseded and k == 0
        if fenced or not self._is_as_read(state, it.seen):
            return
        does = self._head(it.seen, it.found) if self.variant != "newer before older" else ""
        yield self._head_taken(state, it, does) if does else self._passes(state, it, it.seen)

    def _fires_as_allow(self, state: State, it: Actor, k: int) -> tuple[State, Actor]:
        """A scanner that knows of no policy. It compares what it knows, and leaves alone what it does not."""
        seen = it.seen
        assert seen is not None
        if (state.superseded and k == 0) or (state.job.next, state.job.version) != (seen.next, seen.version):
            return state, Actor()
        return state._replace(job=state.job._replace(next=seen.next + 1)), Actor(SEND, run=seen.next)

    def _passes(self, state: State, it: Actor, seen: Job) -> tuple[State, Actor]:
        """One transaction: the occurrence that is due fires, is buffered, or is skipped; the job moves on."""
        due, found = seen.next, it.found
        if self.variant == "dispatch does not look":
            found = ()
        moved = state.job._replace(next=due + 1)
        if seen.policy == ALLOW:
            return self._dispatched(state._replace(job=moved), due), Actor(SEND, run=due)
        moved = moved._replace(held=due + 1, holders=found)
        if not found and (not seen.count or self.variant == "newer before older"):
            fired = state._replace(job=moved._replace(holders=((due, 0),)))
            return self._dispatched(fired, due), Actor(SEND, run=due)
        if seen.policy == CANCEL_OTHER:
            return self._comes(state, it, moved)
        if seen.count < BUFFER_MAX.get(seen.policy, 0):
            return self._buffers(state, moved, seen), Actor()
        return state._replace(job=moved, items=put(state.items, due, SKIPPED)), Actor()

    def _buffers(self, state: State, moved: Job, seen: Job) -> State:
        due = seen.next
        behind = state.behind
        if seen.count and self.variant != "nobody names the one behind":
            behind = put(behind, seen.last, due)
        job = moved._replace(first=seen.first if seen.count else due, last=due, count=seen.count + 1)
        return state._replace(job=job, items=put(state.items, due, BUFFERED), behind=behind)

    def _comes(self, state: State, it: Actor, moved: Job) -> tuple[State, Actor]:
        """Under `cancel_other`: this one waits, in the place of one that waited; those that hold it are asked after."""
        seen, items = it.seen, state.items
        assert seen is not None
        due = seen.next
        if seen.count > 1:  # since another policy: the others end one by one
            return self._buffers(state, moved, seen), Actor()
        if seen.count and items[seen.first] != BUFFERED:
            return state, Actor()  # refused: it has ended since
        if seen.count and self.variant != "replaced is not recorded":
            items = put(items, seen.first, SKIPPED)
        if self.variant == "cancelled is not waited for":
            items = tuple(ASKED if k in dict(it.found) and one == LIVE else one for k, one in enumerate(items))
            fired = state._replace(job=moved._replace(holders=((due, 0),)), items=items)
            return self._dispatched(fired, due), Actor(SEND, run=due)
        job = moved._replace(first=due, last=due, count=1)
        return state._replace(job=job, items=put(items, due, BUFFERED)), Actor()

    def _asks(self, state: State, it: Actor) -> Iterator[tuple[State, Actor]]:
        """Whoever finds that one waits asks the runs that hold the job, one after the other, each on condition that the
        job is as it was read."""
        seen = it.seen
        assert seen is not None
        if seen.policy != CANCEL_OTHER or not (seen.count or self.variant == "it is asked before the newer one waits"):
            return
        if self.variant == "who looks asks nobody to end":
            return
        among = it.found[-1:] if self.variant == "of several only the newest is asked to end" else it.found
        for k, _ in among:
            ends = {PENDING: ENDED, LIVE: ASKED}.get(state.items[k])
            if ends is None or not self._may_ask(state, seen):
                continue
            after = state._replace(items=put(state.items, k, ends))
            if not self._is_asked_for(state, k):
                after = after._replace(broken="cancelled for nobody")
            others = tuple(one for one in among if one[0] != k)
            yield after, it._replace(at=ASK, found=others) if others else Actor()

    def _may_ask(self, state: State, seen: Job) -> bool:
        if self.variant == "who asks does not compare the job":
            return True
        if self.variant == "who asks compares next alone":
            return (state.job.next, state.job.version) == (seen.next, seen.version)
        return state.job == seen

    @staticmethod
    def _is_asked_for(state: State, k: int) -> bool:
        """Whether that run holds the job, and one waits for it."""
        named = k in dict(state.job.holders) or state.job.held <= k < state.job.next
        return state.job.policy == CANCEL_OTHER and state.job.count > 0 and named

    def _sends(self, state: State, it: Actor) -> tuple[State, Actor]:
        return state._replace(sent=put(state.sent, it.run, value=True)), Actor()

    # --- who looks, replays, changes --------------------------------------------------------------------------

    def _looker(self, state: State, it: Actor) -> Iterator[tuple[State, Actor]]:
        if it.at == IDLE:
            before = self.variant == "it is asked before the newer one waits" and state.job.next < self.world.last
            if (state.job.count or before) and self.variant != "nobody looks by timer":
                yield self._reads(state, it)
            return
        yield state, Actor()
        if it.at == SEND:
            yield self._sends(state, it)
        elif it.at == READ:
            yield self._reads(state, it)
        elif it.seen is not None:
            does = self._head(it.seen, it.found) if it.at == HELD else ""
            if does and self._is_as_read(state, it.seen):
                yield self._head_taken(state, it, does)
            elif not does:
                yield from self._asks(state, it)

    def _replayer(self, state: State, it: Actor) -> Iterator[tuple[State, Actor]]:
        if it.at == IDLE:
            if state.replays:
                for k in range(self.world.last):
                    if state.items[k] == DEAD:
                        yield self._reads(state, it._replace(run=k))
            return
        yield state, Actor()
        if it.at == SEND:
            yield self._sends(state, it)
        elif it.at == READ:
            yield self._reads(state, it)
        elif it.seen is not None:
            yield from self._replays(state, it, it.seen)

    def _replays(self, state: State, it: Actor, seen: Job) -> Iterator[tuple[State, Actor]]:
        """Under `allow` it only compares the policy; else it takes the holder, unless another holds or waits."""
        k, job = it.run, state.job
        if seen.policy == ALLOW:
            checks = self.variant != "replay under allow does not check the policy"
            if checks and job.version != seen.version:
                return
        elif self.variant != "replay does not take the holder":
            looks = self.variant != "replay does not look"
            if (looks and (it.found or seen.count)) or not self._is_as_read(state, seen):
                return
            again = 0 if self.variant == "replay leaves the holder as it was" else state.lives[k] + 1
            job = job._replace(holders=((k, again),), held=seen.next)
        life = put(state.lives, k, state.lives[k] + 1)
        items, sent = put(state.items, k, PENDING), put(state.sent, k, value=False)
        after = state._replace(job=job, items=items, lives=life, sent=sent, replays=state.replays - 1)
        yield self._dispatched(after, k), Actor(SEND, run=k)

    def _changer(self, state: State, it: Actor) -> Iterator[tuple[State, Actor]]:
        if it.at == IDLE:
            if state.changes:
                yield self._reads(state, it)
            return
        yield state, Actor()
        asks = self.variant == "what was fired as allow is looked for before the change"
        if it.at == READ and asks:
            yield self._reads(state, it)
        elif it.seen is not None and self._is_as_read(state, it.seen):
            job = state.job._replace(policy=self.world.to, version=it.seen.version + 1)
            if asks:
                job = job._replace(holders=it.found, held=it.seen.next)
            elif self.world.to == ALLOW:
                job = job._replace(holders=(), held=0)
            if self.variant == "change forgets the buffer":
                job = job._replace(first=NOBODY, last=NOBODY, count=0)
            yield state._replace(job=job, changes=False), Actor()
