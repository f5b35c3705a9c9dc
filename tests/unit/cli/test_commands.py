"""The command line against a real API on a local port: tables for people, JSON for programs, exit codes."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import pytest
from click.testing import CliRunner, Result

from tests.support.fakes import fake_ports
from tickwork.api.app import build_app
from tickwork.cli.main import main
from tickwork.local.occupancy import NotStarted, require_free
from tickwork.local.server import serve
from tickwork.ports import Layout


@pytest.fixture
def url() -> Iterator[str]:
    ports = fake_ports(layout=Layout(pools=("default", "payments", "push")))
    server = serve(lambda: build_app(ports), 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def run(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments], env={"TICKWORK_API_URL": url})


def test_a_job_is_created_shown_listed_and_deleted(url: str) -> None:
    created = run(url, "jobs", "create", "payments:nightly", "--cron", "0 2 * * *", "--tz", "Europe/Berlin",
                  "--pool", "payments", "--payload", '{"ledger": "cards"}', "--json")  # fmt: skip
    assert created.exit_code == 0, created.output
    assert json.loads(created.stdout)["payload"] == {"ledger": "cards"}

    assert "Europe/Berlin" in run(url, "jobs", "show", "payments:nightly").stdout
    assert "payments:nightly" in run(url, "jobs", "list", "--team", "payments").stdout
    assert "deleted" in run(url, "jobs", "delete", "payments:nightly").stdout
    assert run(url, "jobs", "show", "payments:nightly").exit_code == 2


def test_a_job_is_changed_paused_and_resumed(url: str) -> None:
    run(url, "jobs", "create", "payments:nightly", "--cron", "0 2 * * *", "--pool", "payments", "--handler", "settle")

    changed = run(url, "jobs", "update", "payments:nightly", "--cron", "30 2 * * *", "--max-attempts", "2",
                  "--start-within", "300", "--change", '{"max_duration_s": 600}', "--json", "--yes")  # fmt: skip
    job = json.loads(changed.stdout)
    assert (job["version"], job["schedule"]["cron"], job["max_duration_s"]) == (2, "30 2 * * *", 600)
    assert job["start_within_s"] == 300
    assert job["target"] == {"pool": "payments", "handler": "settle"}
    stale = run(url, "jobs", "update", "payments:nightly", "--version", "1", "--lease", "90")
    assert (stale.exit_code, "version 2, not 1" in stale.stderr) == (2, True)
    assert run(url, "jobs", "update", "payments:nightly").exit_code == 2

    paused = run(url, "jobs", "pause", "payments:nightly", "--by", "ann", "--reason", "bank holiday")
    assert "by local (ann): bank holiday (until it is resumed)" in paused.stdout
    assert "paused" in run(url, "jobs", "list", "--team", "payments").stdout
    resumed = run(url, "jobs", "resume", "payments:nightly", "--by", "bob", "--json")
    assert json.loads(resumed.stdout)["status"] == "active"


def test_a_job_that_is_pushed_to_a_url_is_changed_and_shown(url: str) -> None:
    run(url, "jobs", "create", "payments:hook", "--rate", "1 hour", "--pool", "payments")
    target = '{"target": {"url": "https://hooks.example.com/x"}}'
    changed = run(url, "jobs", "update", "payments:hook", "--change", target)
    assert (changed.exit_code, "https://hooks.example.com/x" in changed.stdout) == (0, True), changed.output
    assert "https://hooks.example.com/x" in run(url, "jobs", "show", "payments:hook").stdout


def test_a_field_that_is_given_twice_is_refused_before_it_is_sent() -> None:
    refused = run("http://127.0.0.1:9", "jobs", "update", "payments:nightly", "--max-attempts", "2",
                  "--change", '{"retry_policy": {"base_s": 5}}')  # fmt: skip
    assert (refused.exit_code, "both give retry_policy" in refused.stderr) == (2, True), refused.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--pool", "payments"], "give one of --cron"),
        (["--cron", "0 2 * * *"], "give --pool"),
        (["--tz", "Europe/Berlin", "--pool", "payments"], "--tz goes with"),
        (["--cron", "0 2 * * *", "--rate", "1 hour", "--pool", "payments"], "exactly one of"),
    ],
    ids=str,
)
def test_a_job_without_a_schedule_or_a_pool_is_refused_before_it_is_sent(options: list[str], says: str) -> None:
    refused = run("http://127.0.0.1:9", "jobs", "create", "payments:nightly", *options)
    assert (refused.exit_code, says in refused.stderr) == (2, True), refused.stderr


def test_a_refusal_goes_to_stderr_with_what_to_change_and_exit_code_2(url: str) -> None:
    refused = run(url, "jobs", "create", "payments:nightly", "--cron", "0 0 30 2 *", "--pool", "payments")

    assert refused.exit_code == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: schedule.cron: ")
    assert "\n  try: " in refused.stderr


def test_timers_are_created_and_cancelled(url: str) -> None:
    created = run(url, "timers", "create", "--team", "payments", "--pool", "payments", "--handler", "hold",
                  "--delay", "2.5", "--json")  # fmt: skip
    assert created.exit_code == 0, created.output
    timer_id = json.loads(created.stdout)["timer_id"]

    assert run(url, "timers", "cancel", timer_id).exit_code == 0
    assert run(url, "timers", "cancel", "payments:t~main~0001~1793318406~00000000").exit_code == 2
    assert "cancelled" in run(url, "timers", "show", timer_id).stdout


@pytest.mark.parametrize(("delay", "exit_code"), [("90s", 0), ("PT15M", 0), ("0", 0), ("soon", 2), ("90 parsecs", 2)])
def test_a_delay_is_seconds_or_a_period(url: str, delay: str, exit_code: int) -> None:
    created = run(url, "timers", "create", "--team", "shop", "--pool", "default", "--handler", "h", "--delay", delay)
    assert created.exit_code == exit_code, created.output


def test_a_calendar_that_was_shown_can_be_edited_and_put_again(url: str, tmp_path: Path) -> None:
    file = tmp_path / "de.json"
    file.write_text('{"name": "de", "zone": "Europe/Berlin", "dates": ["2026-12-24"]}', encoding="utf-8")
    assert run(url, "calendars", "put", "shop:de", str(file)).stdout == "shop:de is at version 1\n"

    shown = run(url, "calendars", "show", "shop:de").stdout
    file.write_text(shown.replace("12-24", "12-31"), encoding="utf-8")
    assert run(url, "calendars", "put", "shop:de", str(file)).stdout == "shop:de is at version 2\n"

    elsewhere = run(url, "calendars", "put", "shop:at", str(file))
    assert elsewhere.exit_code == 2
    assert "another calendar_id" in elsewhere.stderr


def test_a_worker_without_a_region_or_credentials_is_told_what_to_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setattr("tickwork.aws.wiring._session", botocore.session.get_session)
    (tmp_path / "jobs.py").write_text("from tickwork.worker import App\napp = App()\n", encoding="utf-8")

    refused = CliRunner().invoke(main, ["worker", f"{tmp_path}/jobs.py:app", "--pool", "payments"])

    assert refused.exit_code == 2, refused.output
    assert "--lease" in refused.stderr


def test_runs_are_listed_as_a_table_and_as_json(url: str) -> None:
    assert run(url, "runs", "list").stdout == "no runs\n"
    assert json.loads(run(url, "runs", "list", "--json").stdout) == []
    assert run(url, "runs", "list", "--status", "done").exit_code == 2


def test_an_api_that_is_not_there_is_exit_code_3() -> None:
    failed = run("http://127.0.0.1:9", "runs", "list")

    assert failed.exit_code == 3
    assert "make run" in failed.stderr


def test_a_body_over_the_limit_is_refused_before_it_is_read(url: str) -> None:
    import urllib3

    answer = urllib3.request("POST", f"{url}/jobs", headers={"Content-Length": str(10**9)}, retries=False)
    assert answer.status == 413


def test_a_session_refuses_a_port_that_another_one_has() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        with pytest.raises(NotStarted, match=f"port {taken} .* ENDPOINT_PORT="):
            require_free(taken, "the AWS endpoint", "ENDPOINT_PORT")
    require_free(taken, "the AWS endpoint", "ENDPOINT_PORT")


def test_a_key_is_made_shown_once_rotated_and_revoked(url: str) -> None:
    made = run(url, "keys", "create", "--team", "payments", "--role", "worker", "--pools", "payments,default",
               "--name", "ci", "--expires", "10")  # fmt: skip
    assert re.fullmatch(r"tw_payments_\w{49}\n", made.stdout), made.output
    listed = run(url, "keys", "list", "--team", "payments")
    assert "worker" in listed.stdout
    assert made.stdout.strip() not in listed.stdout
    key_id = listed.stdout.splitlines()[1].split()[0]
    assert f"warning: {key_id}: it expires at" in listed.stderr

    rotated = json.loads(run(url, "keys", "rotate", key_id, "--json").stdout)
    assert rotated["pools"] == ["payments", "default"]
    assert "is revoked" in run(url, "keys", "revoke", key_id).stdout
    assert "was revoked at" in run(url, "keys", "revoke", key_id).stdout
    shown = json.loads(run(url, "keys", "list", "--team", "payments", "--json").stdout)
    assert {one["status"] for one in shown} == {"valid", "revoked"}
    assert run(url, "keys", "list", "--team", "shop").stdout == "team shop has no keys\n"


def test_the_key_in_the_environment_is_who_calls(url: str) -> None:
    made = run(url, "keys", "create", "--team", "payments", "--role", "viewer").stdout.strip()
    environ = {"TICKWORK_API_URL": url, "TICKWORK_API_KEY": made}
    refused = CliRunner().invoke(main, ["jobs", "delete", "payments:nightly"], env=environ)
    assert (refused.exit_code, "is viewer of payments" in refused.stderr) == (2, True)
    broken = CliRunner().invoke(
        main, ["jobs", "list", "--team", "payments"], env=environ | {"TICKWORK_API_KEY": "tw_x"}
    )
    assert (broken.exit_code, "no API key" in broken.stderr) == (2, True)


def test_a_job_is_run_by_hand(url: str) -> None:
    run(url, "jobs", "create", "payments:nightly", "--cron", "0 2 * * *", "--pool", "payments")
    asked = ("jobs", "run", "payments:nightly", "--reason", "late", "--payload", '{"day": 1}', "--client-key", "k1")
    found = run(url, *asked, "--beside", "--json")
    shown = json.loads(found.stdout)
    assert (shown["kind"], shown["asked_for"]) == (
        "manual",
        {"by": "local", "reason": "late", "overlap": "allow"},
    )
    assert "asked for before" in run(url, *asked, "--beside").stdout
    assert "by local: late" in run(url, "runs", "show", shown["occurrence"]).stdout
    assert "by local: late" in run(url, "runs", "list", "--job", "payments:nightly").stdout


def test_one_occurrence_is_skipped_as_it_is_shown_and_that_is_taken_back(url: str) -> None:
    run(url, "jobs", "create", "payments:nightly", "--cron", "0 2 * * *", "--pool", "payments")
    one = json.loads(run(url, "jobs", "next", "payments:nightly", "--json").stdout)[0]["occurrence"]
    assert "by local: closed" in run(url, "jobs", "skip", one, "--reason", "closed").stdout
    assert "will be skipped: skipped by local: closed" in run(url, "jobs", "next", "payments:nightly").stdout
    assert "closed" not in run(url, "jobs", "unskip", one).stdout
    assert run(url, "jobs", "unskip", one).stderr == ""
    other = one.replace("T02", "T03")
    refused = run(url, "jobs", "skip", other, "--reason", "closed")
    assert refused.exit_code == 2
    assert one.partition("@")[2] in refused.stderr
    assert run(url, "jobs", "skip", "payments:nightly", "--reason", "closed").exit_code == 2


def test_a_range_is_counted_and_run_again(url: str) -> None:
    run(url, "jobs", "create", "payments:nightly", "--cron", "0 2 * * *", "--pool", "payments")
    past = ("--since", "2026-09-01T00:00:00Z", "--until", "2026-09-04T00:00:00Z", "--reason", "a wrong rate")
    counted = run(url, "backfills", "create", "payments:nightly", *past, "--dry-run")
    assert "3 none, 0 failed" in counted.stdout
    assert "no backfills" in run(url, "backfills", "list", "payments:nightly").stdout
    refused = CliRunner().invoke(
        main, ["backfills", "create", "payments:nightly", *past], env={"TICKWORK_API_URL": url}, input="n\n"
    )
    assert refused.exit_code != 0
    made = json.loads(run(url, "backfills", "create", "payments:nightly", *past, "--yes", "--json").stdout)
    assert (made["status"], made["matched"]) == ("running", 3)
    name = made["backfill_id"]
    assert "0 of 3" in run(url, "backfills", "list", "payments:nightly").stdout
    assert "paused" in run(url, "backfills", "pause", name, "--reason", "slow").stdout
    assert "running" in run(url, "backfills", "resume", name).stdout
    assert "1 cancelled" in run(url, "backfills", "cancel", name, "--reason", "no", "--runs", "cancel").stdout
    assert "a wrong rate" in run(url, "backfills", "show", name).stdout
