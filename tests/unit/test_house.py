"""What holds the house beside the import contracts: sizes, what ships, where statuses and conditions come from."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from docs.structure import CLASS_LINES_MAX, MODULE_LINES_MAX, imports_of, lines_of, long_classes, modules_of
from infra.asset import NOT_SHIPPED

ROOT = Path(__file__).parents[2]
FUNCTIONS = ROOT / "functions"
SOURCES = sorted(FUNCTIONS.rglob("*.py"))


def test_a_module_and_a_class_are_read_in_one_sitting() -> None:
    names = {path: str(path.relative_to(FUNCTIONS)) for path in SOURCES}
    long = {names[path] for path in SOURCES if lines_of(path) > MODULE_LINES_MAX}
    long |= {f"{names[path]}:{name}" for path in SOURCES for name, _ in long_classes(path)}
    assert not long, f"over {MODULE_LINES_MAX} lines a module, {CLASS_LINES_MAX} a class"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import tickwork.core.ids", {"tickwork.core.ids"}),
        ("from tickwork.core import ids, errors", {"tickwork.core.ids", "tickwork.core.errors"}),
        ("from tickwork.core.ids import shard_of", {"tickwork.core.ids"}),
        ("def f():\n    from . import errors", {"tickwork.core.errors"}),
        ("from ..ports import Ports", {"tickwork.ports"}),
        ("import json", set()),
    ],
)
def test_the_figures_of_the_house_count_every_way_to_import(text: str, found: set[str], tmp_path: Path) -> None:
    source = tmp_path / "one.py"
    source.write_text(text)
    assert imports_of("tickwork.core.one", source, modules_of(FUNCTIONS / "tickwork")) == found


def test_a_function_imports_nothing_that_is_not_in_its_package() -> None:
    """What `infra/asset.py` leaves out is there in tests, and missing on AWS."""
    modules = modules_of(FUNCTIONS / "tickwork")
    left_out = tuple(f"tickwork.{name.removesuffix('.py')}" for name in NOT_SHIPPED)
    reached: set[str] = set()
    ahead = {target for path in FUNCTIONS.glob("*/handler.py") for target in imports_of("handler", path, modules)}
    assert len(ahead) >= 5
    while ahead:
        reached |= ahead
        ahead = {target for name in ahead for target in imports_of(name, modules[name], modules)} - reached
    assert len(reached) > 50
    assert not [name for name in sorted(reached) if name.startswith(left_out)]


def test_a_status_is_written_by_its_name_in_the_table_of_lives() -> None:
    """A text in its place would be a status that no table knows, or one that is spelt in two places."""
    spelt = [
        f"{path.relative_to(FUNCTIONS)}:{value.lineno}"
        for chapter in ("core", "flows")
        for path in (FUNCTIONS / "tickwork" / chapter).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "status" and isinstance(value, ast.Constant)
    ]
    assert not spelt


def test_the_only_writes_without_a_condition_are_of_payloads_earlier_definitions_and_notes_that_cost_a_look() -> None:
    found = {
        str(path.relative_to(FUNCTIONS))
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Anyway")
    }
    assert found == {
        "tickwork/flows/ledger/payloads.py",
        "tickwork/core/audit/passes.py",
        "tickwork/core/jobs/versions.py",
        "tickwork/core/runs/waiters.py",
        "tickwork/core/watch/wheel.py",
        "tickwork/core/watch/incidents.py",
    }
