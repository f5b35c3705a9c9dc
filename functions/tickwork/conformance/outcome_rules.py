"""The rules on messages and outcomes: what is claimed, run, completed and deleted, and what is left where it is.

Owns one scenario for each rule, against a worker process of its own.
"""

from __future__ import annotations

from tickwork.conformance.bench import LAMBDA, LEASE, SQS, Bench
from tickwork.conformance.platform import AWAY
from tickwork.conformance.rules import Scenario, ends, is_kept, registering

SCENARIOS: list[Scenario] = []
scenario = registering(SCENARIOS)


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
def leaves_an_unknown_handler(bench: Bench) -> None:
    """A run whose handler this worker does not have is left to others, and its message hidden for a while"""
    run = bench.send(handler="no-such-handler")
    bench.begin()
    ends(bench, bench.send(), "succeeded")
    bench.rest(1.0)
    bench.never("start", run, "it is not started")
    is_kept(bench, run)
    if bench.mode == SQS:
        hidden_s = [event.facts["seconds"] for event in bench.platform.of("show", run.ref)]
        bench.check(bool(hidden_s) and min(hidden_s) >= 5, f"its message is hidden for 5 s or more (it was {hidden_s})")


@scenario(SQS, LEASE, LAMBDA)
def repeats_a_complete(bench: Bench) -> None:
    """A complete that was not answered, or not decided, is repeated with the same token; nothing is deleted before"""
    run = bench.send(complete=[*[AWAY] * 5, {"accepted": False, "reason": "unreadable", "discard": False}, None])
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
