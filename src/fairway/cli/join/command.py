"""`fairway join`: a klusterlet as a process. Its subcommands create tokens, leave a hub, and forget a cluster."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.hub.command import SubcommandGroup
from fairway.cli.join.forget import forget
from fairway.cli.join.leave import leave
from fairway.cli.join.options import TOKEN_VARIABLE, BootstrapChoice, cluster_options, state_option
from fairway.cli.join.token import token
from fairway.cli.options.logs import log_options
from fairway.cli.options.misplaced import refuse_misplaced
from fairway.observe import logs

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
@click.pass_context
def join(
    context: click.Context,
    name: str | None,
    hub_bootstrap_kubeconfig: Path | None,
    hub_server: str | None,
    hub_token: str | None,
    hub_ca: Path | None,
    hub_ca_data: str | None,
    cluster_url: str | None,
    lease_seconds: int,
    certificate_seconds: int | None,
    renew_left: int,
    local_agents: bool,
    log_format: logs.Format,
    log_level: str,
    state: Path | None,
    kubeconfig: str | None,
    cluster_context: str | None,
) -> None:
    """Join a cluster to a hub: register it, renew its certificate and Lease, report its status, apply its works.

    In a fleet that runs OCM, its klusterlet does this. This one needs no pods, so hub and clusters can be processes
    of one machine.
    """
    if context.invoked_subcommand is not None:
        refuse_misplaced(context)
        return
    from fairway.cli.join import process

    bootstrap = BootstrapChoice(
        kubeconfig=hub_bootstrap_kubeconfig,
        server=hub_server,
        token=hub_token,
        authority=hub_ca,
        authority_data=hub_ca_data,
    )
    settings = process.Settings(
        name=process.check_name(name),
        bootstrap=bootstrap,
        kubeconfig=kubeconfig,
        context=cluster_context,
        state=state,
        url=cluster_url,
        lease_seconds=lease_seconds,
        certificate_seconds=certificate_seconds,
        renew_left=renew_left,
        local_agents=local_agents,
    )
    logs.configure(format=log_format, level=log_level)
    process.serve(settings)


join.add_command(token)
join.add_command(leave)
join.add_command(forget)
