"""The rules on leases and stops: heartbeats, what ends a job early, and what a worker does when it has to go.

Owns one scenario for each rule, against a worker process of its own.
"""

from __future__ import annotations

from itertools import pairwise

from tickwork.conformance.bench import LAMBDA, LEASE, SQS, Bench
from tickwork.conformance.platform import AWAY
from tickwork.conformance.rules import Scenario, ends, is_kept, is_undone_or_done, registering

SHORT_LEASE_S = 3
THIRD_S = SHORT_LEASE_S / 3

SCENARIOS: list[Scenario] = []
scenario = registering(SCENARIOS)


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


@scenario(LAMBDA)
def leases_longer_than_the_function_lasts(bench: Bench) -> None:
    """The lease is at least as long as the function's time that is left, as nothing beats for it"""
    run = bench.send(lease_s=30)
    bench.begin()
    ends(bench, run, "succeeded")
    lease_s = bench.platform.of("start", run.ref)[0].facts["lease_s"]
    bench.check(110 <= lease_s <= 900, f"the lease covers the 120 s of the function (it is {lease_s} s)")
