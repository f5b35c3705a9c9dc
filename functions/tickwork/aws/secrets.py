"""The push secrets of a deployed environment, read from Secrets Manager by the one function that signs with them.

Never through the template or the function's configuration: those show a value to whoever may read either. Read again
every quarter of an hour, so that a rotation reaches warm functions without a deployment.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from tickwork.core.instants import SECOND_MS
from tickwork.ports import Clock, Signals
from tickwork.settings import BadSetting, PushSecrets

FRESH_MS = 900 * SECOND_MS


def read_secrets(client: Any, arn: str) -> PushSecrets:
    """The secrets at `arn`, by a client of Secrets Manager."""
    return PushSecrets.from_text(client.get_secret_value(SecretId=arn).get("SecretString", ""))


class StoredSecrets:
    """The secrets, kept for a while. The first read fails loudly: nothing is pushed unsigned."""

    def __init__(self, client: Any, arn: str, clock: Clock, signals: Signals) -> None:
        self._client, self._arn, self._clock, self._signals = client, arn, clock, signals
        self._known = read_secrets(client, arn).secrets
        self._read_at_ms = clock.now_ms()

    def current(self) -> tuple[str, ...]:
        """The newest first. When they cannot be read again, those that were known sign on."""
        now_ms = self._clock.now_ms()
        if now_ms - self._read_at_ms >= FRESH_MS:
            self._read_at_ms = now_ms
            try:
                self._known = read_secrets(self._client, self._arn).secrets
            except (BotoCoreError, ClientError, BadSetting) as error:
                self._signals.log("push_secrets_not_read", error=repr(error))
        return self._known
