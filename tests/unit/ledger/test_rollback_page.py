"""The page on rolling back names every field that a version stores and the one before it did not."""

from __future__ import annotations

from pathlib import Path

from tests.recorded.differences import attributes, folders, lines

PAGE = Path(__file__).parents[3] / "docs" / "deploy.md"


def test_the_page_has_each_new_field_of_each_version() -> None:
    assert lines(), "versions differ in what they store"
    assert "\n".join(lines()) in PAGE.read_text(encoding="utf-8"), "run `python -m tests.recorded.differences`"


def test_no_field_that_a_version_stored_has_gone_from_the_next() -> None:
    """An older version would miss it: what is stored only gains."""
    last = attributes(folders()[-1])
    for folder in folders()[:-1]:
        for table, names in attributes(folder).items():
            assert names <= last[table], (folder.name, table)
