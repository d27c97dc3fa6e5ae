"""The settings of virtual machines in a scheduler configuration."""

from pathlib import Path

from fairway.cli.errors import BadInputError
from fairway.cli.scheduling import load_pod_scheduling
from fairway.controllers.machines.options import settings_of
from fairway.scheduling import Scheduling
from fairway.workloads.machines.policy import PolicyError
from fairway.workloads.machines.settings import MachineSettings


def load_settings(path: Path | None) -> MachineSettings:
    """Raises BadInputError."""
    return MachineSettings() if path is None else settings_in(load_pod_scheduling(path))


def settings_in(scheduling: Scheduling) -> MachineSettings:
    """Raises BadInputError."""
    try:
        return settings_of(scheduling.specs)
    except PolicyError as error:
        raise BadInputError(str(error)) from None
