"""The generated pages are what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("generate_docs", DOCS / "generate.py")
assert _spec is not None
assert _spec.loader is not None
generate = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generate)


@pytest.mark.parametrize("name", sorted(generate.PAGES))
def test_a_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == generate.PAGES[name](), "run: python docs/generate.py"
