"""Settings of virtual machines, as they are written in the arguments of the plugin VirtualMachineAutoscaling.

    pluginConfig:
    - name: VirtualMachineAutoscaling
      args:
        watermark: 0.9
        growTogether: false
        migration: {migrator: NeonVM, maxPerSourceNode: 2, cooldownSeconds: 300}

``scoring`` belongs to the plugin itself; everything else is a ``MachinePolicy``.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairway.api.pod_requests import CPU, MEMORY
from fairway.hosts.instant import SECOND
from fairway.workloads.machines.policy import MachinePolicy, PolicyError

NEONVM: Final = "NeonVM"
"""Machines move with what runs them, those of KubeVirt included."""
NO_MIGRATOR: Final = "None"
"""Machines never move."""
MIGRATORS: Final = (NEONVM, NO_MIGRATOR)

UNKNOWN: Final = "{path} is unknown{hint}"
DID_YOU_MEAN: Final = "; did you mean {near}?"
KNOWN_ARE: Final = "; known settings are {known}"
WRONG_TYPE: Final = "{path} must be {expected}; got {given!r}"
OUT_OF_RANGE: Final = "{path} must be {expected}; got {given}"
WRONG_WORD: Final = "{path} must be one of {known}; got {given!r}"
CPU_AND_MEMORY: Final = "resources must include {needed}: permits have both; got {given}"

_LONGEST_SECONDS: Final = 31_536_000
_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineSettings:
    policy: MachinePolicy = field(default_factory=MachinePolicy)
    resources: tuple[str, ...] = (CPU, MEMORY)
    """The resources that the ledger of machines counts: those of the compute unit."""
    plugin: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of the plugin itself."""

    def without_migrations(self) -> "MachineSettings":
        """Return settings with which no migration starts; those under way continue."""
        policy = replace(self.policy, for_demand=False, for_pressure=False)
        return replace(self, policy=policy)


def machine_settings(args: Mapping[str, Any] | None) -> MachineSettings:
    """Check and convert arguments. Raises PolicyError, which names the field and what to write."""
    args = args or {}
    _check_names("", args, ("watermark", "growTogether", "resources", "scoring", "migration"))
    changes: dict[str, Any] = {}
    plugin: dict[str, Any] = {}
    if "watermark" in args:
        watermark = _number("watermark", args["watermark"])
        changes["watermark"] = round(watermark * 1000)
        if not 1 <= changes["watermark"] <= 1000:
            expected = "at least 0.001, and at most 1"
            raise PolicyError(OUT_OF_RANGE.format(path="watermark", expected=expected, given=watermark))
        plugin["watermark"] = watermark
    if "growTogether" in args:
        changes["together"] = _flag("growTogether", args["growTogether"])
    resources = _resources(args["resources"]) if "resources" in args else (CPU, MEMORY)
    plugin["resources"] = resources
    if "scoring" in args:
        plugin["scoring"] = _mapping("scoring", args["scoring"])
    migration = _mapping("migration", args.get("migration") or {})
    _check_names("migration.", migration, ("migrator", *_FIELDS))
    for name, value in migration.items():
        if name != "migrator":
            target, convert = _FIELDS[name]
            changes[target] = convert(f"migration.{name}", value)
    migrator = migration.get("migrator", NEONVM)
    if migrator not in MIGRATORS:
        raise PolicyError(
            WRONG_WORD.format(path="migration.migrator", known=", ".join(MIGRATORS), given=migrator)
        )
    if migrator == NO_MIGRATOR:
        changes |= {"for_demand": False, "for_pressure": False}
    return MachineSettings(policy=MachinePolicy(**changes), resources=resources, plugin=plugin)


def _seconds(path: str, value: object) -> int:
    seconds = _number(path, value)
    if not 0 <= seconds <= _LONGEST_SECONDS:
        expected = f"from 0 to {_LONGEST_SECONDS} seconds"
        raise PolicyError(OUT_OF_RANGE.format(path=path, expected=expected, given=seconds))
    return round(seconds * SECOND)


def _timeout(path: str, value: object) -> int:
    micros = _seconds(path, value)
    if not micros:
        raise PolicyError(OUT_OF_RANGE.format(path=path, expected="greater than 0 seconds", given=value))
    return micros


def _count(path: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise PolicyError(WRONG_TYPE.format(path=path, expected="a whole number", given=value))
    if not 1 <= value <= _MOST:
        raise PolicyError(OUT_OF_RANGE.format(path=path, expected=f"from 1 to {_MOST}", given=value))
    return value


def _flag(path: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise PolicyError(WRONG_TYPE.format(path=path, expected="true or false", given=value))
    return value


_FIELDS: Final[Mapping[str, tuple[str, Callable[[str, object], Any]]]] = {
    "onDemand": ("for_demand", _flag),
    "onPressure": ("for_pressure", _flag),
    "maxPerSourceNode": ("per_source", _count),
    "maxPerTargetNode": ("per_target", _count),
    "maxInFleet": ("per_fleet", _count),
    "cooldownSeconds": ("cooldown", _seconds),
    "pressureDelaySeconds": ("pressure_delay", _seconds),
    "settleDelaySeconds": ("settle_delay", _seconds),
    "targetTimeoutSeconds": ("target_timeout", _timeout),
    "copyTimeoutSeconds": ("copy_timeout", _timeout),
    "abortTimeoutSeconds": ("abort_timeout", _timeout),
    "backoffSeconds": ("backoff", _seconds),
    "maxBackoffSeconds": ("most_backoff", _seconds),
    "preventSameNode": ("prevent_same_host", _flag),
    "preemptEarmarks": ("preempt_earmarks", _flag),
    "oldestFirst": ("oldest_first", _flag),
}
"""Fields of ``migration``: the field of MachinePolicy, and the check."""


def _number(path: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise PolicyError(WRONG_TYPE.format(path=path, expected="a number", given=value))
    return value


def _mapping(path: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PolicyError(WRONG_TYPE.format(path=path, expected="a mapping", given=value))
    return value


def _resources(value: object) -> tuple[str, ...]:
    if (
        not isinstance(value, Sequence)
        or isinstance(value, str)
        or not all(isinstance(resource, str) for resource in value)
    ):
        raise PolicyError(WRONG_TYPE.format(path="resources", expected="a list of names", given=value))
    if not {CPU, MEMORY} <= set(value):
        given = ", ".join(value) or "none"
        raise PolicyError(CPU_AND_MEMORY.format(needed=f"{CPU} and {MEMORY}", given=given))
    return tuple(dict.fromkeys(value))


def _check_names(prefix: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = (
                DID_YOU_MEAN.format(near=f"{prefix}{near[0]}")
                if near
                else KNOWN_ARE.format(known=", ".join(known))
            )
            raise PolicyError(UNKNOWN.format(path=f"{prefix}{name}", hint=hint))
