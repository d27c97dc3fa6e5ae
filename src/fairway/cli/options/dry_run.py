"""Option `--dry-run` of commands that write to a hub."""

from typing import Final

import click

DRY_RUN: Final = " (dry run)"
"""The end of a line about a write that was only tried."""

dry_run_option: Final = click.option(
    "--dry-run", is_flag=True, help="Send dry-run requests and write nothing."
)
