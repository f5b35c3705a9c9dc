"""Each page, from its first block to its last, against a running session: commands succeed, bodies are accepted, what
is shown is what comes."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import COMMANDS, LANGUAGES, Block, blocks_of, pages
from tests.docs.session import Session, Terminal, session_in
from tests.support.machine import eventually
from tickwork.client import ApiRefused

BANK = """
class bank:
    has_sent = staticmethod(lambda key: False)
    send = staticmethod(lambda **_: None)
"""
OF_THE_READER = {"ourbank": BANK}
"""Modules that a page takes for the reader's own."""
ALL = [block for page in pages() for block in blocks_of(page)]
RUN_MIN = 18
"""Blocks that are run, at least: a page whose blocks are no longer found would pass."""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with session_in(tmp_path_factory.mktemp("docs")) as running:
        eventually(running.text, lambda text: "ready after" in text, within_s=90)
        yield running


@pytest.mark.parametrize("page", [page for page in pages() if any(True for _ in blocks_of(page))])
def test_a_page_does_what_it_says(page: str, session: Session, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path / "here", session.url, os.environ)
    (terminal.folder / ".tickwork").symlink_to(session.state)  # where `make run` is started, and has its state
    for name, text in OF_THE_READER.items():
        (terminal.folder / f"{name}.py").write_text(text, encoding="utf-8")
    sent: dict[str, Any] = {}
    for block in (found for found in blocks_of(page) if not (found.not_run or found.is_deployed)):
        if block.language in COMMANDS:
            run_commands(block, terminal)
        elif block.language == "python":
            run_python(block, terminal.folder)
        elif block.language == "json":
            sent = send(block, session, sent)
        elif block.fate == "shown by the session":
            first = block.text.splitlines()[0]
            eventually(session.text, lambda text, first=first: first in text, within_s=30)
    THEN.get(page, lambda _: None)(terminal)
    terminal.end()


def run_commands(block: Block, terminal: Terminal) -> None:
    """A block with prompts shows what comes of each command."""
    if not block.text.startswith("$ "):
        terminal.run(block.text)
        return
    for shown in block.text.removeprefix("$ ").split("\n$ "):
        command, _, wanted = shown.partition("\n")
        assert terminal.run(command).strip() == wanted.strip(), f"{block.place}: {command}"


def run_python(block: Block, folder: Path) -> None:
    code = compile(block.text, block.place, "exec", dont_inherit=True)
    if not block.file:
        return
    path = folder / block.file
    path.write_text(block.text, encoding="utf-8")
    if path.name.startswith("test_"):
        command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir", str(folder), path.name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{block.place}\n{done.stdout}{done.stderr}"
        return
    sys.path.insert(0, str(folder))
    try:
        exec(code, {"__name__": path.stem})
    finally:
        sys.path.remove(str(folder))
        for name in (*OF_THE_READER, "shop", "jobs"):
            sys.modules.pop(name, None)


def send(block: Block, session: Session, before: dict[str, Any]) -> dict[str, Any]:
    """Send a body as the page says, or compare an answer that it shows. Gives the body that was posted last."""
    body: dict[str, Any] = json.loads(block.text)
    words = block.fate.split()
    if words[:2] == ["sent", "to"]:
        method, path = words[2:4]
        if method == "PATCH":
            body |= {"version": session.api.get(path)["version"]}  # the reader's own, which he has just read
        session.api.call(method, path, body)
        return body if method == "POST" else before
    if words[:2] == ["answered", "to"]:
        method, path, (section, key) = words[2], words[3], words[5].split(".")
        wrong = before | {"name": "wrong", section: before[section] | {key: words[6]}}
        with pytest.raises(ApiRefused) as refused:
            session.api.call(method, path, wrong)
        assert refused.value.problem | {"request_id": None} == body | {"request_id": None}, block.place
    return before


def charged(terminal: Terminal) -> None:
    """The order of the first sample is in its books, once."""

    def rows(_: object = None) -> int:
        books = terminal.folder / "charges.db"
        if not books.exists():
            return 0
        with closing(sqlite3.connect(books)) as found:
            return int(found.execute("SELECT count(*) FROM charges WHERE order_id = 'o1'").fetchone()[0])

    eventually(rows, lambda count: count >= 1, within_s=60)


THEN = {"docs/workers.md": charged}
"""What must have come of a page, beside its commands' success."""


def test_each_block_says_what_is_to_become_of_it() -> None:
    for block in ALL:
        assert block.language in LANGUAGES, block.place
        known = ("not run: ", "sent to ", "answered to ", "shown by the session", "deployed")
        assert not block.fate or block.fate.startswith(known), f"{block.place}: {block.fate}"
        assert block.not_run != "" or not block.fate.startswith("not run"), f"{block.place}: say why"


def test_most_of_what_can_be_run_here_is_run() -> None:
    kept = [block for block in ALL if block.language in (*COMMANDS, "python", "json") and not block.not_run]
    left = [f"{block.place}: {block.not_run}" for block in ALL if block.not_run]
    print("\nnot run:", *left, sep="\n  ")
    assert len(kept) >= RUN_MIN
    assert not [place for place in left if "AWS" in place and "arm64" not in place], "what needs AWS is `deployed`"
