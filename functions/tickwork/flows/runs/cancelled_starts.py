"""Starts of what bears a label: each looks at its group behind its own write (cancelled-stays).

A start that looked before it wrote could read, then the group be cancelled and that be answered, then the start be
written: it would have started after the answer. Looked behind the write, what was cancelled by then is read here, and
the attempt ends before its worker hears of it. A crash between the write and the look leaves a lease that lapses, and
whoever starts the run then looks, too. A start that is asked for again looks again, for its first answer
may have been lost. Nothing is read of what bears no label.
"""

from __future__ import annotations

from dataclasses import replace

from tickwork.core.errors import WorldError
from tickwork.core.instants import SECOND_MS
from tickwork.core.ledger import lifecycle
from tickwork.core.ledger.epochs import Group
from tickwork.core.ledger.records import Run
from tickwork.core.ledger.work import ORDINARY
from tickwork.core.ledger.writes import Committed, Update
from tickwork.core.runs import endings
from tickwork.core.runs.attempts import Declined
from tickwork.core.runs.endings import Failure
from tickwork.flows.ledger import groups
from tickwork.flows.ledger.commit import pause_ms
from tickwork.flows.ledger.reading import read_run
from tickwork.flows.runs import finishing
from tickwork.ports import Ports

READ_TRIES_MAX = 3
"""Beyond what the client library repeats itself: an `unsafe` run whose start is not answered is not begun again."""

END_TRIES_MAX = 4
"""Each refusal means that the run has moved since: a heartbeat, or somebody who cancels it too."""


def unless_cancelled(ports: Ports, run: Run) -> Declined | None:
    """None where a run that was just started may go on; else its attempt, and the run, have ended."""
    if not run.group:
        return None
    group = groups.cancelled(_read(ports, run), run)
    return None if group is None else _end(ports, run, group)


def _read(ports: Ports, run: Run) -> groups.Known:
    for tries in range(1, READ_TRIES_MAX + 1):
        try:
            return groups.read_groups(ports, [groups.label_of(run)])
        except WorldError:
            if tries == READ_TRIES_MAX:
                raise
            ports.clock.sleep_ms(pause_ms(tries))
    raise AssertionError("unreachable: the last try returns or raises")


def _end(ports: Ports, started: Run, group: Group) -> Declined:
    failure = Failure(endings.CANCELLED, group.why)
    run: Run | None = started
    for _ in range(END_TRIES_MAX):
        if run is None or not endings.holds(run, started.token):
            status = run.status if run is not None and run.ended else "stale_token"
            return Declined(status, discard=run is None or run.ended)
        now_ms = ports.clock.now_ms()
        verdict = endings.end_attempt(run, failure, ORDINARY, now_ms, ports.layout.retention_s, cancel=group.why)
        end, *others = verdict.writes
        assert isinstance(end, Update), "the run's own comes first"
        end = replace(end, set={**end.set, "cancelled_by": group.by})
        if isinstance(finishing.commit_end(ports, (end, *others)), Committed):
            ports.signals.count("runs.cancelled_with_group_total", team=run.key.team)
            finishing.note_end(ports, run.key, verdict.status, verdict.reason, now_ms)
            return Declined(lifecycle.CANCELLED, discard=True)
        run = read_run(ports, started.key)
    return Declined("contended", discard=False, retry_after_ms=SECOND_MS)
