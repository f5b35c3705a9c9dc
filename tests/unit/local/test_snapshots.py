"""The endpoint's state on disk: what cannot be read is no reason to begin anew, and a save is whole or was none."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tickwork.local import snapshots
from tickwork.local.snapshots import MARK, MARK_OF_FAILURE, Errors, Saver, read_all

LOG = logging.getLogger("tests.snapshots")
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def load_from(folder: Path) -> Callable[[str], Any]:
    """As the endpoint loads: an error is logged, and nothing comes of it."""

    def load(name: str) -> Any:
        try:
            return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            LOG.error("failed to load %s: %s", name, error)
            return None

    return load


@pytest.mark.parametrize("content", [b"", b'{"tables": [1', b"null", b'{"a": "\xff"}'], ids=repr)
def test_a_file_that_is_cut_off_or_empty_or_broken_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sqs.json").write_text("{}")
    (tmp_path / "dynamodb.json").write_bytes(content)
    with Errors([LOG]) as errors:
        read_all(tmp_path, load_from(tmp_path), errors)
    assert len(errors.lines) == 1
    assert "dynamodb" in errors.lines[0]
    assert (tmp_path / "dynamodb.json").read_bytes() == content


def test_a_state_that_can_be_read_is_and_an_empty_service_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "sqs.json").write_text('{"queues": {}}')
    (tmp_path / "sts.json").write_text("{}")
    (tmp_path / "dynamodb.json.tmp").write_text("{")  # the endpoint was killed while it wrote
    with Errors([LOG]) as errors:
        assert read_all(tmp_path, load_from(tmp_path), errors) == {"sqs": {"queues": {}}, "sts": {}}
    assert not errors.lines


async def until(wanted: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if wanted():
            return
        await asyncio.sleep(0.005)


def saves(folder: Path, save: Callable[[], bool], wanted: Callable[[], bool]) -> None:
    """Run a saver until something is so, then stop it."""

    async def run() -> None:
        saver = Saver(folder, save)
        with saver.call():
            pass
        saver.start()
        await until(wanted)
        await saver.stop()
        assert saver._child == 0
        assert wanted()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "EVERY_S", 0.01)


@pytest.mark.skipif(sys.platform != "linux", reason="the copy of a process is made as on Linux")
def test_a_save_is_made_by_a_copy_of_the_process_and_marked(tmp_path: Path) -> None:
    here: list[int] = []

    def save() -> bool:
        here.append(1)
        (tmp_path / "file").touch()
        return True

    saves(tmp_path, save, lambda: (tmp_path / MARK).exists() and (tmp_path / "file").exists())
    assert here == [], "the process itself went on"
    assert not (tmp_path / MARK_OF_FAILURE).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the copy of a process is made as on Linux")
@pytest.mark.parametrize("raises", [False, True])
def test_a_save_that_failed_is_marked_tried_again_and_then_no_more_marked(tmp_path: Path, raises: bool) -> None:
    def save() -> bool:
        if (tmp_path / "room").exists():
            return True
        if raises:
            raise OSError("no space left")
        return False

    saves(tmp_path, save, (tmp_path / MARK_OF_FAILURE).exists)
    assert not (tmp_path / MARK).exists()
    (tmp_path / "room").touch()
    saves(tmp_path, save, (tmp_path / MARK).exists)
    assert not (tmp_path / MARK_OF_FAILURE).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the copy of a process is made as on Linux")
def test_stopping_ends_a_save_that_hangs(tmp_path: Path) -> None:
    def save() -> bool:
        (tmp_path / "begun").touch()
        while True:
            pass

    saves(tmp_path, save, (tmp_path / "begun").exists)
    assert not (tmp_path / MARK).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the copy of a process is made as on Linux")
def test_what_a_call_writes_after_a_save_has_begun_is_in_the_next_one(tmp_path: Path) -> None:
    """The call was let in before the save, and writes after it: it must not be taken for saved."""
    written = [0]

    def save() -> bool:
        (tmp_path / f"save-{written[0]}").touch()
        return True

    async def run() -> None:
        saver = Saver(tmp_path, save)
        saver.start()
        with saver.call():
            await until((tmp_path / "save-0").exists)
            written[0] = 1
        await until((tmp_path / "save-1").exists)
        await saver.stop()

    asyncio.run(run())
    assert (tmp_path / "save-1").exists()
