"""The console script: runs the command line, or says which extra brings what it needs.

Imports nothing but the standard library, so that it can say so in any installation.
"""

from __future__ import annotations

import sys

BROUGHT_BY_EXTRAS = frozenset({"aws_lambda_powertools", "boto3", "botocore", "click", "rich", "urllib3"})
EXTRA_OF_COMMAND = {"worker": "worker", "verify": "worker", "dev": "local", "serve": "local"}
"""Of any other command: `cli`."""


def main() -> None:
    try:
        from tickwork.cli.main import main as commands

        commands()
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in BROUGHT_BY_EXTRAS:
            raise
        print(advice(missing, sys.argv[1:]), file=sys.stderr)
        sys.exit(2)


def advice(missing: str, arguments: list[str]) -> str:
    """What to install for the command that was asked for."""
    command = next((word for word in arguments if not word.startswith("-")), "")
    extra = EXTRA_OF_COMMAND.get(command, "cli")
    return f"error: {missing} is not installed\n  try: pip install 'tickwork[{extra}]'"
