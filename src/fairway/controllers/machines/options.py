"""What a process has for virtual machines: settings from its profiles, a recorder and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.controllers.machines.permit_metrics import PermitMetrics
from fairway.controllers.runtime.decision_history import DecisionHistory
from fairway.engine.profile import ProfileSpec
from fairway.workloads.machines.policy import PolicyError
from fairway.workloads.machines.settings import MachineSettings, machine_settings
from fairway.workloads.pods.plugins.vm_scaling import NAME
from kubewire.client import Recorder

DIFFERENT: Final = (
    "profiles {first} and {second} have different arguments of {plugin}: write the same in each, because all pods "
    "share the nodes"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    settings: MachineSettings
    recorder: Recorder
    metrics: PermitMetrics
    kinds: frozenset[str] | None = None
    """Kinds of virtual machines that the hub serves; None to follow their definitions."""
    records: bool = True
    """Whether to watch MachineMigrations. Without them, machines stay where they are."""
    history: DecisionHistory | None = None
    """Records which machines move where, and why."""
    configuration: bool = False
    """Whether to watch KubeVirt's configuration. Without it, its default limits apply."""


def settings_of(specs: Mapping[str, ProfileSpec]) -> MachineSettings:
    """Return the settings that the profiles share. Raises PolicyError."""
    arguments = [(name, spec.args[NAME]) for name, spec in specs.items() if NAME in spec.args]
    for name, args in arguments[1:]:
        if args != arguments[0][1]:
            raise PolicyError(DIFFERENT.format(first=arguments[0][0], second=name, plugin=NAME))
    return machine_settings(arguments[0][1] if arguments else None)
