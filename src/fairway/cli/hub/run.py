"""`fairway hub`: run the embedded hub. Its subcommands back up, restore, check and re-key its data."""

from pathlib import Path

from fairway.api import crds as definitions
from fairway.cli.hub import process
from fairway.cli.options.output import OutputFormat
from kubehub import Settings, controllers


def hub(
    data: Path | None,
    port: int,
    host: str,
    names: tuple[str, ...],
    kubeconfig_out: Path | None,
    token_file: Path | None,
    crds: bool,
    without: tuple[str, ...],
    audit_log: Path | None,
    durability: str,
    verbose: bool,
    output: OutputFormat,
) -> None:
    settings = Settings(
        folder=data,
        host=host,
        port=port,
        names=names,
        tokens=token_file,
        audit=audit_log,
        controllers=controllers.ALL - set(without),
        durability="full" if durability == "full" else "normal",
        definitions=tuple(definitions()) if crds else (),
    )
    process.serve(settings, kubeconfig=kubeconfig_out, output=output, verbose=verbose)
