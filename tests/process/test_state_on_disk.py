"""Reports of a state on disk that is broken: the local service says which file, changes nothing, and does not begin
anew beside it. With the endpoint's own program, as `make run` starts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.reported.reports import holds
from tickwork.local.endpoint import Endpoint, EndpointFailed, default_python

TABLES = "dynamodb.json"
BROKEN: dict[str, dict[str, bytes]] = {
    "cut to half": {TABLES: b'{"_tables": {"tickwork-timers": {"TableName"', "sqs.json": b"{}"},
    "empty": {TABLES: b"", "sqs.json": b"{}"},
    "the tables are missing beside the rest": {"sqs.json": b"{}"},
    "another file than the tables": {TABLES: b"{}", "sqs.json": b'{"_queues": [1,'},
}


@holds("R2-O-22")
@pytest.mark.parametrize("name", BROKEN)
def test_a_state_that_cannot_be_read_is_named_and_left_as_it_is(name: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    for file, content in BROKEN[name].items():
        (state / file).write_bytes(content)
    bad = next(file for file in (TABLES, "sqs.json") if BROKEN[name].get(file, b"") not in (b"{}",))
    endpoint = Endpoint(python=default_python(), log=tmp_path / "log", state=state)
    with pytest.raises(EndpointFailed, match="cannot be read, and nothing of it was changed") as failed:
        endpoint.start()
    assert bad.removesuffix(".json") in str(failed.value)
    assert {path.name: path.read_bytes() for path in state.glob("*.json")} == BROKEN[name]
