"""Options of the server that grants permits to the agents of virtual machines."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from fairway.cli.lazy import parsed_by
from fairway.cli.options.serving import OFF

if TYPE_CHECKING:
    from fairway.controllers.machines.agent_addresses import AgentSelector
    from fairway.controllers.serving.address import Address

NEONVM_AGENTS: Final = "kube-system/name=autoscaler-agent"
"""The pods of NeonVM's own manifests."""
AUDIENCE: Final = "fairway.dev/permits"
WITHOUT_ADDRESS: Final = "{option} requires --permit-address"

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class PermitListening:
    address: "Address"
    client_ca: Path | None = None
    audiences: tuple[str, ...] = (AUDIENCE,)
    cluster_wide: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class InsecurePermitListening:
    """Plain HTTP, for agents that their address identifies."""

    address: "Address"
    agents: "AgentSelector"


def permit_options(command: _Command) -> _Command:
    """Add the options of the permit server, a part of `listening`: write it above `serving_options`."""

    @wraps(command)
    def gathered(
        *arguments: Any,
        permit_address: "Address | None",
        permit_client_ca: Path | None,
        permit_audience: tuple[str, ...],
        permit_agent: tuple[str, ...],
        insecure_permit_address: "Address | None",
        insecure_permit_agents: "AgentSelector",
        **options: Any,
    ) -> Any:
        permits = None
        if permit_address is not None:
            permits = PermitListening(
                address=permit_address,
                client_ca=permit_client_ca,
                audiences=permit_audience or (AUDIENCE,),
                cluster_wide=frozenset(permit_agent),
            )
        for option, given in (
            ("--permit-client-ca", permit_client_ca),
            ("--permit-audience", permit_audience),
            ("--permit-agent", permit_agent),
        ):
            if given and permits is None:
                raise click.UsageError(WITHOUT_ADDRESS.format(option=option))
        insecure = None
        if insecure_permit_address is not None:
            insecure = InsecurePermitListening(address=insecure_permit_address, agents=insecure_permit_agents)
        return command(*arguments, permits=permits, insecure_permits=insecure, **options)

    wrapped = cast("_Command", gathered)
    for option in (
        click.option(
            "--insecure-permit-agents",
            type=parsed_by("fairway.cli.addresses:agent_selector"),
            default=NEONVM_AGENTS,
            show_default=True,
            metavar="NAMESPACE/LABEL=VALUE",
            help="Pods that --insecure-permit-address takes for agents.",
        ),
        click.option(
            "--insecure-permit-address",
            type=parsed_by("fairway.cli.addresses:internal_address"),
            default=OFF,
            metavar="IP:PORT",
            help="Serve permits also over plain HTTP, to agents that send no credentials, as NeonVM's do. The source "
            "address must be that of an agent's pod on the node of the machine; read the documentation about the "
            f"risk. Only the address of a pod or of this machine.  [default: {OFF}]",
        ),
        click.option(
            "--permit-agent",
            multiple=True,
            metavar="USER",
            help="User that may request permits for the pods on every node; can be given several times.  "
            "[default: agents must prove their node]",
        ),
        click.option(
            "--permit-audience",
            multiple=True,
            metavar="NAME",
            help=f"Audience that tokens of agents must have; can be given several times.  [default: {AUDIENCE}]",
        ),
        click.option(
            "--permit-client-ca",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="Certificate authority of the nodes' client certificates, system:node:NAME.  "
            "[default: agents have tokens only]",
        ),
        click.option(
            "--permit-address",
            type=parsed_by("fairway.cli.addresses:address"),
            default=OFF,
            metavar="HOST:PORT",
            help="Serve permits to the agents of virtual machines over TLS, with the certificate of --tls-cert; "
            f"requires the controller machines.  [default: {OFF}]",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped
