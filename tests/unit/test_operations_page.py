"""The runbook names every metric and every log action that the service may show at night."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
MODULES = [
    path.read_text()
    for path in sorted((ROOT / "functions" / "tickwork").rglob("*.py"))
    if not {"testing", "local"} & set(path.relative_to(ROOT).parts)
]
SOURCE = "\n".join(MODULES)


def _labels() -> Iterator[tuple[str, str]]:
    """Each metric with each label that it is counted or measured under."""
    for module in MODULES:
        for call in ast.walk(ast.parse(module)):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith(("signals.count", "signals.observe")):
                metric = ast.literal_eval(call.args[0])
                yield from ((metric, str(keyword.arg)) for keyword in call.keywords)


LABELS = set(_labels())


def test_every_metric_is_explained() -> None:
    metrics = set(re.findall(r'signals\.(?:count|observe)\(\s*"([a-z_.]+)"', SOURCE))
    assert len(metrics) > 15
    assert not {metric for metric in metrics if f"`{metric}`" not in PAGE}


def test_every_log_action_is_explained() -> None:
    actions = set(re.findall(r'signals\.log\(\s*"([a-z_]+)"', SOURCE))
    assert len(actions) > 20
    assert not {action for action in actions if f"`{action}`" not in PAGE}


def test_no_metric_is_explained_that_is_not_there() -> None:
    table = re.findall(r"^\| `([a-z_.]+)` \|", PAGE, flags=re.MULTILINE)
    assert not {metric for metric in table if f'"{metric}"' not in SOURCE}


def test_every_label_is_named_in_the_row_of_its_metric() -> None:
    rows = dict(re.findall(r"^\| (`[a-z0-9_.]+`) \| (.*)", PAGE, flags=re.MULTILINE))
    assert {label for _, label in LABELS} >= {"error", "reason", "outcome", "slice", "team", "pool"}
    assert not {(metric, label) for metric, label in LABELS if f"by `{label}`" not in rows.get(f"`{metric}`", "")}


def test_the_page_promises_no_label_that_is_not_counted_under() -> None:
    rows = re.findall(r"^\| `([a-z0-9_.]+)` \| ([^|]*)", PAGE, flags=re.MULTILINE)
    promised = {(metric, label) for metric, text in rows for label in re.findall(r"by `([a-z_]+)`", text)}
    assert promised == LABELS


def test_the_query_by_label_asks_for_a_metric_and_a_label_that_are_there() -> None:
    ((metric, label),) = re.findall(r'metric = "([a-z0-9_.]+)"\n\| stats sum\(total\) as \w+ by (\w+)', PAGE)
    assert (metric, label) in LABELS
