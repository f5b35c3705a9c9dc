"""`tickwork`: the group that holds the commands."""

from __future__ import annotations

import click

from tickwork.cli.next_command import next_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A serverless job scheduler."""


main.add_command(next_command)

if __name__ == "__main__":
    main()
