"""The master secrets that pushes are signed with: generated here, read by the pusher, known to no template.

Its name is generated too: one that was deleted keeps its name for weeks, and would be in the way of the next stack.
"""

from __future__ import annotations

import string

from aws_cdk import aws_secretsmanager as secretsmanager
from constructs import Construct

from infra.tables import kept

SECRET_CHARS = 64


class PushSecret(Construct):
    """One secret, comma-separated masters, the newest first; the first one is generated. Encrypted by the account's key
    for Secrets Manager. `keep_data`: it outlives the stack, as the teams' receivers verify with what is derived from
    it."""

    def __init__(self, scope: Construct, construct_id: str, *, prefix: str, keep_data: bool) -> None:
        super().__init__(scope, construct_id)
        self.secret = secretsmanager.Secret(
            self,
            "Secret",
            description=f"Master secrets of {prefix}'s pushes, comma-separated, the newest first",
            generate_secret_string=secretsmanager.SecretStringGenerator(
                password_length=SECRET_CHARS, exclude_characters=string.punctuation
            ),
            removal_policy=kept(keep_data),
        )
