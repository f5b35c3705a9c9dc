"""The house in figures: `python docs/structure.py [PACKAGE]`, on any checkout, from its sources alone.

For each folder its modules and lines; which modules are imported most, and import most; what is too long; which names
are there twice. Nothing is imported: a checkout whose packages are not installed can be looked at too.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

MODULE_LINES_MAX, CLASS_LINES_MAX = 300, 150
SHOWN = 10


def modules_of(package: Path) -> dict[str, Path]:
    """Each module by its dotted name, the package's own name first."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, modules: dict[str, Path]) -> set[str]:
    """The modules of the package that this one imports, wherever in its text it does."""
    here = name if path.stem == "__init__" else name.rpartition(".")[0]
    found = {target for node in ast.walk(ast.parse(path.read_text())) for target in _targets(node, here)}
    known = {target if target in modules else target.rpartition(".")[0] for target in found}
    return {target for target in known if target in modules and target != name}


def _targets(node: ast.AST, here: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = here.rsplit(".", node.level - 1)[0] if node.level > 1 else here
        source = ".".join(filter(None, (base, node.module))) if node.level else node.module or ""
        yield from (f"{source}.{alias.name}" for alias in node.names)


def long_classes(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef) and (lines := (node.end_lineno or 0) - node.lineno + 1) > CLASS_LINES_MAX:
            yield node.name, lines


def lines_of(path: Path) -> int:
    return len(path.read_text().splitlines())


def report(package: Path) -> Iterator[str]:
    modules = modules_of(package)
    own = {name: path for name, path in modules.items() if path.stem != "__init__"}
    fan_out = {name: imports_of(name, path, modules) for name, path in modules.items()}
    fan_in = Counter(target for targets in fan_out.values() for target in targets)
    yield f"{len(own)} modules, {sum(map(lines_of, own.values()))} lines, {sum(map(len, fan_out.values()))} imports"
    yield from _folders(package, own)
    yield "\nimported most:"
    yield from (f"  {count:4} {name}" for name, count in fan_in.most_common(SHOWN))
    yield "\nimport most:"
    widest = sorted(fan_out, key=lambda name: -len(fan_out[name]))[:SHOWN]
    yield from (f"  {len(fan_out[name]):4} {name}" for name in widest)
    yield f"\nmodules over {MODULE_LINES_MAX} lines, classes over {CLASS_LINES_MAX}:"
    yield from (f"  {lines_of(path):4} {name}" for name, path in own.items() if lines_of(path) > MODULE_LINES_MAX)
    yield from (f"  {lines:4} {name}:{cls}" for name, path in own.items() for cls, lines in long_classes(path))
    yield "\nnames of two modules in core and flows:"
    yield from _twins(own)


def _folders(package: Path, own: dict[str, Path]) -> Iterator[str]:
    folders: dict[str, list[int]] = defaultdict(list)
    for path in own.values():
        folders[str(path.parent.relative_to(package))].append(lines_of(path))
    yield from (f"  {len(lines):3} modules {sum(lines):6} lines  {folder}" for folder, lines in sorted(folders.items()))


def _twins(own: dict[str, Path]) -> Iterator[str]:
    places = defaultdict(list)
    for name in own:
        if name.split(".")[1] in ("core", "flows"):
            places[name.rpartition(".")[2]].append(name)
    yield from (f"  {', '.join(names)}" for names in places.values() if len(names) > 1)


if __name__ == "__main__":
    here = Path(__file__).parents[1] / "functions" / "tickwork"
    print("\n".join(report(Path(sys.argv[1]) if len(sys.argv) > 1 else here)))
