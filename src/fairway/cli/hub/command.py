"""`fairway hub`: run the embedded hub. Its subcommands back up, restore, check and re-key its data."""

from difflib import get_close_matches
from pathlib import Path
from typing import Final

import click

from fairway.cli.hub.data import backup, check, restore
from fairway.cli.hub.pki import renew_pki
from fairway.cli.options.misplaced import refuse_misplaced
from fairway.cli.output import OutputFormat, output_option
from fairway.hub import controllers

PORT: Final = 6443

_MAYBE: Final = ". Did you mean {near!r}?"


class SubcommandGroup(click.Group):
    """Suggests the nearest subcommand for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.commands, n=1)
            hint = _MAYBE.format(near=near[0]) if near else f"; known: {', '.join(self.commands)}."
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=SubcommandGroup,
    invoke_without_command=True,
    short_help="Run an embedded Kubernetes API server, and manage its data.",
    epilog="""\b
Examples:
  fairway hub                                       in memory; data is lost when it stops
  fairway hub --data ./hub                          keep the data in a folder
  fairway hub --data ./hub --port 0 --kubeconfig-out ./kubeconfig
  fairway hub --host 0.0.0.0 --name hub.example.com for clients on other machines
  fairway hub --without namespace --without garbage-collector
  fairway hub backup --data ./hub --out hub.backup  also while it runs
  fairway hub check --data ./hub

\b
Then, in another terminal:
  export KUBECONFIG=./hub/admin.kubeconfig
  kubectl get managedclusters
""",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder for the data.  [default: in memory only]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="Port; 0 picks a free one."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="Additional host name or address of this hub in its certificate. Can be repeated.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File for the administrator's kubeconfig.  [default: in DIR, or a temporary file]",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help='File of static bearer tokens, one per line: token,user,uid,"group1,group2".',
)
@click.option(
    "--crds/--no-crds", default=True, show_default=True, help="Install the CRDs of OCM's and Fairway's kinds."
)
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(sorted(controllers.ALL)),
    metavar="PART",
    help="Do not run this controller, because another program, such as kube-controller-manager, does: "
    f"{', '.join(sorted(controllers.ALL))}. Can be repeated.",
)
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File for the audit log.  [default: in DIR, or none]",
)
@click.option(
    "--durability",
    type=click.Choice(["full", "normal"]),
    default="full",
    show_default=True,
    help="full: acknowledged writes survive a power failure; normal: they survive a crash of the process.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log at info level.")
@output_option
@click.pass_context
def hub(
    context: click.Context,
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
    """Run an embedded Kubernetes API server: for development, tests, demos and small installations.

    It serves TLS and enforces RBAC. It logs to stderr, and stops on Ctrl-C or SIGTERM.
    """
    if context.invoked_subcommand is not None:
        refuse_misplaced(context)
        return
    # Imported here to keep `fairway --help` fast.
    from fairway.api import crds as definitions
    from fairway.cli.hub import process
    from fairway.hub import Settings

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


for _command in (backup, restore, check, renew_pki):
    hub.add_command(_command)
