"""What a rule of the wire protocol is here, how one is registered, and what several of them ask for.

Owns no rule itself: those on messages and outcomes are in `outcome_rules`, those on leases and stops in `lease_rules`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tickwork.conformance.bench import LEASE, Bench
from tickwork.conformance.platform import Scripted

type Check = Callable[[Bench], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    rule: str
    modes: frozenset[str]
    check: Check


def registering(scenarios: list[Scenario]) -> Callable[..., Callable[[Check], Check]]:
    """A decorator that adds a check to the scenarios, for the modes it is given. The first line of the check's
    docstring is the rule as a report prints it."""

    def scenario(*modes: str) -> Callable[[Check], Check]:
        def register(check: Check) -> Check:
            rule = (check.__doc__ or "").strip().splitlines()[0]
            scenarios.append(Scenario(check.__name__, rule, frozenset(modes), check))
            return check

        return register

    return scenario


def ends(bench: Bench, run: Scripted, outcome: str) -> None:
    """The run is completed with this outcome and, where there is a queue, its message deleted after that."""
    bench.wait_for("accepted", run, "the outcome is reported")
    (accepted,) = bench.platform.of("accepted", run.ref)
    bench.check(accepted.facts["outcome"] == outcome, f"the outcome is {outcome!r}")
    if bench.mode != LEASE:
        bench.wait_for("delete", run, "the message is deleted")
        first = bench.platform.of("delete", run.ref)[0]
        bench.check(accepted.at_s <= first.at_s, "in this order: accepted, then delete")


def is_kept(bench: Bench, run: Scripted) -> None:
    bench.never("delete", run, "the message is not deleted")


def is_undone_or_done(bench: Bench, run: Scripted) -> None:
    """Either the run was never taken, or it was given back at once, or it was completed."""
    if not bench.seen("receive", run) + bench.seen("start", run):
        return
    if bench.seen("start", run):
        bench.check(bench.seen("accepted", run) == 1, "a run that was started is completed")
        return
    shown = [event.facts["seconds"] for event in bench.platform.of("show", run.ref)]
    bench.check(shown == [0], "a message that was not started is visible again at once")
    bench.never("began", run, "it is not run")
