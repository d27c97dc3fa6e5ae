"""`fairway hub renew-pki`: replace a hub's keys, which the hub never does by itself."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.output import OutputFormat, emit, output_option, say

REPLACED: Final = "{folder}: replaced {names}; the old files end in .old"
NOTHING: Final = "{folder}: all keys are usable, none replaced; replace them with --all"
CONSEQUENCES: Final = {
    "ca.pem": "Existing client certificates and kubeconfigs are rejected: distribute new kubeconfigs and join clusters "
    "again.",
    "tokens.pem": "Existing service account tokens are rejected; token Secrets are renewed when the hub starts.",
}


@click.command(
    "renew-pki",
    short_help="Replace a hub's keys.",
    epilog="""\b
Examples:
  fairway hub renew-pki --data ./hub                        replace missing and unusable keys
  fairway hub renew-pki --data ./hub --all                  replace all keys, for example after a leak

Stop the hub first. If you have a backup, restore the old keys with `fairway hub restore` instead.
""",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The hub's folder.",
)
@click.option("--all", "everything", is_flag=True, help="Also replace usable keys.")
@output_option
def renew_pki(data: Path, everything: bool, output: OutputFormat) -> None:
    """Replace the certificate authority and the key of service account tokens, if missing or unusable.

    Expiring certificates need no command: a running hub renews them.
    """
    from fairway.cli.hub.errors import store_errors
    from fairway.hub.backup import private_files
    from fairway.hub.key_replacement import replace_keys

    with store_errors(), private_files():
        names = replace_keys(data, everything=everything)
    if output != "table":
        emit((), columns={}, output=output, document={"data": str(data), "replaced": list(names)})
    elif not names:
        say(NOTHING.format(folder=data))
    else:
        say(REPLACED.format(folder=data / "pki", names=" and ".join(names)))
        for name in names:
            say(CONSEQUENCES[name])
