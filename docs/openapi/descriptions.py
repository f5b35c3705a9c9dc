"""What stands below a field in the source, as the field's description in the document.

Read from the source text when the documents are built: models that read it themselves would lengthen each cold start.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

_ROOM = "tickwork.api."


def with_descriptions(schemas: dict[str, Any]) -> None:
    """Adds to each schema the texts of the class, or the text of the named type, that has its name."""
    for name, schema in schemas.items():
        if name in _of_types():
            schema.setdefault("description", _of_types()[name])
        for field, text in _of_classes().get(name, {}).items():
            if field in schema.get("properties", {}):
                schema["properties"][field].setdefault("description", text)


@cache
def _of_types() -> dict[str, str]:
    return dict(pair for module in _modules() for pair in _pairs(_tree(module).body, ast.TypeAlias))


@cache
def _of_classes() -> dict[str, dict[str, str]]:
    classes = {one for module in _modules() for one in vars(module).values() if isinstance(one, type)}
    return {one.__name__: _texts(one) for one in classes if one.__module__.startswith(_ROOM)}


def _texts(one: type) -> dict[str, str]:
    """The texts of a class's fields, with those it inherits. A TypedDict keeps its parents as `__orig_bases__`."""
    texts: dict[str, str] = {}
    for base in getattr(one, "__orig_bases__", one.__bases__):
        if isinstance(base, type) and base.__module__.startswith(_ROOM):
            texts |= _texts(base)
    body = _tree(sys.modules[one.__module__]).body
    own = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == one.__name__), None)
    return texts | (dict(_pairs(own.body, ast.AnnAssign)) if own else {})


def _modules() -> list[ModuleType]:
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(_ROOM)]


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _pairs(body: list[ast.stmt], kind: type[ast.AnnAssign] | type[ast.TypeAlias]) -> Iterator[tuple[str, str]]:
    """(name, text) of each field, or named type, that a text follows."""
    for node, after in pairwise(body):
        if isinstance(node, kind) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            target = node.name if isinstance(node, ast.TypeAlias) else node.target
            if isinstance(target, ast.Name) and isinstance(after.value.value, str):
                yield target.id, " ".join(after.value.value.split())
