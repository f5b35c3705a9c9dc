"""Settings: read from the environment, refused when they cannot be run with."""

from __future__ import annotations

import pytest

from tickwork.settings import BadSetting, PushSecrets, Settings


def test_what_is_rendered_is_read_again() -> None:
    settings = Settings(prefix="tickwork-x", shards=64, slices=8, pools="default,payments", push_private=True)
    assert Settings.from_environ(settings.to_environ() | {"HOME": "/"}) == settings


def test_what_is_not_there_keeps_its_default() -> None:
    assert Settings.from_environ({}) == Settings()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("PREFIX", "Has-Capitals"),
        ("CELL", "x" * 21),
        ("SHARDS", "0"),
        ("SHARDS", "many"),
        ("SLICES", "1025"),
        ("POOLS", "a,,b"),
        ("RETENTION_DAYS", "401"),
        ("SLICE_CAPACITY_PER_S", "0"),
        ("PUSH_PRIVATE", "maybe"),
    ],
)
def test_a_bad_setting_is_refused_by_the_name_of_its_variable(name: str, text: str) -> None:
    with pytest.raises(BadSetting, match=f"TICKWORK_{name}"):
        Settings.from_environ({f"TICKWORK_{name}": text})


@pytest.mark.parametrize("text", ["", "short", ",".join("x" * 32 for _ in range(5))])
def test_push_secrets_are_one_to_four_and_long(text: str) -> None:
    with pytest.raises(BadSetting, match="PUSH_SECRETS"):
        PushSecrets.from_environ({"TICKWORK_PUSH_SECRETS": text})


def test_a_process_that_reads_its_settings_imports_no_pydantic() -> None:
    import subprocess
    import sys

    code = "import sys, tickwork.settings, tickwork.aws.wiring; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
