"""The endpoint's environment is the one of the lock file, whole, and made once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tickwork.local import environment
from tickwork.local.environment import MADE, NoEnvironment, cache_folder, existing, made


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What would be run; making an environment leaves its folder, as venv does."""
    seen: list[tuple[str, ...]] = []

    def run(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        if "venv" in command:
            (Path(command[-1]) / "bin").mkdir(parents=True)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def test_it_is_made_from_hashes_once_and_says_so(tmp_path: Path, commands: list[tuple[str, ...]]) -> None:
    said: list[str] = []
    python = made(tmp_path, said.append)
    assert [command[1:3] for command in commands] == [("-m", "venv"), ("-m", "pip")]
    assert commands[1][0] == str(python)
    assert commands[1][-3:] == ("--require-hashes", "-r", str(environment.LOCK))
    assert len(said) == 1
    assert made(tmp_path, said.append) == python
    assert (len(commands), len(said)) == (2, 1)


def test_what_an_interrupted_start_has_left_is_made_anew(tmp_path: Path, commands: list[tuple[str, ...]]) -> None:
    folder = made(tmp_path, lambda _: None).parents[1]
    (folder / MADE).unlink()
    (folder / "half").touch()
    made(tmp_path, lambda _: None)
    assert len(commands) == 4
    assert not (folder / "half").exists()


def test_another_lock_file_is_another_environment(
    tmp_path: Path, commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = made(tmp_path, lambda _: None)
    other = tmp_path / "other.lock"
    other.write_text("ministack==9")
    monkeypatch.setattr(environment, "LOCK", other)
    assert made(tmp_path, lambda _: None) != first


def test_what_could_not_be_installed_is_told_and_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, int("pip" in command), "", "ERROR: no matching hash")

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        with pytest.raises(NoEnvironment, match=r"(?s)could not be made \(to install it.*no matching hash"):
            made(tmp_path, lambda _: None)


def test_an_install_that_hangs_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: tuple[str, ...], **how: float) -> subprocess.CompletedProcess[str]:
        raise subprocess.TimeoutExpired(command, how["timeout"])

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(NoEnvironment, match="took over 600 s"):
        made(tmp_path, lambda _: None)


def test_caches_are_where_the_system_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/c"}) == Path("/c/tickwork")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder({}) == tmp_path / ".cache" / "tickwork"


def test_a_named_interpreter_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TICKWORK_MINISTACK", "/opt/endpoint/bin/python")
    assert existing() == Path("/opt/endpoint/bin/python")
