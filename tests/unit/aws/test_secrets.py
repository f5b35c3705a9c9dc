"""The push secrets: read at the start, again after a while, and never lost to a read that failed."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.fakes import FakeClock, KeptSignals
from tickwork.aws.secrets import FRESH_MS, StoredSecrets
from tickwork.settings import PUSH_SECRETS_AT, BadSetting, push_secrets_arn

OLD, NEW = "a" * 64, "b" * 64


class Vault:
    """Answers as Secrets Manager would; `text` None: it refuses."""

    def __init__(self, text: str | None) -> None:
        self.text, self.asked = text, 0

    def get_secret_value(self, **request: Any) -> dict[str, str]:
        assert request == {"SecretId": "arn"}
        self.asked += 1
        if self.text is None:
            raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "GetSecretValue")
        return {"SecretString": self.text}


def test_a_rotation_reaches_a_warm_function_within_a_quarter_of_an_hour() -> None:
    vault, clock = Vault(OLD), FakeClock()
    stored = StoredSecrets(vault, "arn", clock, KeptSignals())
    vault.text = f"{NEW},{OLD}"
    clock.at_ms += FRESH_MS - 1
    assert (stored.current(), vault.asked) == ((OLD,), 1)
    clock.at_ms += 1
    assert stored.current() == (NEW, OLD)
    assert (stored.current(), vault.asked) == ((NEW, OLD), 2)


@pytest.mark.parametrize("text", [None, "", "too short"])
def test_what_can_not_be_read_again_is_kept_and_noted(text: str | None) -> None:
    vault, clock, signals = Vault(OLD), FakeClock(), KeptSignals()
    stored = StoredSecrets(vault, "arn", clock, signals)
    vault.text = text
    clock.at_ms += FRESH_MS
    assert stored.current() == (OLD,)
    assert [action for action, _ in signals.lines] == ["push_secrets_not_read"]
    assert OLD not in repr(signals.lines)


@pytest.mark.parametrize("text", [None, "", "too short"])
def test_nothing_starts_without_a_secret(text: str | None) -> None:
    with pytest.raises((ClientError, BadSetting)):
        StoredSecrets(Vault(text), "arn", FakeClock(), KeptSignals())


def test_where_the_secret_is_must_be_said() -> None:
    assert push_secrets_arn({PUSH_SECRETS_AT: "arn"}) == "arn"
    with pytest.raises(BadSetting, match=PUSH_SECRETS_AT):
        push_secrets_arn({})
