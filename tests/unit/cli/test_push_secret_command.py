from __future__ import annotations

import boto3
import pytest
from click.testing import CliRunner
from moto import mock_aws

from tickwork.cli.main import main
from tickwork.core.runs.pushes import team_secret

MASTERS = ("n" * 64, "o" * 64)


def test_a_teams_secrets_are_derived_from_the_masters_newest_first() -> None:
    environ = {"TICKWORK_PUSH_SECRETS": ",".join(MASTERS)}
    done = CliRunner().invoke(main, ["push-secret", "payments"], env=environ)
    assert done.output.split() == [team_secret(master, "payments") for master in MASTERS]


def test_the_masters_may_be_read_where_the_stack_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        stored = boto3.client("secretsmanager").create_secret(Name="s", SecretString=MASTERS[0])["ARN"]
        done = CliRunner().invoke(main, ["push-secret", "payments", "--stored-at", stored])
        missing = CliRunner().invoke(main, ["push-secret", "payments", "--stored-at", f"{stored}x"])
    assert done.output.split() == [team_secret(MASTERS[0], "payments")]
    assert (missing.exit_code, "Traceback" in missing.output) == (1, False)


@pytest.mark.parametrize(("team", "masters"), [("payments", ""), ("No Team", ",".join(MASTERS))])
def test_what_can_not_be_is_refused(team: str, masters: str) -> None:
    done = CliRunner().invoke(main, ["push-secret", team], env={"TICKWORK_PUSH_SECRETS": masters})
    assert done.exit_code == 1
    assert done.output.startswith("Error: ")
