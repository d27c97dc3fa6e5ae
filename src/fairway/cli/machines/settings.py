"""The settings of virtual machines in a scheduler configuration."""

from pathlib import Path
from typing import TYPE_CHECKING

from fairway.cli.errors import BadInputError
from fairway.cli.options.scheduler import load_pod_scheduling

if TYPE_CHECKING:
    from fairway.machines.settings import MachineSettings
    from fairway.scheduling import Scheduling


def load_settings(path: Path | None) -> "MachineSettings":
    """Raises BadInputError."""
    from fairway.machines.settings import MachineSettings

    return MachineSettings() if path is None else settings_in(load_pod_scheduling(path))


def settings_in(scheduling: "Scheduling") -> "MachineSettings":
    """Raises BadInputError."""
    from fairway.controllers.machines.machine_options import settings_of
    from fairway.machines.policy import PolicyError

    try:
        return settings_of(scheduling.specs)
    except PolicyError as error:
        raise BadInputError(str(error)) from None
