"""Declaration of `fairway join`: its options and its help."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.lazy import runs
from fairway.cli.options.dry_run import dry_run_option
from fairway.cli.options.groups import SubcommandGroup
from fairway.cli.options.hub import hub_options
from fairway.cli.options.join import TOKEN_VARIABLE, cluster_options, state_option
from fairway.cli.options.logs import log_options
from fairway.cli.options.misplaced import without_subcommand
from fairway.cli.options.names import complete
from fairway.cli.options.output import output_option

LEASE_SECONDS: Final = 60
RENEW_LEFT: Final = 20
SHORTEST_CERTIFICATE: Final = 600
"""Seconds; the minimum that Kubernetes signs."""
A_NAME: Final = "to name a cluster, use --name {name}"


class JoinGroup(SubcommandGroup):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if ctx.params.get("name") is not None:
                raise
            hint = A_NAME.format(name=args[0])
            raise click.UsageError(f"{error.message.rstrip('.')}; {hint}", ctx) from None


@click.group(
    cls=JoinGroup,
    invoke_without_command=True,
    short_help="Join a cluster to a hub, and run its klusterlet.",
    epilog="""\b
Examples:
  fairway join token --name c1                    on the hub: print the command that joins the cluster
  fairway join --name c1 --hub-bootstrap-kubeconfig hub.kubeconfig --kubeconfig c1.kubeconfig
  FAIRWAY_HUB_TOKEN=TOKEN fairway join --name c1 --hub-server https://hub:6443 --hub-ca ca.crt
  fairway join --name c1                          continue with the stored identity
  fairway accept c1                               on the hub: accept the cluster
  fairway join leave --name c1
  fairway join forget c1                          on the hub: release the works of a lost cluster

\b
It runs until Ctrl-C or SIGTERM, and continues when it is started again.
Exit status: 0 stopped, 1 the hub rejected or removed the cluster, 2 bad input, or the hub is unreachable.
""",
)
@click.option("--name", metavar="NAME", help="Name of the cluster on the hub.")
@click.option(
    "--hub-bootstrap-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Kubeconfig of a bootstrap identity on the hub, for the first start.",
)
@click.option("--hub-server", metavar="URL", help="URL of the hub, instead of a bootstrap kubeconfig.")
@click.option(
    "--hub-token",
    metavar="TOKEN",
    envvar=TOKEN_VARIABLE,
    show_envvar=True,
    help="Bootstrap token from `fairway join token`. Visible in the process list; prefer the environment variable.",
)
@click.option(
    "--hub-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Certificate authority of the hub.  [default: the system's]",
)
@click.option("--hub-ca-data", metavar="BASE64", help="Certificate authority of the hub, in base64.")
@click.option(
    "--cluster-url",
    metavar="URL",
    help="URL of the cluster's API for users of the hub.  [default: the one of the kubeconfig]",
)
@click.option(
    "--lease-seconds",
    type=click.IntRange(1, 86_400),
    default=LEASE_SECONDS,
    show_default=True,
    help="Lease duration of a new cluster; without a renewal for five durations, the cluster is unreachable.",
)
@click.option(
    "--certificate-seconds",
    type=click.IntRange(SHORTEST_CERTIFICATE, 2**31 - 1),
    metavar="NUMBER",
    help="Requested lifetime of certificates, in seconds.  [default: the hub's]",
)
@click.option(
    "--renew-left",
    type=click.IntRange(1, 90),
    default=RENEW_LEFT,
    show_default=True,
    metavar="PERCENT",
    help="Renew a certificate when this share of its lifetime is left.",
)
@click.option(
    "--local-agents",
    is_flag=True,
    help="Run add-on agents as local processes, for clusters without a kubelet.",
)
@log_options(level="warning")
@state_option
@cluster_options
@without_subcommand
@runs("fairway.cli.join.run:join")
def join() -> None:
    """Join a cluster to a hub: register it, renew its certificate and Lease, report its status, apply its works.

    In a fleet that runs OCM, its klusterlet does this. This one needs no pods, so hub and clusters can be processes
    of one machine.
    """


PLACEHOLDER: Final = "CLUSTER"
HOURS: Final = 24


@join.command(
    short_help="On the hub: create a token for joining clusters.",
    epilog="""\b
Examples:
  fairway join token --name c1
  fairway join token --out bootstrap.kubeconfig
  fairway join token --hours 1 -o json
""",
)
@click.option(
    "--name",
    default=PLACEHOLDER,
    metavar="NAME",
    help="Name of the joining cluster, for the printed command.",
)
@click.option(
    "--hours", type=click.IntRange(1, 8760), default=HOURS, show_default=True, help="Lifetime of the token."
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the token as a kubeconfig instead of printing it.",
)
@output_option
@hub_options
@runs("fairway.cli.join.token:token")
def token() -> None:
    """Create a bootstrap token for joining clusters, and print the command that joins one.

    With the token a cluster can request to join; `fairway accept` accepts it.
    """


@join.command(
    short_help="Remove a cluster from its hub.",
    epilog="""\b
Examples:
  fairway join leave --name c1
  fairway join leave --name c1 --state ./c1 --kubeconfig c1.kubeconfig

\b
Objects of ManifestWorks are removed from the cluster, too.
Exit status: 0 done, 2 bad input, or the cluster is unreachable.
""",
)
@click.option("--name", required=True, metavar="NAME", help="Name of the cluster on the hub.")
@state_option
@cluster_options
@output_option
@runs("fairway.cli.join.leave:leave")
def leave() -> None:
    """Remove everything that joining created on a cluster, and delete its identity.

    Objects on the hub are kept, because deleting them needs permissions there; the commands are printed.
    """


@join.command(
    short_help="On the hub: release the add-ons and works of a lost cluster.",
    epilog="""\b
Examples:
  fairway join forget c1 --dry-run
  fairway join forget c1

\b
A deleted ManifestWork remains until the cluster's agent has removed its objects, and an add-on until its pre-delete
Job has run there. If the cluster is lost, they, the ManagedCluster and its namespace remain forever.
Exit status: 0 all works released, 1 the cluster is still a member, or works are left, 2 bad input.
""",
)
@click.argument("name", metavar="CLUSTER", shell_complete=complete("namespaces"))
@dry_run_option
@output_option
@hub_options
@runs("fairway.cli.join.forget:forget")
def forget() -> None:
    """Release the deleted add-ons and ManifestWorks of a cluster that was removed from the hub and will not return.

    For a running cluster use `fairway join leave`, which also removes the objects of the works.
    """
