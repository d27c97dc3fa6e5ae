"""`fairway join`: a klusterlet as a process. Its subcommands create tokens, leave a hub, and forget a cluster."""

from pathlib import Path

from fairway.cli.join import process
from fairway.cli.join.bootstrap import BootstrapChoice
from fairway.observe import logs


def join(
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
