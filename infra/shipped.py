"""What a function may import: what is in the package it runs (`infra/asset.py`), what its lock file pins, and boto3.

A contract of import-linter, so `make lint` says it: on a developer's machine everything can be imported, and what is
missing from the package would fail on AWS alone. Follows imports from each handler, wherever in a module they stand,
but for those that only a type checker makes. It also holds `NOT_SHIPPED` to what no function imports.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterator

import grimp
from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output

from infra.asset import NOT_SHIPPED, ROOT, pinned

PACKAGE = "tickwork"
RUNTIME_BRINGS = frozenset({"boto3", "botocore"})
"""With the Lambda runtime. What they bring themselves is not promised."""


class Shipped(Contract):
    """`type = infra.shipped.Shipped`; takes no options."""

    type_name = "shipped"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        """Ignores the graph it is given: imports for a type checker alone are in it."""
        found = list(faults(graph_of_functions()))
        return ContractCheck(kept=not found, metadata={"faults": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for fault in check.metadata["faults"]:
            output.print_error(fault)


def handlers() -> list[str]:
    return sorted(path.parent.name for path in (ROOT / "functions").glob("*/handler.py"))


def graph_of_functions() -> ImportGraph:
    return grimp.build_graph(PACKAGE, *handlers(), include_external_packages=True, exclude_type_checking_imports=True)


def faults(graph: ImportGraph) -> Iterator[str]:
    """Sentences: what a function would miss, and what of `NOT_SHIPPED` is not as it says."""
    hidden = {name.removesuffix(".py") for name in NOT_SHIPPED}
    external = RUNTIME_BRINGS | sys.stdlib_module_names | _names_of(name for name, _ in pinned())
    came_from = _reached(graph)
    for module in sorted(came_from):
        part = module.split(".")[1] if module.startswith(f"{PACKAGE}.") else ""
        if part in hidden:
            yield f"{_way(module, came_from)}: {PACKAGE}.{part} is not in the package (infra/asset.py, NOT_SHIPPED)"
        elif graph.is_module_squashed(module) and module not in external:
            yield f"{_way(module, came_from)}: {module} is neither in requirements/lambda.lock nor in Lambda's runtime"
    parts = {module.split(".")[1] for module in graph.find_children(PACKAGE)}
    used = {module.split(".")[1] for module in came_from if module.startswith(f"{PACKAGE}.")}
    for part in sorted(parts - used - hidden):
        yield f"{PACKAGE}.{part} is imported by no function: name it in NOT_SHIPPED (infra/asset.py)"
    for part in sorted(hidden - parts):
        yield f"{part} is in NOT_SHIPPED (infra/asset.py), and there is no {PACKAGE}.{part}"


def _reached(graph: ImportGraph) -> dict[str, str]:
    """The modules that the handlers lead to, each with the one that led there first. A module brings its packages."""
    todo = [(f"{name}.handler", "") for name in handlers()]
    came_from: dict[str, str] = {}
    while todo:
        module, importer = todo.pop(0)
        if module in came_from or module not in graph.modules:
            continue
        came_from[module] = importer
        todo += [(found, module) for found in sorted(graph.find_modules_directly_imported_by(module))]
        todo += [(package, module) for package in (module.rpartition(".")[0],) if package]
    return came_from


def _way(module: str, came_from: dict[str, str]) -> str:
    way = [module]
    while importer := came_from[way[-1]]:
        way.append(importer)
    return " -> ".join(reversed(way))


def _names_of(distributions: Iterator[str]) -> frozenset[str]:
    """The names that these distributions are imported by."""
    wanted = {_normal(name) for name in distributions}
    installed = importlib.metadata.packages_distributions()
    return frozenset(name for name, owners in installed.items() if wanted & {_normal(owner) for owner in owners})


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
