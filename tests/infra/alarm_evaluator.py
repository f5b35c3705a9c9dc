"""What CloudWatch makes of metrics: which of the *synthesised* alarms goes off, and after how many minutes.

`evaluate(alarms_of(template), series)` answers {alarm: minute of its first sound}. It knows the rules of AWS's user
guide ("Alarm evaluation", "Configuring how alarms treat missing data") and nothing of what the alarms are for:

- An alarm is evaluated once a minute, over windows that end then (a sliding window), whatever its period.
- It looks further back than it evaluates. As many real data points as `EvaluationPeriods` make the decision if there
  are; only what lacks is filled as `TreatMissingData` says. The guide does not say how far; its examples look two
  points further, and so does this.

Left out: the minute or two that a metric needs to arrive. Every alarm begins as OK.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk.assertions import Template

LOOKS_FURTHER_BACK = 2
BREACHING, NOT_BREACHING, IGNORE = "breaching", "notBreaching", "ignore"

type Metric = tuple[str, str, str]
"""(namespace, name, the value of its one dimension)"""


@dataclass(frozen=True, slots=True)
class Alarm:
    """A synthesised alarm: `times` of `periods` data points of `period_min` minutes each."""

    name: str
    metric: Metric
    statistic: str
    period_min: int
    periods: int
    times: int
    threshold: float
    sounds_above: bool
    missing: str

    def breaches(self, value: float) -> bool:
        return value > self.threshold if self.sounds_above else value < self.threshold


@dataclass(slots=True)
class Series:
    """Data by metric: (minute, value). The play goes from minute 0 to `minutes`; what was before has negative ones."""

    minutes: int
    data: defaultdict[Metric, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, namespace: str, name: str, dimension: str, minute: float, value: float) -> None:
        self.data[namespace, name, dimension].append((minute, value))


def alarms_of(template: Template) -> list[Alarm]:
    resources = template.to_json()["Resources"]
    return [_alarm(resources, one["Properties"]) for one in template.find_resources("AWS::CloudWatch::Alarm").values()]


def evaluate(alarms: Iterable[Alarm], series: Series) -> dict[str, int]:
    """The alarms that go off in the play, and at the end of which minute each does so first."""
    first = {alarm.name: _first_sound(alarm, series) for alarm in alarms}
    return {name: minute for name, minute in first.items() if minute is not None}


def _first_sound(alarm: Alarm, series: Series) -> int | None:
    data = series.data.get(alarm.metric, [])
    return next((minute for minute in range(series.minutes + 1) if _sounds(alarm, data, minute)), None)


def _sounds(alarm: Alarm, data: Sequence[tuple[float, float]], now: int) -> bool:
    """At `now`. What would keep the state as it was keeps it OK, for this is asked until the first sound."""
    reach = range(alarm.periods + LOOKS_FURTHER_BACK)
    points = [point for n in reach if (point := _point(alarm, data, now - n * alarm.period_min)) is not None]
    decisive = [alarm.breaches(point) for point in points[: alarm.periods]]
    filled = alarm.periods - len(decisive) if alarm.missing == BREACHING else 0
    return sum(decisive) + filled >= alarm.times


def _point(alarm: Alarm, data: Sequence[tuple[float, float]], end: int) -> float | None:
    values = sorted(value for minute, value in data if end - alarm.period_min <= minute < end)
    if not values:
        return None
    match alarm.statistic:
        case "Sum":
            return sum(values)
        case "SampleCount":
            return len(values)
        case "Maximum":
            return values[-1]
        case "p99":
            return values[math.ceil(0.99 * len(values)) - 1]
    raise AssertionError(f"{alarm.name}: the evaluator does not know the statistic {alarm.statistic}")


# --- the template -------------------------------------------------------------------------------------------------


def _alarm(resources: Mapping[str, Any], given: Mapping[str, Any]) -> Alarm:
    (dimension,) = given["Dimensions"]
    comparisons = {"GreaterThanThreshold": True, "LessThanThreshold": False}
    assert given["TreatMissingData"] in (BREACHING, NOT_BREACHING, IGNORE), given
    assert given["Period"] % 60 == 0, given
    return Alarm(
        name=given["AlarmName"],
        metric=(given["Namespace"], given["MetricName"], _named(resources, dimension["Value"])),
        statistic=given.get("Statistic") or given["ExtendedStatistic"],
        period_min=given["Period"] // 60,
        periods=given["EvaluationPeriods"],
        times=given.get("DatapointsToAlarm", given["EvaluationPeriods"]),
        threshold=given["Threshold"],
        sounds_above=comparisons[given["ComparisonOperator"]],
        missing=given["TreatMissingData"],
    )


def _named(resources: Mapping[str, Any], value: Any) -> str:
    """The name of a function, a queue or an API that a dimension refers to."""
    if isinstance(value, str):
        return value
    properties = resources[value["Ref"] if "Ref" in value else value["Fn::GetAtt"][0]]["Properties"]
    return str(next(properties[name] for name in ("FunctionName", "QueueName", "Name") if name in properties))
