"""The blocks of a page, and what is to become of each.

What a block is, its language says: `text` is shown and not run, `json` must be JSON, `python` must compile; what has no
language, or `sh`, are commands. A comment above the fence says what differs:

    <!-- docs-test: not run: REASON -->
    <!-- docs-test: sent to POST /jobs -->
    <!-- docs-test: answered to POST /jobs with schedule.zone America/New_Yrk -->
    <!-- docs-test: shown by the session -->
    <!-- docs-test: deployed -->   (run on the deployed local stack: tests/e2e/test_pages_deployed.py)

A block of Python that follows a line which ends with a file's name and a colon is that file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = ("", "sh")
LANGUAGES = (*COMMANDS, "text", "json", "python", "mermaid", "ini", "dockerfile", "yaml", "sql")
_BLOCK = re.compile(
    r"(?:^<!-- docs-test: (?P<fate>.*?) -->\n)?^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```$", re.S | re.M
)
_FILE = re.compile(r"`(?P<file>[\w.]+\.py)`:\n+\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """`line`: that of its first line. `fate`: what the comment says, empty without one. `file`: what it is saved as."""

    page: str
    line: int
    language: str
    text: str
    fate: str
    file: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def not_run(self) -> str:
        """Why it is not run; empty when it is."""
        return self.fate.removeprefix("not run: ") if self.fate.startswith("not run: ") else ""

    @property
    def is_deployed(self) -> bool:
        return self.fate == "deployed"


def pages() -> list[str]:
    """Every page that a reader is sent to."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [str(path.relative_to(ROOT)) for path in found]


def blocks_of(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        indent = found["indent"]
        file = _FILE.search(text, 0, found.start())
        yield Block(
            page=page,
            line=text.count("\n", 0, found.start("text")) + 1,
            language=found["language"],
            text="\n".join(line.removeprefix(indent) for line in found["text"].splitlines()) + "\n",
            fate=found["fate"] or "",
            file=file["file"] if file and found["language"] == "python" else "",
        )
