"""The launcher of the local endpoint, with a program in MiniStack's place that only says what it was given."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tickwork.local.endpoint import Endpoint, EndpointFailed

SAYS = '#!/bin/sh\necho "$PWD"\nenv\necho it cannot\nexit 3\n'
SECRETS = {"AWS_SECRET_ACCESS_KEY": "of the person", "PYTHONPATH": "/theirs", "TICKWORK_PREFIX": "theirs"}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "python"
    path.write_text(SAYS)
    path.chmod(0o700)
    return path


def _environ_of(log: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in log.read_text().splitlines() if "=" in line)


@pytest.mark.parametrize("keeps", [True, False], ids=["keeps its state", "fresh"])
def test_an_endpoint_gets_only_what_it_needs_and_leaves_nothing_in_the_way(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    state, log = tmp_path / "state", tmp_path / "logs" / "endpoint.log"
    endpoint = Endpoint(python=program, port=4732, log=log, state=state if keeps else None, roles_enforced=not keeps)
    with pytest.raises(EndpointFailed):
        endpoint.start()
    found = _environ_of(log)
    assert not SECRETS.keys() & found.keys()
    assert (found["BIND_HOST"], found["GATEWAY_PORT"]) == ("127.0.0.1", "4732")
    assert found["AUTH"] == ("false" if keeps else "true")
    assert found.get("STATE_DIR") == (str(state) if keeps else None)
    scratch = Path(found["TMPDIR"])
    assert found["HOME"] == str(scratch) == log.read_text().splitlines()[0]
    assert not scratch.exists()
    assert endpoint.stop()


def test_one_that_does_not_start_shows_the_end_of_its_log(program: Path, tmp_path: Path) -> None:
    with pytest.raises(
        EndpointFailed, match=r"ended at once \(is port 4732 taken\?\); its log is .*\n(.*\n)*it cannot"
    ):
        Endpoint(python=program, port=4732, log=tmp_path / "log").start()


def test_a_missing_environment_is_named_with_what_makes_it(tmp_path: Path) -> None:
    with pytest.raises(EndpointFailed, match="make setup"):
        Endpoint(python=tmp_path / "nowhere", log=tmp_path / "log").start()


def test_without_a_port_each_gets_a_free_one(tmp_path: Path) -> None:
    one, other = (Endpoint(python=Path(os.devnull), log=tmp_path / "log") for _ in range(2))
    assert one.port > 1_024
    assert other.url == f"http://127.0.0.1:{other.port}"
