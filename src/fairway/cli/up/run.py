"""`fairway up`: the embedded hub, all controllers and an optional synthetic fleet in one process."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from fairway.api import crds
from fairway.api.crd import machine_crds
from fairway.cli.history.recording import recording
from fairway.cli.hub import process
from fairway.cli.options.controllers import (
    require_acceptance,
)
from fairway.cli.options.output import OutputFormat
from fairway.cli.run.config import configured
from fairway.cli.scheduling import load_used_scheduling
from fairway.cli.up import services
from fairway.controllers.settings import MACHINES
from fairway.controllers.settings import Settings as Controllers
from fairway.simulation.creation import SimulationOptions
from fairway.simulation.machines.creation import MachineOptions
from kubehub import Settings

VMS_WITHOUT_NODES: Final = "--vms requires --nodes"


def up(
    data: Path | None,
    port: int,
    host: str,
    names: tuple[str, ...],
    kubeconfig_out: Path | None,
    clusters: int,
    seed: int,
    period: float,
    nodes: int,
    vms: int | None,
    demo: bool,
    controllers: frozenset[str],
    config: Path | None,
    auto_approve_users: frozenset[str],
    scheduler_config: Path | None,
    history: str | None,
    history_size: int,
    history_age: float | None,
    verbose: bool,
    output: OutputFormat,
) -> None:
    if vms and not nodes:
        raise click.UsageError(VMS_WITHOUT_NODES)
    require_acceptance(auto_approve_users, controllers)
    if nodes:
        controllers |= {MACHINES}
    definitions = (*crds(), *(machine_crds() if nodes else ()))
    settings = Settings(folder=data, host=host, port=port, names=names, definitions=definitions)
    options = SimulationOptions(clusters=clusters, seed=seed, period=period)
    synthetic = MachineOptions(nodes=nodes, machines=vms, seed=seed, period=period)
    machines = MACHINES in controllers
    running = Controllers(
        controllers=controllers,
        identity=services.IDENTITY,
        auto_approve_users=auto_approve_users,
        scheduling=load_used_scheduling(scheduler_config, pods=machines),
    )
    if config is not None:
        running = configured(running, config)
    with recording(
        history, size=history_size, age=history_age, scheduler_config=scheduler_config, data=data
    ) as recorder:
        running = replace(running, history=recorder)
        process.serve(
            settings,
            kubeconfig=kubeconfig_out,
            output=output,
            verbose=verbose,
            companion=services.companion(
                options, running, machines=synthetic, demo=demo and output == "table"
            ),
        )
