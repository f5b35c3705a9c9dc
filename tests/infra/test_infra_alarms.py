"""Alarms that arrive: who may publish, what each failure sets off, what stays silent, and what they cost."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template
from benchmarks.meter.bill import usd

from tests.infra.alarm_evaluator import Series, alarms_of, evaluate
from tests.infra.callgraph import FUNCTIONS, reachable
from tests.infra.failures import FAILURES, Failure, few_alarms, heard, rows, work
from tickwork.aws.common_metrics import PUBLISHED, TOGETHER
from tickwork.price.cost import METRICS_AT_WORK, METRICS_IDLE
from tickwork.price.loads import ENVIRONMENTS as PRICED
from tickwork.settings import ENVIRONMENTS

NAMES = ("api", "authorizer", "ticker", "scanner", "reconciler", "pusher", "watchdog")
PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")

NOT_ALARMED = {
    "scheduler.windows_total": "what a window that did not go well costs is lag, which is alarmed",
    "scheduler.set_aside_rows": "says how much waits; what it waits for is counted at each try, and alarmed",
    "scheduler.caught_up_total": "an outage is over; that it was there, slice-stands has told",
    "scheduler.held_back_total": "a bound at work: the row of its team keeps it, and serves it",
    "scheduler.bulk_braked_total": "a policy at work: what it is about, the others' lag, is alarmed",
    "scheduler.slice_owner_changes_total": "normal after a deployment; what it costs is lag, which is alarmed",
    "scheduler.dispatch_rejected_stale_token_total": "the protocol at work; what it costs is lag, which is alarmed",
    "scheduler.pauses_unread_total": "processes go by the last they knew; a table that stays throttled is told as such",
    "scheduler.pauses_without_end_total": "somebody's own pause, which `tickwork pauses` shows with who and why",
    "store.commit_retried_total": "conflicts too, which are normal; its throttles are store.throttled_total",
    "runs.duplicate_total": "duplicates die at start",
    "runs.stale_token_total": "the protocol at work",
    "worker.lease_expired_while_running_total": "the run is started again; the team's pager is the dead-letter queue",
    "runs.cancelled_with_group_total": "somebody's own wish, which the audit shows with who and why",
    "runs.handed_back_total": "workers that stop, as in every deployment; it costs no attempt",
    "runs.attempts_gt_1_total": "retries are asked for by the team",
    "runs.put_off_total": "waits as its team asked for, and its record says until when",
    "runs.too_late_total": "the team's: its deadline has passed, which is what it asked for",
    "scheduler.holders_looked_for_total": "a policy at work: runs of before a change are looked for until they end",
    "scheduler.buffered_total": "a policy at work: its team asked for it, and lists show what waits",
    "scheduler.holders_cancelled_total": "a policy at work: what was cancelled says for which run",
    "scheduler.buffered_ended_total": "a policy at work; what is dropped is in the lists of skipped runs",
    "quotas.not_counted_total": "lets everything through; a table that stays throttled is told by what needs it",
    "runs.timed_out_total": "ends as a failure, which is retried or dead",
    "runs.payload_lost_total": "ends as a failure, and the run is dead",
    "runs.dead_lettered_total": "the team's: its handler fails",
    "runs.replayed_total": "somebody is at it",
    "runs.no_slot_total": "a limit at work",
    "resources.woken_total": "a limit at work",
    "schedules.second_reader_differed_total": "said to the person who registers; nothing is wrong with what fires",
    "watch.behind_minutes": "a watchdog that comes back catches up; one that does not is silent",
    "watch.incidents_opened_total": "the team's: its routes are told",
    "local.threads_failed_total": "of processes on one's own machine, which publish no metric",
}


def _alarms(template: Template) -> dict[str, dict[str, Any]]:
    found = (one["Properties"] for one in template.find_resources("AWS::CloudWatch::Alarm").values())
    return {one["AlarmName"].split("-", 2)[2]: one for one in found}


# --- who may publish ----------------------------------------------------------------------------------------------


def _statements(template: Template) -> list[dict[str, Any]]:
    (policy,) = template.find_resources("AWS::SNS::TopicPolicy").values()
    return list(policy["Properties"]["PolicyDocument"]["Statement"])


def test_alarms_of_this_environment_and_account_may_publish_and_nobody_in_the_clear(
    templates: dict[str, Template],
) -> None:
    for name, template in templates.items():
        deny, allow = sorted(_statements(template), key=lambda one: str(one["Effect"]), reverse=True)
        assert (deny["Effect"], deny["Action"], deny["Principal"]) == ("Deny", "sns:Publish", "*")
        assert deny["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        assert (allow["Effect"], allow["Action"]) == ("Allow", "sns:Publish")
        assert allow["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
        assert allow["Resource"] == deny["Resource"]
        assert allow["Condition"]["StringEquals"] == {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}
        (joined,) = allow["Condition"]["ArnLike"].values()
        assert list(allow["Condition"]["ArnLike"]) == ["aws:SourceArn"]
        arn = "".join(part if isinstance(part, str) else f"<{part['Ref']}>" for part in joined["Fn::Join"][1])
        assert arn == (f"arn:<AWS::Partition>:cloudwatch:<AWS::Region>:<AWS::AccountId>:alarm:tickwork-{name}-*")


def test_every_alarm_is_one_the_policy_lets_publish_to_the_one_topic(templates: dict[str, Template]) -> None:
    for name, template in templates.items():
        ((topic, resource),) = template.find_resources("AWS::SNS::Topic").items()
        for statement in _statements(template):
            assert statement["Resource"] == {"Ref": topic}
        assert "KmsMasterKeyId" not in resource["Properties"], "AWS's own key would let no alarm publish"
        for alarm in _alarms(template).values():
            assert alarm["AlarmName"].startswith(f"tickwork-{name}-")
            assert alarm["AlarmActions"] == alarm["OKActions"] == [{"Ref": topic}]
            assert alarm.get("ActionsEnabled", True)
            assert "Metrics" not in alarm, "metric math"
        assert not template.find_resources("AWS::CloudWatch::CompositeAlarm")


def test_a_local_endpoint_is_not_refused_for_speaking_in_the_clear(local: Template) -> None:
    assert [one["Effect"] for one in _statements(local)] == ["Allow"]


# --- what sets off what -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few(templates: dict[str, Template]) -> set[str]:
    return few_alarms(templates["dev"])


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: failure.what)
def test_a_failure_is_heard_in_time(prod: Template, few: set[str], failure: Failure) -> None:
    found = heard(failure, prod)
    assert found.get(failure.alarm, failure.within + 1) <= failure.within, found
    if failure.few is not None:
        alarm, within = failure.few
        assert alarm in few
        assert found.get(alarm, within + 1) <= within, found
    else:
        assert not few & set(found), "it is heard there all the same: say so"


def test_nothing_is_heard_while_all_is_well(prod: Template) -> None:
    assert heard(Failure("nothing is wrong", "", 0, None), prod) == {}


def test_an_idle_service_is_silent(prod: Template) -> None:
    from tests.infra.deployed import Play

    assert evaluate(alarms_of(prod), Play(ENVIRONMENTS["prod"]).run()) == {}


def test_where_nothing_runs_at_all_the_silence_is_heard(template: Template) -> None:
    found = {name.split("-", 2)[2] for name in evaluate(alarms_of(template), Series(minutes=30))}
    assert found == {"ticker-silent", "reconciler-silent", "watchdog-silent"}


def test_another_environment_is_no_sign_of_life(templates: dict[str, Template]) -> None:
    from tests.infra.deployed import Play

    staging = Play(ENVIRONMENTS["staging"], 20).run()
    found = set(evaluate(alarms_of(templates["prod"]), staging))
    assert found == {f"tickwork-prod-{one}-silent" for one in ("ticker", "reconciler", "watchdog")}


def test_every_alarm_but_those_for_single_pools_is_set_off_by_a_failure_here(prod: Template) -> None:
    told = {failure.alarm for failure in FAILURES} | {failure.few[0] for failure in FAILURES if failure.few}
    pools = {name for name in _alarms(prod) if re.fullmatch(r"ready-(payments|push)-(age|dlq)", name)}
    assert told | pools == set(_alarms(prod))


def test_no_alarm_says_what_others_say_already(prod: Template) -> None:
    """For each there is a failure that it alone hears. That the ticker is silent late timers tell, too, where there are
    any: so also without work."""
    from tests.infra.deployed import Play

    idle = evaluate(alarms_of(prod), Play(ENVIRONMENTS["prod"], 20, faults={"ticker": None}).run())
    heard_in_each = [heard(failure, prod) for failure in FAILURES]
    alone = {next(iter(found)) for found in heard_in_each if len(found) == 1}
    alone |= {name.removeprefix("tickwork-prod-") for name in idle if len(idle) == 1}
    pools = {name for name in _alarms(prod) if re.fullmatch(r"ready-(payments|push)-(age|dlq)", name)}
    assert alone | pools == set(_alarms(prod))


# --- what is counted is listened to ---------------------------------------------------------------------------------


def _counted() -> set[str]:
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((FUNCTIONS / "tickwork").rglob("*.py")))
    return set(re.findall(r'signals\.(?:count|observe)\(\s*"([a-z0-9_.]+)"', source))


def test_every_metric_sets_off_an_alarm_or_says_why_not() -> None:
    together = set().union(*TOGETHER.values())
    classes = (together, set(PUBLISHED), set(NOT_ALARMED))
    assert _counted() == set().union(*classes)
    assert sum(len(one) for one in classes) == len(set().union(*classes)), "each in one class"


def test_a_metric_is_paid_for_where_an_alarm_listens_to_it_and_nowhere_else(prod: Template) -> None:
    own = {alarm["MetricName"] for alarm in _alarms(prod).values() if alarm["Namespace"] == "tickwork-prod"}
    assert own == set(PUBLISHED) | set(TOGETHER)


def test_no_alarm_listens_to_what_the_function_does_not_say(prod: Template) -> None:
    for alarm in _alarms(prod).values():
        if alarm["Namespace"] != "tickwork-prod" or alarm["MetricName"] in TOGETHER:
            continue
        service = alarm["Dimensions"][0]["Value"]
        says = {
            metric
            for module, node in reachable(f"{service}.handler")
            for metric in re.findall(r"signals\.(?:count|observe)\(\s*['\"]([a-z0-9_.]+)", _text(node))
        }
        assert alarm["MetricName"] in says


def _text(node: Any) -> str:
    import ast

    return "" if isinstance(node, ast.Module) else ast.unparse(node)


# --- the page, and the price ----------------------------------------------------------------------------------------


def test_every_alarm_has_an_entry_with_a_first_command(prod: Template) -> None:
    entries = dict(re.findall(r"^### `([a-z0-9<>-]+)`\n(.*?)(?=^#|\Z)", PAGE, flags=re.MULTILINE | re.DOTALL))
    generic = {re.sub(r"^ready-(default|payments|push)-", "ready-<pool>-", name) for name in _alarms(prod)}
    assert set(entries) == generic
    for name, text in entries.items():
        assert "**First:**" in text, name
        assert "**Then:**" in text, name


def test_the_table_of_failures_on_the_page_is_what_the_evaluator_says(prod: Template, few: set[str]) -> None:
    begin, end = "<!-- failures: python -m tests.infra.failures -->\n", "<!-- end of failures -->"
    table = PAGE.split(begin)[1].split(end)[0].strip().splitlines()
    assert table[2:] == rows(prod, few)


def test_dev_has_the_fewest_alarms_and_each_set_has_its_price(templates: dict[str, Template]) -> None:
    counts = {name: len(_alarms(template)) for name, template in templates.items()}
    assert counts == {"dev": 8, "staging": 19, "prod": 19}
    prices = {name: round(usd({"cloudwatch_alarm_month": n}), 2) for name, n in counts.items()}
    assert prices == {"dev": 0.8, "staging": 1.9, "prod": 1.9}
    assert {name: priced.alarms for name, priced in PRICED.items() if name in counts} == counts


def test_an_idle_environment_pays_for_one_metric() -> None:
    """Besides these, only what fires, and what goes wrong, makes a metric."""
    from tests.infra.deployed import Play

    paid = {metric for metric in Play(ENVIRONMENTS["dev"], 10).run().data if metric[0] == "tickwork-dev"}
    assert paid == {
        ("tickwork-dev", "scheduler.slowest_slice_lag_seconds", "ticker"),
    }
    assert len(paid) == METRICS_IDLE


def test_work_makes_one_metric_more() -> None:
    from tests.infra.deployed import Play

    paid = {
        metric[1] for metric in Play(ENVIRONMENTS["dev"], 5, prepare=work).run().data if metric[0] == "tickwork-dev"
    }
    assert paid == {"scheduler.slowest_slice_lag_seconds", "scheduler.fire_lag_seconds"}
    assert len(paid) == METRICS_AT_WORK
    assert len(PUBLISHED) + len(TOGETHER) - len(paid) == 4, "what more there is when everything has gone wrong"
