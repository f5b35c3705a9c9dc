"""The glossary is true: each word it defines is in the code where it says, and no page uses a word that it replaces."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "functions" / "tickwork"
GLOSSARY = ROOT / "docs" / "glossary.md"
TEXT = GLOSSARY.read_text()
ENTRIES = re.findall(r"^\| ([^|`]+) \| [^|]+ \| `([^`|]+)` \|", TEXT, flags=re.MULTILINE)
REPLACED = re.findall(r"^\| ([^|`]+) \| ([^|`]+) \|$", TEXT.split("## Not these")[1], flags=re.MULTILINE)[1:]
PAGES = sorted(
    page
    for folder in (".", "docs", "docs/decisions", "examples", "localstack")
    for page in (ROOT / folder).glob("*.md")
    if page != GLOSSARY
)


@pytest.mark.parametrize(("word", "place"), ENTRIES, ids=[word for word, _ in ENTRIES])
def test_a_word_of_the_glossary_is_in_the_code_where_it_says(word: str, place: str) -> None:
    if ":" not in place:
        assert f'"{place}"' in "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))
        return
    module, _, path = place.partition(":")
    reduce(getattr, path.split("."), importlib.import_module(f"tickwork.{module}"))


def test_the_words_of_the_protocol_are_defined() -> None:
    needed = {"window", "ledger", "slice", "pool", "nominal time", "backlog", "chain", "near timer", "lease", "fence"}
    needed |= {"fencing token", "announce", "closing", "done", "occurrence", "run", "attempt", "timer", "creator"}
    needed |= {"tick", "tick horizon", "cell", "shard", "bucket", "catch-up", "dead letter", "replay", "park"}
    words = [word for word, _ in ENTRIES]
    assert needed <= set(words)
    assert len(words) == len(set(words)), "a word is defined once"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_uses_a_word_that_the_glossary_replaces(page: Path) -> None:
    assert len(REPLACED) >= 10
    wrong = "|".join(re.escape(word.strip()) + "s?" for word, _ in REPLACED)
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    assert not re.findall(rf"\b(?:{wrong})\b", prose, flags=re.IGNORECASE)


def test_no_docstring_or_message_of_the_package_spells_cannot_in_two_words() -> None:
    spelt = re.compile(r"\bcan not\b", re.IGNORECASE)
    assert not [path for path in (ROOT / "functions").rglob("*.py") if spelt.search(path.read_text())]


def test_every_module_that_a_page_or_a_docstring_names_is_there() -> None:
    named = re.compile(r"\b((?:core|flows|store|aws|api|worker|cli|local|testing|conformance)/[a-z_/]+\.py)\b")
    texts = [ROOT / "docs" / name for name in ("how-it-works.md", "lease-protocol.md", "glossary.md")]
    texts += [ROOT / "CONTRIBUTING.md", *(ROOT / "functions").rglob("*.py")]
    wrong = {(text.name, name) for text in texts for name in named.findall(text.read_text())
             if not (PACKAGE / name).exists()}  # fmt: skip
    assert not wrong
