"""What the pages tell a reader with an AWS account to run, run on the deployed local stack: blocks that say `deployed`,
and the runbook's first commands, in the text of its entries.

After the other tests of this folder: one of the blocks rotates the secret of pushes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from localstack.deployment import OPERATOR, REGION, Credentials, Deployment

from tests.docs.blocks import COMMANDS, ROOT, Block, blocks_of, pages
from tests.docs.session import Terminal
from tests.e2e.caller import Caller
from tests.support.machine import eventually
from tickwork.core.ledger.lifecycle import ENDED

DEPLOYED = [block for page in pages() for block in blocks_of(page) if block.is_deployed]
FILES = {block.file: block.text for page in pages() for block in blocks_of(page) if block.file}
RUNBOOK, WORKERS = "docs/operations.md", "docs/workers.md"
FIRST_COMMANDS = list(
    dict.fromkeys(
        re.findall(r"`((?:aws|said) [^`]+|counted)`", (ROOT / RUNBOOK).read_text(encoding="utf-8").replace("\n", " "))
    )
)
OURBANK = "class bank:\n    has_sent = staticmethod(lambda key: False)\n    send = staticmethod(lambda **_: None)\n"
OTHER_NAMES = {"tickwork-prod": "tickwork-dev", "eu-central-1": REGION, "ready-POOL-": "ready-default-"}
"""What the reader's own environment is called, and what the one here is."""
_API_URL = re.compile(r"(export TICKWORK_API_URL)(=\$\(aws .*?\))$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def terminal(deployment: Deployment, tmp_path: Path) -> Iterator[Terminal]:
    """Somebody who may do everything, in the folder of the pages' own files."""
    opened = open_terminal(deployment, tmp_path, OPERATOR)
    yield opened
    opened.end()


def open_terminal(deployment: Deployment, folder: Path, credentials: Credentials) -> Terminal:
    outputs = deployment.outputs
    (folder / "bin").mkdir()
    command = folder / "bin" / "aws"
    real = os.environ.get("E2E_AWS")
    command.write_text(
        f'#!/bin/sh\nexec {real or f"{sys.executable} -m tests.docs.aws_command"} "$@"\n', encoding="utf-8"
    )
    command.chmod(0o755)
    environ = deployment.environ(credentials) | {
        "TICKWORK_AUTH": "iam",  # its address here is no AWS one
        "AWS_SESSION_TOKEN": credentials.get("AWS_SESSION_TOKEN", ""),
        "ARN": outputs["PushSecretArn"],
        "PUSH_SECRET_ARN": outputs["PushSecretArn"],
        "ALARM_TOPIC_ARN": outputs["AlarmTopicArn"],
        "P": deployment.settings.prefix,
    }
    environ["PATH"] = os.pathsep.join([str(folder / "bin"), environ["PATH"]])
    opened = Terminal(folder / "here", f"{deployment.api_url}/", environ)
    for name, text in {**FILES, "ourbank.py": OURBANK}.items():
        (opened.folder / name).write_text(text, encoding="utf-8")
    return opened


def as_here(commands: str, deployment: Deployment) -> str:
    """Commands of a page for this stack. The API's own host name leads nowhere on this machine, so the output is
    compared, and the address of the endpoint taken instead."""
    for theirs, ours in OTHER_NAMES.items():
        commands = commands.replace(theirs, ours)
    told, here = deployment.outputs["ApiUrl"], f"{deployment.api_url}/"
    return _API_URL.sub(lambda found: f"told{found[2]}; test $told = '{told}'; {found[1]}='{here}'", commands)


@pytest.mark.parametrize("block", [one for one in DEPLOYED if one.page != WORKERS], ids=lambda block: block.place)
def test_a_block_for_a_deployed_stack_does_what_it_says(
    block: Block, deployment: Deployment, terminal: Terminal
) -> None:
    if block.language in COMMANDS:
        terminal.run(as_here(block.text, deployment))
        return
    code = f"api_url = {deployment.api_url + '/'!r}\n{block.text}"
    (terminal.folder / "block.py").write_text(code, encoding="utf-8")
    assert "'runs'" in terminal.run(f"{sys.executable} block.py")


def test_the_worker_of_the_page_works_off_the_queue_with_the_policy_of_its_pool(
    deployment: Deployment, client_role: Credentials, tmp_path: Path
) -> None:
    (block,) = [block for block in DEPLOYED if block.page == WORKERS]
    worker = open_terminal(deployment, tmp_path, deployment.role_with("worker-payments"))
    worker.run(as_here(block.text, deployment))
    client = Caller(deployment.api_url, client_role)
    target = {"pool": "payments", "handler": "charge"}
    timer = {"team": "shop", "delay_s": 1, "target": target, "payload": {"order_id": "o1", "amount": 5}}
    timer_id = client.ok("POST", "/timers", timer)["timer_id"]
    run = eventually(
        lambda: client.ok("GET", f"/timers/{timer_id}"), lambda found: found["status"] in ENDED, within_s=120, every_s=1
    )
    assert run["status"] == "succeeded"
    worker.end()


@pytest.mark.parametrize("command", FIRST_COMMANDS)
def test_a_first_command_of_the_runbook_is_answered(command: str, deployment: Deployment, terminal: Terminal) -> None:
    """Also where there is nothing to be found: only an error is none."""
    (functions,) = [block.text for block in DEPLOYED if block.page == RUNBOOK]
    asked = f"set +e +o pipefail\n{functions}\n{{ {command}; }} 2>errors\ncat errors >&2; test ! -s errors"
    terminal.run(as_here(asked, deployment))


def test_the_runbook_has_first_commands_and_every_page_its_blocks() -> None:
    assert len(FIRST_COMMANDS) >= 15
    assert len(DEPLOYED) >= 8


def test_what_a_function_says_is_found_by_the_runbooks_words(deployment: Deployment, terminal: Terminal) -> None:
    (functions,) = [block.text for block in DEPLOYED if block.page == RUNBOOK]
    reconciler = f"{deployment.settings.prefix}-reconciler"
    assert "FunctionError" not in deployment.client("lambda").invoke(FunctionName=reconciler, Payload=b"{}")
    eventually(
        lambda: terminal.run(f"{functions}\nsaid reconciler 1h"),
        lambda text: '"action":"reconciled"' in text,
        within_s=60,
        every_s=2,
    )
