"""One session on a state, and a port that is taken: who holds it is named."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from tickwork.local.occupancy import NotStarted, end_session_of, holder_of, only_session_of, require_free


def test_a_second_session_on_a_state_is_told_the_first_ones_pid(tmp_path: Path) -> None:
    with only_session_of(tmp_path / "state"):  # noqa: SIM117 - the second is refused within the first
        with pytest.raises(NotStarted, match=rf"pid {os.getpid()}\b.*make stop"), only_session_of(tmp_path / "state"):
            pass


def test_a_session_that_ended_in_order_leaves_nothing_to_wait_for_and_a_killed_one_does(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with only_session_of(tmp_path) as killed_before:
            found.append(killed_before)
    (tmp_path / "lock").write_text("4711")
    with only_session_of(tmp_path) as killed_before:
        found.append(killed_before)
    with only_session_of(tmp_path) as killed_before:
        found.append(killed_before)
    assert found == [False, False, True, False]


def test_a_state_is_for_its_owner_only_and_a_folder_of_somebody_elses_stays_as_it_is(tmp_path: Path) -> None:
    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    old, shared = tmp_path / "old", tmp_path / "shared"
    for folder in (old, shared):
        folder.mkdir()
        folder.chmod(0o755)
    (old / "lock").touch()
    for state in (tmp_path / "new", old, shared):
        with only_session_of(state):
            (state / "secret").touch()
    assert (mode(tmp_path / "new"), mode(old), mode(shared)) == (0o700, 0o700, 0o755)
    assert {mode(state / "secret") for state in (tmp_path / "new", old, shared)} == {0o600}


def test_a_port_that_is_taken_names_what_it_is_for_and_who_holds_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert holder_of(port) in (os.getpid(), None)
        with pytest.raises(
            NotStarted, match=rf"port {port} .* the API .*(pid {os.getpid()}|cannot be told).* PORT=\.\.\."
        ):
            require_free(port, "the API", "PORT")
    require_free(port, "the API", "PORT")
    assert holder_of(port) is None


def test_where_no_session_is_there_is_none_to_end(tmp_path: Path) -> None:
    assert "no session" in end_session_of(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with only_session_of(tmp_path):
        pass
    (tmp_path / "lock").write_text(str(os.getpid()))  # as a killed session leaves it: nobody is asked to end
    assert "no session" in end_session_of(tmp_path)
