"""`fairway hub`: run the embedded hub. The commands below it look after its data."""

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

MISPLACED: Final = (
    "{options}: for running a hub, not for `fairway hub {command}`; "
    "give that command's own options after its name"
)
_MAYBE: Final = ". Did you mean {near!r}?"


class DataGroup(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.commands, n=1)
            hint = _MAYBE.format(near=near[0]) if near else f"; there are {', '.join(self.commands)}."
            ctx.fail(f"No such command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)


@click.group(
    cls=DataGroup,
    invoke_without_command=True,
    short_help="Run an embedded Kubernetes API, and look after its data.",
    epilog="""\b
Examples:
  fairway hub                                       in memory, gone when it ends
  fairway hub --data ./hub                          kept in a folder
  fairway hub --data ./hub --port 0 --kubeconfig-out ./kubeconfig
  fairway hub --host 0.0.0.0 --name hub.example.com for clients on other machines
  fairway hub --without namespace --without garbage-collector
  fairway hub backup --data ./hub --out hub.backup  also while it runs
  fairway hub check --data ./hub

\b
Then, in another terminal, the lines it prints:
  export KUBECONFIG=./hub/admin.kubeconfig
  kubectl get managedclusters
""",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep everything in this folder.  [default: in memory only]",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 picks a free port."
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A further host name or address that clients use for this hub. May be given several times.",
)
@click.option(
    "--kubeconfig-out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the administrator's kubeconfig.  [default: in DIR, or a temporary file]",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help='Static bearer tokens, one per line: token,user,uid,"group1,group2".',
)
@click.option(
    "--crds/--no-crds", default=True, show_default=True, help="Bring OCM's and Fairway's kinds along."
)
@click.option(
    "--without",
    multiple=True,
    type=click.Choice(sorted(controllers.ALL)),
    metavar="PART",
    help=f"Leave to another program, such as kube-controller-manager, one of {', '.join(sorted(controllers.ALL))}. "
    "May be given several times.",
)
@click.option(
    "--audit-log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the audit log.  [default: in DIR, or nowhere]",
)
@click.option(
    "--durability",
    type=click.Choice(["full", "normal"]),
    default="full",
    show_default=True,
    help="full: what was acknowledged survives a power cut; normal: it survives the end of the process.",
)
@click.option("-v", "--verbose", is_flag=True, help="Also log what is not a warning.")
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

    It serves TLS and keeps to RBAC. Its log goes to stderr, and Ctrl-C or SIGTERM stops it.
    """
    if context.invoked_subcommand is not None:
        refuse_misplaced(context, MISPLACED)
        return
    # Imported here, so that `fairway --help` doesn't wait for a web server.
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
