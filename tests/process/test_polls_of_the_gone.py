"""A long poll whose caller has gone, at the endpoint's own program: what becomes visible then is for who is there."""

from __future__ import annotations

import time
from pathlib import Path

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from tickwork.local.endpoint import Endpoint, client_environ, default_python

LOOKS_EVERY_S = 0.1
"""The endpoint's own, during a poll."""


def test_a_message_is_not_given_to_a_poll_that_nobody_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Endpoint(python=default_python(), log=tmp_path / "log", state=tmp_path / "state") as endpoint:
        for name, value in client_environ(endpoint.port).items():
            monkeypatch.setenv(name, value)
        session = botocore.session.get_session()
        sqs = session.create_client("sqs")
        impatient = session.create_client("sqs", config=Config(read_timeout=0.5, retries={"total_max_attempts": 1}))
        url = sqs.create_queue(QueueName="ready")["QueueUrl"]
        with pytest.raises(ReadTimeoutError):
            impatient.receive_message(QueueUrl=url, WaitTimeSeconds=20)
        sqs.send_message(QueueUrl=url, MessageBody="handed back")
        time.sleep(5 * LOOKS_EVERY_S)
        found = sqs.receive_message(QueueUrl=url, MessageSystemAttributeNames=["ApproximateReceiveCount"])
    assert [one["Attributes"]["ApproximateReceiveCount"] for one in found.get("Messages", [])] == ["1"]
