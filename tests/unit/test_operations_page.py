"""The runbook names every metric and every log action that the service may show at night."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "operations.md").read_text()
SOURCE = "\n".join(
    path.read_text()
    for path in sorted((ROOT / "functions" / "tickwork").rglob("*.py"))
    if not {"testing", "local"} & set(path.parts)
)


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
