"""`fairway agent`: the add-on's agent, which runs on a managed cluster and publishes its scores on the hub."""

from pathlib import Path

from fairway.cli.agent.process import Job, serve
from fairway.controllers.serving import Address
from fairway.observe import logs


def run(
    hub_kubeconfig: str,
    cluster_name: str,
    kubeconfig: str | None,
    context: str | None,
    providers: tuple[str, ...],
    config: Path | None,
    interval: float | None,
    valid_for: float | None,
    adopt: bool,
    managed_cluster_scores: bool,
    addon_name: str,
    addon_namespace: str | None,
    lease: bool,
    confined_to: Path | None,
    log_format: logs.Format,
    log_level: str,
    health_address: Address | None,
    metrics_address: Address | None,
) -> None:
    logs.configure(format=log_format, level=log_level)
    serve(
        Job(
            hub_kubeconfig=Path(hub_kubeconfig),
            cluster=cluster_name,
            kubeconfig=kubeconfig,
            context=context,
            providers=providers,
            config=config,
            interval=interval,
            valid_for=valid_for,
            adopt=adopt,
            managed_cluster_scores=managed_cluster_scores,
            add_on=addon_name,
            namespace=addon_namespace,
            lease=lease,
            confined_to=confined_to,
            health=health_address,
            metrics=metrics_address,
        )
    )
