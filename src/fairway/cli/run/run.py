"""`fairway run`: run controllers against an existing hub."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from fairway.cli.history.recording import recording
from fairway.cli.options.controllers import (
    require_acceptance,
)
from fairway.cli.options.history import OFF
from fairway.cli.options.hub import HubChoice
from fairway.cli.options.serving import Listening
from fairway.cli.run.config import configured
from fairway.cli.run.process import serve
from fairway.cli.scheduling import load_used_scheduling
from fairway.controllers.placement.shard import Shard
from fairway.controllers.settings import MACHINES, PLACEMENT, Settings
from fairway.observe import logs
from kubewire.client import Timing
from kubewire.client.leader import unique_identity

POD_VARIABLE: Final = "POD_NAME"
"""Prefix of the identity in Leases, which shows the leading pod."""
SHADOW_OF_NOTHING: Final = "--shadow requires the controller 'placement'"
PERMITS_OF_NOTHING: Final = "{option} requires the controller 'machines': add --controllers=+machines"
IDENTITY_OF_NOBODY: Final = "--identity and --no-leader-elect exclude each other"


def share(text: str | Shard) -> Shard:
    if isinstance(text, Shard):
        return text
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def run(
    controllers: frozenset[str],
    config: Path | None,
    scheduler_config: Path | None,
    leader_elect: bool,
    lease_namespace: str,
    lease_duration: int,
    identity: str | None,
    shard: Shard,
    shadow: bool,
    beside_ocm: bool,
    ocm_namespace: str,
    workers: int,
    grace: float,
    default_set: bool,
    auto_approve_users: frozenset[str],
    history: str | None,
    history_size: int,
    history_age: float | None,
    log_format: logs.Format,
    log_level: str,
    listening: Listening,
    hub: HubChoice,
) -> None:
    if shadow and PLACEMENT not in controllers:
        raise click.UsageError(SHADOW_OF_NOTHING)
    if identity is not None and not leader_elect:
        raise click.UsageError(IDENTITY_OF_NOBODY)
    require_acceptance(auto_approve_users, controllers)
    machines = MACHINES in controllers
    for option, permits in (
        ("--permit-address", listening.permits),
        ("--insecure-permit-address", listening.insecure_permits),
    ):
        if permits is not None and not machines:
            raise click.UsageError(PERMITS_OF_NOTHING.format(option=option))
    settings = Settings(
        controllers=controllers,
        election=Timing.of_lease(lease_duration) if leader_elect else None,
        identity=identity or unique_identity(os.environ.get(POD_VARIABLE, "")),
        namespace=lease_namespace,
        shard=shard,
        shadow=shadow,
        beside_ocm=beside_ocm,
        ocm_namespace=ocm_namespace,
        workers=workers,
        grace=grace,
        default_label=default_set,
        auto_approve_users=auto_approve_users,
        scheduling=load_used_scheduling(scheduler_config, pods=machines),
    )
    logs.configure(format=log_format, level=log_level)
    if config is not None:
        settings = configured(settings, config)
    with recording(
        OFF if shadow else history, size=history_size, age=history_age, scheduler_config=scheduler_config
    ) as recorder:
        serve(hub, replace(settings, history=recorder), listening)
