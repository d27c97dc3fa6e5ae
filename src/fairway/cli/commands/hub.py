"""Declaration of `fairway hub`: its options and its help."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.groups import SubcommandGroup
from fairway.cli.options.misplaced import without_subcommand
from fairway.cli.options.output import output_option
from kubehub import controllers

PORT: Final = 6443


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
@without_subcommand
@runs("fairway.cli.hub.run:hub")
def hub() -> None:
    """Run an embedded Kubernetes API server: for development, tests, demos and small installations.

    It serves TLS and enforces RBAC. It logs to stderr, and stops on Ctrl-C or SIGTERM.
    """


@hub.command(
    short_help="Back up a hub's data, also while it runs.",
    epilog="""\b
Examples:
  fairway hub backup --data ./hub --out hub.backup          everything, for `fairway hub restore`
  fairway hub backup --data ./hub --out hub.backup --force  replace the last one
  fairway hub backup --data ./hub --out hub.yaml            manifests, for `kubectl apply`
  fairway hub backup --data ./hub --out moved/ --format manifests
  fairway hub backup --data ./hub --out - --format manifests | kubectl diff -f -

A backup contains the hub's keys, and manifests contain its Secrets: both files are readable by you only.
""",
)
@click.option(
    "--data",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The hub's folder.",
)
@click.option(
    "--out",
    required=True,
    metavar="FILE|DIR/",
    help="File to write. Manifests can be written to standard output (-), or to a folder with separate files for "
    "definitions, objects and status.",
)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["data", "manifests"]),
    help="data: objects with history, and keys; manifests: objects for another hub.  "
    "[default: manifests for a name ending in .yaml, .yml or .json, otherwise data]",
)
@click.option("--status", is_flag=True, help="With --format manifests, include the status of objects.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output_option
@runs("fairway.cli.hub.data:backup")
def backup() -> None:
    """Back up a hub: all data and keys for `fairway hub restore`, or its objects as manifests for another hub."""


@hub.command(
    short_help="Restore a backup.",
    epilog="""\b
Examples:
  fairway hub restore hub.backup --data ./hub
  fairway hub restore hub.backup --data ./hub --force       replace existing data

The restored hub continues at a much higher revision, so every watch starts over. A backup can be restored repeatedly.
""",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--data",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder for `fairway hub --data`; created if missing.",
)
@click.option("--force", is_flag=True, help="Replace existing data.")
@output_option
@runs("fairway.cli.hub.data:restore")
def restore() -> None:
    """Restore the objects and keys of a backup FILE into a folder."""


@hub.command(
    short_help="Check a folder or a backup for damage.",
    epilog="""\b
Examples:
  fairway hub check --data ./hub                            also while it runs
  fairway hub check hub.backup -o json

Exit status: 0 no damage, 1 damage found, 2 cannot read.
""",
)
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--data",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The hub's folder.",
)
@output_option
@runs("fairway.cli.hub.data:check")
def check() -> None:
    """Read all data of a folder or a backup FILE, and list the problems."""


@hub.command(
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
@runs("fairway.cli.hub.pki:renew_pki")
def renew_pki() -> None:
    """Replace the certificate authority and the key of service account tokens, if missing or unusable.

    Expiring certificates need no command: a running hub renews them.
    """
