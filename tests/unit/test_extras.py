"""Each part of the package imports what its extra brings, and nothing else: not on import, and not later.

The extra's packages are found as pip would (pyproject.toml, then what is installed requires); all others are blocked.
"""

from __future__ import annotations

import ast
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
FUNCTIONS = ROOT / "functions"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROCESS_WITHIN_S = 50

HANDLERS = ("api", "authorizer", "pusher", "reconciler", "scanner", "ticker", "watchdog")
PARTS: dict[str, tuple[str, ...]] = {
    "": ("tickwork.core", "tickwork.flows", "tickwork.ports", "tickwork.settings"),
    "worker": ("tickwork.worker", "tickwork.client", "tickwork.conformance"),
    "cli": ("tickwork.cli", "tickwork.client"),
    "testing": ("tickwork.testing",),
    "lambda": ("tickwork.api", "tickwork.aws", "tickwork.store", *HANDLERS),
    "local": ("tickwork.local", "tickwork.cli", "tickwork.api", "tickwork.aws", "tickwork.worker", "tickwork.client"),
}
"""What must work with each extra. Without any: the engine."""
ENVIRON = {
    "PYTHONPATH": str(FUNCTIONS),
    "AWS_DEFAULT_REGION": "us-east-1",
}
LAMBDA_BRINGS = ("boto3", "botocore")
PLUGIN = "tickwork.worker.pytest_plugin"
"""Imported by pytest alone."""
ASKS_AWS = "pusher.handler"
"""Reads its secret as it starts: only what it imports is looked at."""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(extra: str) -> list[Requirement]:
    """Those of tickwork with an extra, its own extras resolved."""
    found = [Requirement(text) for text in PROJECT["dependencies"]]
    for text in PROJECT["optional-dependencies"][extra] if extra else ():
        requirement = Requirement(text)
        if requirement.name == "tickwork":
            found += [one for inner in sorted(requirement.extras) for one in _required(inner)]
        else:
            found.append(requirement)
    return found


@cache
def _distributions(extra: str) -> frozenset[str]:
    """All that pip would install for an extra, by what is installed here."""
    todo, seen = _required(extra), set[tuple[str, frozenset[str]]]()
    while todo:
        requirement = todo.pop()
        one = (_normal(requirement.name), frozenset(requirement.extras))
        if one in seen:
            continue
        seen.add(one)
        inner = [Requirement(text) for text in importlib.metadata.requires(requirement.name) or ()]
        todo += [some for some in inner if _applies(some, requirement.extras)]
    return frozenset(name for name, _ in seen)


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras))


@cache
def _importable(extra: str) -> frozenset[str]:
    """The names that may be imported with an extra, beside the standard library's and ours."""
    wanted = _distributions(extra)
    if extra == "lambda":
        wanted |= {name for one in LAMBDA_BRINGS for name in (one, *_distributions("worker"))}
    owners = importlib.metadata.packages_distributions()
    return frozenset(name for name, owned in owners.items() if wanted & {_normal(one) for one in owned})


def _run(extra: str, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code where everything but the extra's packages is missing."""
    blocker = _BLOCKER.replace("ALLOWED", repr(sorted(_importable(extra) | {"tickwork", *HANDLERS})))
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", blocker + code, *arguments],
        env=kept | ENVIRON,
        cwd=FUNCTIONS,
        capture_output=True,
        text=True,
        timeout=PROCESS_WITHIN_S,
    )


_BLOCKER = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ALLOWED and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {top!r}", name=top)
sys.meta_path.insert(0, Blocker())
"""


def _modules(part: str) -> Iterator[tuple[str, Path]]:
    place = FUNCTIONS.joinpath(*part.split("."))
    for path in sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]:
        name = ".".join(path.relative_to(FUNCTIONS).with_suffix("").parts).removesuffix(".__init__")
        if name != PLUGIN:
            yield name, path


@pytest.mark.parametrize("extra", PARTS, ids=lambda extra: extra or "without extras")
def test_every_module_of_a_part_can_be_imported_with_its_extra(extra: str) -> None:
    names = ["tickwork", *(name for part in PARTS[extra] for name, _ in _modules(part) if name != ASKS_AWS)]
    done = _run(
        extra,
        "import importlib, json\nfor name in json.loads(sys.argv[1]): importlib.import_module(name)",
        json.dumps(names),
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("extra", PARTS, ids=lambda extra: extra or "without extras")
def test_nothing_is_imported_later_that_the_extra_does_not_bring(extra: str) -> None:
    allowed = _importable(extra) | sys.stdlib_module_names | {"tickwork"}
    for part in PARTS[extra]:
        for name, path in _modules(part):
            wanted = set(_imports(ast.parse(path.read_text())))
            assert not wanted - allowed - DONE_WITHOUT.get(name, set()), name


DONE_WITHOUT = {
    "tickwork.core.schedule.shown.second_reader": {"croniter"},
    "tickwork.local.emulator": {"ministack"},
}
"""What a module does without where it is missing: the second reading is then one that failed, and answers nothing; the
emulator's program runs in the emulator's own environment alone."""


def _imports(tree: ast.AST) -> Iterator[str]:
    """Top-level names that a module imports anywhere, but for a type checker."""
    if isinstance(tree, ast.If) and "TYPE_CHECKING" in ast.dump(tree.test):
        return
    if isinstance(tree, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in tree.names)
    if isinstance(tree, ast.ImportFrom) and tree.module and not tree.level:
        yield tree.module.partition(".")[0]
    for inner in ast.iter_child_nodes(tree):
        yield from _imports(inner)


def test_the_blocker_blocks() -> None:
    done = _run("", "import click")
    assert "No module named 'click'" in done.stderr


def test_extras_are_what_a_person_does() -> None:
    assert set(PROJECT["optional-dependencies"]) == {"worker", "cli", "local", "testing", "lambda", "cdk", "dev"}
    assert not {"rich", "aws-lambda-powertools", "greenlet"} & (_distributions("worker") | _distributions("cli"))


def test_dev_brings_every_other_extra() -> None:
    for extra in PROJECT["optional-dependencies"]:
        assert {_normal(one.name) for one in _required(extra)} <= {_normal(one.name) for one in _required("dev")}


@pytest.mark.parametrize(
    ("extra", "arguments", "missing", "named"),
    [
        ("", ["worker", "shop:app", "--pool", "p"], "click", "worker"),
        ("", ["jobs", "list"], "click", "cli"),
        ("", [], "click", "cli"),
        ("cli", ["serve", "api"], "aws_lambda_powertools", "local"),
        ("worker", ["dev"], "rich", "local"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(
    extra: str, arguments: list[str], missing: str, named: str
) -> None:
    done = _run(extra, "from tickwork.cli.entry import main\nmain()", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {missing} is not installed\n  try: pip install 'tickwork[{named}]'\n"


@pytest.mark.parametrize("extra", ["worker", "cli", "local"])
def test_the_command_runs_with_each_extra_that_brings_it(extra: str) -> None:
    done = _run(extra, "from tickwork.cli.entry import main\nmain()", "worker", "--help")
    assert done.returncode == 0, done.stderr
    assert "MODULE:APP" in done.stdout


def test_a_module_that_no_extra_brings_is_not_explained_away() -> None:
    planted = "import types; broken = types.ModuleType('tickwork.cli.main')\n"
    code = planted + "def main(): import nowhere\nbroken.main = main\nsys.modules['tickwork.cli.main'] = broken\n"
    done = _run("cli", code + "from tickwork.cli.entry import main\nmain()")
    assert done.returncode == 1
    assert "No module named 'nowhere'" in done.stderr
