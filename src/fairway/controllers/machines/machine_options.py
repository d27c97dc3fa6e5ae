"""What a process has for virtual machines: settings from its profiles, a recorder and metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fairway.controllers.machines.permit_metrics import PermitMetrics
from fairway.engine.profile import Enabled, ProfileSpec
from fairway.kube import Recorder
from fairway.machines.policy import PolicyError
from fairway.machines.settings import MachineSettings, machine_settings
from fairway.plugins.pods.vm_scaling import NAME

DIFFERENT: Final = (
    "profiles {first} and {second} have different arguments of {plugin}: write the same in each, because all pods "
    "share the nodes"
)

EXTENDED_POINTS: Final[Mapping[str, tuple[Enabled, ...]]] = {
    **dict.fromkeys(("PreFilter", "Filter", "PostFilter", "PreScore", "Reserve"), (Enabled(NAME),)),
    "Score": (Enabled(NAME, 1),),
}
"""Where every profile of pods has the plugin VirtualMachineAutoscaling: a profile without it would give away room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineOptions:
    settings: MachineSettings
    recorder: Recorder
    metrics: PermitMetrics
    kinds: frozenset[str] | None = None
    """Kinds of virtual machines that the hub serves; None to follow their definitions."""


def settings_of(specs: Mapping[str, ProfileSpec]) -> MachineSettings:
    """Return the settings that the profiles share. Raises PolicyError."""
    found = [(name, spec.args[NAME]) for name, spec in specs.items() if NAME in spec.args]
    for name, args in found[1:]:
        if args != found[0][1]:
            raise PolicyError(DIFFERENT.format(first=found[0][0], second=name, plugin=NAME))
    return machine_settings(found[0][1] if found else None)
