"""`fairway hub renew-pki`: replace a hub's keys, which the hub never does by itself."""

from pathlib import Path
from typing import Final

from fairway.cli.hub.errors import store_errors
from fairway.cli.options.output import OutputFormat
from fairway.cli.output import emit
from fairway.cli.text import say
from kubehub.backup import private_files
from kubehub.key_replacement import replace_keys

REPLACED: Final = "{folder}: replaced {names}; the old files end in .old"
NOTHING: Final = "{folder}: all keys are usable, none replaced; replace them with --all"
CONSEQUENCES: Final = {
    "ca.pem": "Existing client certificates and kubeconfigs are rejected: distribute new kubeconfigs and join clusters "
    "again.",
    "tokens.pem": "Existing service account tokens are rejected; token Secrets are renewed when the hub starts.",
}


def renew_pki(data: Path, everything: bool, output: OutputFormat) -> None:
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
