"""What `module:app` and `file.py:app` name."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from tickwork.cli.worker_command import load_app

APP = "from tickwork.worker import App\n\nfrom {neighbour} import names\n\napp = App()\nloaded = names\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def test_a_file_imports_its_neighbours_from_wherever_the_command_is_given(folder: Path) -> None:
    (folder / "ledgers_of_ours.py").write_text("names = ['cards']\n", encoding="utf-8")
    (folder / "worker_of_ours.py").write_text(APP.format(neighbour="ledgers_of_ours"), encoding="utf-8")
    assert load_app(f"{folder}/worker_of_ours.py:app").names == []
    assert sys.modules["worker_of_ours"].loaded == ["cards"]


def test_a_neighbour_that_is_not_there_is_named(folder: Path) -> None:
    (folder / "worker_alone.py").write_text(APP.format(neighbour="nobody_there"), encoding="utf-8")
    with pytest.raises(click.UsageError, match="nobody_there"):
        load_app(f"{folder}/worker_alone.py:app")
