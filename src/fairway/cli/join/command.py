"""`fairway join`: a small stand-in for OCM's klusterlet. The commands below it begin and end a membership."""

from pathlib import Path
from typing import Final

import click

from fairway.cli.hub.command import DataGroup
from fairway.cli.join.forget import forget
from fairway.cli.join.leave import leave
from fairway.cli.join.options import (
    MISPLACED,
    TOKEN_VARIABLE,
    BootstrapChoice,
    cluster_options,
    state_option,
)
from fairway.cli.join.token import token
from fairway.cli.options.logs import log_options
from fairway.cli.options.misplaced import refuse_misplaced
from fairway.observe import logs

LEASE_SECONDS: Final = 60
RENEW_LEFT: Final = 20
SHORTEST_CERTIFICATE: Final = 600
"""Seconds; Kubernetes signs none that are shorter."""


A_NAME: Final = "a cluster is named with --name {name}"


class JoinGroup(DataGroup):
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
    short_help="Join a cluster to a hub, and look after it there.",
    epilog="""\b
Examples:
  fairway join token --name c1                    on the hub: prints the line to run for the cluster
  fairway join --name c1 --hub-bootstrap-kubeconfig hub.kubeconfig --kubeconfig c1.kubeconfig
  FAIRWAY_HUB_TOKEN=TOKEN fairway join --name c1 --hub-server https://hub:6443 --hub-ca ca.crt
  fairway join --name c1                          goes on with the identity it has
  fairway accept c1                               on the hub: lets it in
  fairway join leave --name c1
  fairway join forget c1                          on the hub: lets go of what waits for a cluster that is gone

\b
It runs until Ctrl-C or SIGTERM, and goes on where it was when it is started again.
Exit status: 0 told to stop, 1 the hub refused or removed the cluster, 2 bad input, or no hub to talk to.
""",
)
@click.option("--name", metavar="NAME", help="The cluster's name on the hub.")
@click.option(
    "--hub-bootstrap-kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="How to reach the hub the first time.",
)
@click.option("--hub-server", metavar="URL", help="The same, without a kubeconfig: the hub's address.")
@click.option(
    "--hub-token",
    metavar="TOKEN",
    envvar=TOKEN_VARIABLE,
    show_envvar=True,
    help="A token that may introduce clusters; `fairway join token` makes one. Every user of this machine can see it "
    "here; the variable, nobody else can.",
)
@click.option(
    "--hub-ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The authority that signed the hub's certificate.  [default: the system's]",
)
@click.option("--hub-ca-data", metavar="BASE64", help="The same, as text.")
@click.option(
    "--cluster-url",
    metavar="URL",
    help="Where the hub's users reach the cluster's API.  [default: where this command does]",
)
@click.option(
    "--lease-seconds",
    type=click.IntRange(1, 86_400),
    default=LEASE_SECONDS,
    show_default=True,
    help="How often a new cluster gives a sign of life; five times as long without one, and it counts as lost.",
)
@click.option(
    "--certificate-seconds",
    type=click.IntRange(SHORTEST_CERTIFICATE, 2**31 - 1),
    metavar="NUMBER",
    help="How long certificates shall live.  [default: as long as the hub likes]",
)
@click.option(
    "--renew-left",
    type=click.IntRange(1, 90),
    default=RENEW_LEFT,
    show_default=True,
    metavar="PERCENT",
    help="Renew a certificate when so much of its life is left.",
)
@click.option(
    "--local-agents",
    is_flag=True,
    help="Run agents of add-ons as processes beside this one, where no kubelet runs them.",
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
    """Join a cluster to a hub: register it, renew its certificate and lease, report what it has, apply its work.

    On a fleet that runs OCM its own klusterlet does all this. This one needs no pods, so hub and clusters can be
    processes of one machine.
    """
    if context.invoked_subcommand is not None:
        refuse_misplaced(context, MISPLACED)
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
        name=process.checked_name(name),
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
