"""The rules, one scenario each. The first line of a docstring is the rule as a report prints it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from tickwork.conformance.bench import LAMBDA, LEASE, SQS, Bench
from tickwork.conformance.platform import AWAY, Scripted

type Check = Callable[[Bench], None]

SHORT_LEASE_S = 3
THIRD_S = SHORT_LEASE_S / 3


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    rule: str
    modes: frozenset[str]
    check: Check


SCENARIOS: list[Scenario] = []


def scenario(*modes: str) -> Callable[[Check], Check]:
    def register(check: Check) -> Check:
        rule = (check.__doc__ or "").strip().splitlines()[0]
        SCENARIOS.append(Scenario(check.__name__, rule, frozenset(modes), check))
        return check

    return register


def ends(bench: Bench, run: Scripted, outcome: str) -> None:
    """The run is completed with this outcome and, where there is a queue, its message deleted after that."""
    bench.wait_for("accepted", run, "the outcome is reported")
    (accepted,) = bench.platform.of("accepted", run.ref)
    bench.check(accepted.facts["outcome"] == outcome, f"the outcome is {outcome!r}")
    if bench.mode != LEASE:
        bench.wait_for("delete", run, "the message is deleted")
        bench.in_order(run, "accepted", "delete")


def is_kept(bench: Bench, run: Scripted) -> None:
    bench.never("delete", run, "the message is not deleted")


@scenario(SQS, LEASE, LAMBDA)
def completes_then_deletes(bench: Bench) -> None:
    """A granted run is run once, completed with its token, and its message deleted only then"""
    run = bench.send()
    bench.begin()
    ends(bench, run, "succeeded")
    bench.in_order(run, "start", "began", "ended", "complete")
    (report,) = bench.platform.of("began", run.ref)
    bench.check((report.facts["attempt"], report.facts["token"]) == (1, 1), "the job sees attempt and token")
    bench.check(bench.platform.of("complete", run.ref)[0].facts["token"] == 1, "the complete carries the token")
    bench.rest(0.5)
    bench.check(bench.seen("began", run) == 1, "it ran once")


@scenario(SQS, LAMBDA)
def hands_back_what_the_message_says(bench: Bench) -> None:
    """A start hands back ref, attempt and retry_ref of the message, names the worker, and carries a claim"""
    run = bench.send(attempt=3, retry_ref="main#0000#29746041|30#conformance#job#1#retry.3")
    bench.begin()
    ends(bench, run, "succeeded")
    start = bench.platform.of("start", run.ref)[0].facts
    for name in ("attempt", "retry_ref", "dispatched_at_ms", "dispatched_by"):
        bench.check(start.get(name) == run.body[name], f"the start hands back {name}")
    bench.check(8 <= len(str(start.get("claim", ""))) <= 64, "the claim has 8 to 64 characters")
    bench.check(bool(start.get("worker")), "the worker is named")


@scenario(SQS, LAMBDA)
def deletes_a_duplicate(bench: Bench) -> None:
    """A run declined with discard is not run, and its message is deleted"""
    run = bench.send(start=[{"granted": False, "reason": "succeeded", "discard": True}])
    bench.begin()
    bench.wait_for("delete", run, "the message is deleted")
    bench.rest(0.5)
    bench.never("began", run, "it is not run")
    bench.never("complete", run, "it is not completed")


@scenario(SQS, LAMBDA)
def keeps_a_held_run(bench: Bench) -> None:
    """A run held by another is not run and its message kept; when it comes again, it is claimed anew"""
    run = bench.send(start=[{"granted": False, "reason": "held", "discard": False, "retry_after_s": 1}, None])
    bench.begin()
    bench.wait_for("start", run, "it is claimed")
    bench.rest(0.3)
    bench.never("began", run, "it is not run")
    is_kept(bench, run)
    ends(bench, run, "succeeded")
    claims = {event.facts["claim"] for event in bench.platform.of("start", run.ref)}
    bench.check(len(claims) == bench.seen("start", run) == 2, "each delivery has a claim of its own")


@scenario(SQS, LAMBDA)
def keeps_a_busy_run(bench: Bench) -> None:
    """A start answered busy, or not at all, leaves the message, and the run is started later"""
    busy = bench.send(start=[{"granted": False, "reason": "busy", "discard": False, "retry_after_s": 1}, None])
    bench.begin()
    ends(bench, busy, "succeeded")
    away = bench.send(start=[AWAY, None])
    bench.wait_for("accepted", away, "the run is started later", within_s=15)
    bench.check(bench.seen("began", away) == 1, "it ran once")


@scenario(SQS, LEASE, LAMBDA)
def reports_a_failure(bench: Bench) -> None:
    """A job that fails is completed as failed, with the error"""
    run = bench.send(then="fail")
    bench.begin()
    ends(bench, run, "failed")
    bench.check(bool(bench.platform.of("complete", run.ref)[0].facts.get("error")), "the error is told")


@scenario(SQS, LEASE, LAMBDA)
def reports_a_permanent_failure(bench: Bench) -> None:
    """A job that fails for good is completed as failed_permanent"""
    run = bench.send(then="fail_permanently")
    bench.begin()
    ends(bench, run, "failed_permanent")


@scenario(SQS, LEASE, LAMBDA)
def reports_an_unknown_handler(bench: Bench) -> None:
    """A handler this worker does not have is a failure that the history shows, not a message left to rot"""
    run = bench.send(handler="no-such-handler")
    bench.begin()
    bench.wait_for("accepted", run, "the outcome is reported")
    outcome = bench.platform.of("accepted", run.ref)[0].facts["outcome"]
    bench.check(outcome in ("failed", "failed_permanent"), "it failed")


@scenario(SQS, LEASE, LAMBDA)
def repeats_a_complete(bench: Bench) -> None:
    """A complete that was not answered is repeated with the same token; nothing is deleted before"""
    run = bench.send(complete=[*[AWAY] * 5, None])
    bench.begin()
    bench.wait_for("complete", run, "it is completed")
    is_kept(bench, run)
    ends(bench, run, "succeeded")
    tokens = {event.facts["token"] for event in bench.platform.of("complete", run.ref)}
    bench.check(tokens == {1}, "with the same token")
    bench.check(bench.seen("began", run) == 1, "it ran once")


@scenario(SQS, LAMBDA)
def keeps_what_it_could_not_complete(bench: Bench) -> None:
    """A complete refused without discard leaves the message; one refused with discard deletes it"""
    kept = bench.send(complete=[{"accepted": False, "reason": "stale_token", "discard": False}])
    bench.begin()
    bench.wait_for("complete", kept, "it is completed")
    bench.rest(0.5)
    is_kept(bench, kept)
    gone = bench.send(complete=[{"accepted": False, "reason": "succeeded", "discard": True}])
    bench.wait_for("delete", gone, "the message is deleted")


@scenario(SQS, LAMBDA)
def survives_a_bad_message(bench: Bench) -> None:
    """A message that cannot be read is left for the dead-letter queue and does not harm its neighbours"""
    bad, poor = bench.send(raw="{not json"), bench.send(raw='{"v": 1, "ref": "x"}')
    good = bench.send()
    bench.begin()
    ends(bench, good, "succeeded")
    is_kept(bench, bad)
    is_kept(bench, poor)


@scenario(SQS, LEASE)
def beats_each_third(bench: Bench) -> None:
    """A long run is one copy: a heartbeat each third of the lease, and the message stays hidden"""
    run = bench.send(work_s=3 * SHORT_LEASE_S, lease_s=SHORT_LEASE_S)
    bench.begin()
    bench.wait_for("accepted", run, "the outcome is reported", within_s=4 * SHORT_LEASE_S + 3)
    beats = [bench.platform.of("start", run.ref)[-1].at_s, *(e.at_s for e in bench.platform.of("heartbeat", run.ref))]
    beats.append(bench.platform.of("ended", run.ref)[-1].at_s)
    gaps = [later - earlier for earlier, later in pairwise(beats)]
    bench.check(max(gaps) <= THIRD_S * 1.6, f"no gap over a third of the lease ({max(gaps):.2f} s of {THIRD_S:.0f})")
    bench.check(len(beats) <= 2 + 9 * 2, "not much more often than each third")
    bench.check(bench.seen("began", run) == 1, "it ran once")
    bench.check(bench.seen("start", run) == 1, "it was started once")
    bench.check(bench.seen("receive", run) <= 1, "the message stayed hidden")


@scenario(LEASE)
def hands_back_the_receipt(bench: Bench) -> None:
    """Heartbeats and completes of a leased run carry its receipt, with which the platform keeps its message"""
    run = bench.send(work_s=1.5)
    bench.begin()
    ends(bench, run, "succeeded")
    calls = [*bench.platform.of("heartbeat", run.ref), *bench.platform.of("complete", run.ref)]
    bench.check(len(calls) >= 2, "there are a heartbeat and a complete")
    bench.check(all(call.facts.get("receipt") == run.receipt for call in calls), "each carries the receipt")


@scenario(SQS, LEASE)
def forgives_one_failed_beat(bench: Bench) -> None:
    """One failed heartbeat is forgiven"""
    run = bench.send(work_s=2.8, lease_s=SHORT_LEASE_S, heartbeat=[AWAY, None])
    bench.begin()
    ends(bench, run, "succeeded")


@scenario(SQS, LEASE)
def stops_after_two_failed_beats(bench: Bench) -> None:
    """After two failed heartbeats the job is stopped within its lease, not completed, and its message kept"""
    run = bench.send(work_s=8, lease_s=SHORT_LEASE_S, heartbeat=[AWAY])
    bench.begin()
    bench.wait_for("heartbeat", run, "two heartbeats are tried", count=2)
    run.leased_until_s = float("inf")  # nobody gets it meanwhile
    run.visible_at_s = float("inf")
    bench.wait_for("stopped", run, "the job is stopped", within_s=SHORT_LEASE_S)
    bench.rest(1.0)
    bench.never("ended", run, "the job did not go on to its end")
    bench.never("complete", run, "it is not completed")
    is_kept(bench, run)


@scenario(SQS, LEASE, LAMBDA)
def trusts_the_lease_of_the_answer(bench: Bench) -> None:
    """A lease granted for less than was asked for is trusted for that only: the job is stopped when it ends"""
    bound_s = 2.0
    run = bench.send(work_s=8, lease_s=60, bound_s=bound_s, heartbeat=[None, AWAY])
    bench.begin()
    bench.wait_for("began", run, "it runs")
    run.leased_until_s = float("inf")  # nobody gets it meanwhile
    run.visible_at_s = float("inf")
    bench.wait_for("stopped", run, "the job is stopped")
    lasted_s = bench.platform.of("stopped", run.ref)[0].at_s - bench.platform.of("start", run.ref)[0].at_s
    bench.check(lasted_s < bound_s + 0.8, f"when its {bound_s:.0f} s are over (after {lasted_s:.1f} s)")
    bench.rest(0.5)
    bench.never("ended", run, "the job did not go on to its end")
    bench.never("complete", run, "it is not completed")
    is_kept(bench, run)


@scenario(SQS, LEASE)
def stops_at_a_refused_beat(bench: Bench) -> None:
    """A heartbeat refused with stale_token stops the job at once: another has the run"""
    run = bench.send(
        work_s=8, lease_s=SHORT_LEASE_S, heartbeat=[{"accepted": False, "reason": "stale_token", "discard": False}]
    )
    bench.begin()
    bench.wait_for("heartbeat", run, "a heartbeat is tried")
    run.leased_until_s = float("inf")
    run.visible_at_s = float("inf")
    bench.wait_for("stopped", run, "the job is stopped", within_s=1.5)
    bench.rest(0.5)
    bench.check(bench.seen("heartbeat", run) == 1, "no more heartbeats")
    bench.never("complete", run, "it is not completed")
    is_kept(bench, run)


@scenario(SQS, LEASE)
def stops_when_cancelled(bench: Bench) -> None:
    """A heartbeat answered with cancel stops the job"""
    run = bench.send(work_s=8, lease_s=SHORT_LEASE_S, heartbeat=[{"accepted": True, "cancel": True}])
    bench.begin()
    bench.wait_for("stopped", run, "the job is stopped")
    bench.rest(0.5)
    bench.never("ended", run, "the job did not go on to its end")
    outcomes = {event.facts["outcome"] for event in bench.platform.of("complete", run.ref)}
    bench.check(outcomes <= {"cancelled", "failed_permanent"}, "it is completed as cancelled, if at all")


@scenario(SQS, LEASE)
def takes_only_what_it_can_run(bench: Bench) -> None:
    """No run is started before there is room to run it: none waits in the worker while its lease runs"""
    runs = [bench.send(work_s=2.0, lease_s=30) for _ in range(20)]
    bench.begin()
    for run in runs:
        bench.wait_for("accepted", run, "all are completed", within_s=40)
        start, began = (bench.platform.of(kind, run.ref)[0].at_s for kind in ("start", "began"))
        bench.check(began - start < 1.8, f"it ran as soon as it was started (after {began - start:.2f} s)")


@scenario(SQS, LEASE)
def finishes_what_runs_at_sigterm(bench: Bench) -> None:
    """At SIGTERM what runs is finished and completed, nothing more is begun, and the exit code is 0"""
    run = bench.send(work_s=2)
    bench.begin()
    bench.wait_for("began", run, "it runs")
    bench.terminate()
    bench.rest(0.5)
    later = bench.send()
    code = bench.exit_code()
    bench.check(code == 0, f"the exit code is 0 (it is {code})")
    ends(bench, run, "succeeded")
    is_undone_or_done(bench, later)


@scenario(SQS, LEASE)
def gives_back_what_it_has_not_started(bench: Bench) -> None:
    """What a worker receives after SIGTERM goes back at once, or is run to its end"""
    bench.begin()
    bench.until(lambda: bench.platform.waiting > 0)
    bench.terminate()
    bench.rest(0.3)
    run = bench.send()
    code = bench.exit_code()
    bench.check(code == 0, f"the exit code is 0 (it is {code})")
    is_undone_or_done(bench, run)


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


@scenario(LAMBDA)
def leases_longer_than_the_function_lasts(bench: Bench) -> None:
    """The lease is at least as long as the function's time that is left, as nothing beats for it"""
    run = bench.send(lease_s=30)
    bench.begin()
    ends(bench, run, "succeeded")
    lease_s = bench.platform.of("start", run.ref)[0].facts["lease_s"]
    bench.check(110 <= lease_s <= 900, f"the lease covers the 120 s of the function (it is {lease_s} s)")
