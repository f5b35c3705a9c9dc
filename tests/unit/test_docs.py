"""What the documents point to exists: files they link, targets they name, commands they show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tickwork.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for folder in (".", "docs", "docs/decisions", "benchmarks", "localstack", "examples")
    for page in (ROOT / folder).glob("*.md")
)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(page))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_is_named_exists(page: Path) -> None:
    rules = "\n".join(text_of(file) for file in [ROOT / "Makefile", *ROOT.glob("*/*.mk"), *ROOT.glob("*/*/*.mk"),
                                                  *ROOT.glob("functions/*/*/*.mk")])  # fmt: skip
    targets = set(re.findall(r"^([a-z0-9-]+):", rules, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z][a-z0-9-]+)", text_of(page), re.MULTILINE))
    assert named <= targets, named - targets


def test_every_command_of_the_readme_is_one_that_tickwork_has() -> None:
    shown = re.findall(r"^tickwork ([a-z-]+)(?: ([a-z]+)\b)?", text_of(ROOT / "README.md"), re.MULTILINE)
    assert len(shown) >= 5
    for command, sub in shown:
        words = [command, sub] if command in ("jobs", "timers", "runs") else [command]
        result = CliRunner().invoke(main, [*words, "--help"])
        assert result.exit_code == 0, (words, result.output)
