"""Arguments of the plugins for pods, in the form of kube-scheduler's configuration, such as NodeResourcesFitArgs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from fairway.api.pod_affinity import (
    DO_NOT_SCHEDULE,
    SCHEDULE_ANYWAY,
    NodeAffinity,
    TopologySpreadConstraint,
)
from fairway.scheduling.configuration import (
    KNOWN,
    NEAR,
    UNKNOWN_FIELD,
    WRITE,
    WRONG_WORD,
    PluginArgs,
    Problem,
    Steps,
)
from fairway.scheduling.kube_configuration import API_VERSION
from fairway.workloads.machines.settings import machine_settings
from fairway.workloads.pods.plugins.vm_scaling import NAME as MACHINES
from fairway.workloads.pods.plugins.vm_scaling import VirtualMachineAutoscaling

IGNORED: Final = "has no effect: {reason}"
NO_VOLUMES_SCORED: Final = "Fairway does not score nodes by their volumes, as kube-scheduler 1.36 by default"
NOTHING_ALLOCATED: Final = "pods with resourceClaims are rejected"
BAD_TIMEOUT: Final = "must not be negative; got {given}"
GROUPS_NOT_DELAYED: Final = "the pods of a group that gave up have the back-off of every pod"
WITH_SYSTEM: Final = "must be empty because defaultingType is System"
WITH_SYSTEM_REMEDY: Final = "write defaultingType: List"
NO_KEY: Final = "must name a label of nodes"
NO_SKEW: Final = "must be greater than 0; got {given}"
NO_ACTION: Final = "must be DoNotSchedule or ScheduleAnyway; got {given!r}"
NO_SELECTOR: Final = "must be absent: the constraint counts the pods of the pod's Services and controller"
DUPLICATE: Final = "duplicate constraint on {key} with {action}"
WEIGHT_OF_BALANCE: Final = "must be 1; got {given}"


class _Args(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    api_version: str = API_VERSION
    kind: str = ""


class _Resource(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str
    weight: int = 1


class _Point(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    utilization: int = 0
    score: int = 0


class _Ratio(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    shape: tuple[_Point, ...] = ()


class _Strategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    type: str = "LeastAllocated"
    resources: tuple[_Resource, ...] = ()
    requested_to_capacity_ratio: _Ratio = _Ratio()


class _FitArgs(_Args, frozen=True):
    scoring_strategy: _Strategy = _Strategy()
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()


class _BalancedArgs(_Args, frozen=True):
    resources: tuple[_Resource, ...] = ()


class _SpreadArgs(_Args, frozen=True):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class _InterPodAffinityArgs(_Args, frozen=True):
    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class _NodeAffinityArgs(_Args, frozen=True):
    added_affinity: NodeAffinity = NodeAffinity()


class _PreemptionArgs(_Args, frozen=True):
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class _VolumeBindingArgs(_Args, frozen=True):
    bind_timeout_seconds: int = 600
    shape: tuple[_Point, ...] = ()


class _ResourceClaimArgs(_Args, frozen=True):
    filter_timeout: str | int = ""
    binding_timeout: str | int = ""


class _CoschedulingArgs(_Args, frozen=True):
    permit_waiting_time_seconds: int = 300
    pod_group_backoff_seconds: int = 0


_KINDS: Final[Mapping[str, type[_Args]]] = {
    "NodeResourcesFit": _FitArgs,
    "NodeResourcesBalancedAllocation": _BalancedArgs,
    "PodTopologySpread": _SpreadArgs,
    "InterPodAffinity": _InterPodAffinityArgs,
    "NodeAffinity": _NodeAffinityArgs,
    "DefaultPreemption": _PreemptionArgs,
    "VolumeBinding": _VolumeBindingArgs,
    "DynamicResources": _ResourceClaimArgs,
    "Coscheduling": _CoschedulingArgs,
}
_IGNORED: Final[Mapping[str, Mapping[str, str]]] = {
    "VolumeBinding": {"shape": NO_VOLUMES_SCORED},
    "DynamicResources": dict.fromkeys(("filterTimeout", "bindingTimeout"), NOTHING_ALLOCATED),
    "Coscheduling": {"podGroupBackoffSeconds": GROUPS_NOT_DELAYED},
}
_NOT_PASSED: Final = frozenset({"api_version", "kind"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedArgs:
    args: Mapping[str, Any]
    """Keyword arguments of the plugin."""
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()


def decode_args(plugin_args: PluginArgs) -> DecodedArgs:
    """Check the arguments of a built-in plugin, and rename them to its keyword arguments. Others are not changed."""
    if plugin_args.name == MACHINES:
        return _check_machines(plugin_args)
    kind = _KINDS.get(plugin_args.name)
    if kind is None:
        return DecodedArgs(args=plugin_args.args)
    path = (*plugin_args.path, "args")
    args = _without_nulls(plugin_args.args)
    try:
        decoded = msgspec.convert(args, kind)
    except msgspec.ValidationError as error:
        return DecodedArgs(args={}, problems=(_explain(error, path, kind),))
    expected = f"{plugin_args.name}Args"
    if decoded.kind not in ("", expected):
        message = WRONG_WORD.format(choices=expected, given=decoded.kind)
        remedy = WRITE.format(example=f"kind: {expected}")
        return DecodedArgs(args={}, problems=(Problem(path=(*path, "kind"), message=message, remedy=remedy),))
    ignored = _IGNORED.get(plugin_args.name, {})
    check = _CHECKS.get(plugin_args.name)
    return DecodedArgs(
        args={
            field.name: args[field.encode_name]
            for field in msgspec.structs.fields(kind)
            if field.encode_name in args
            and field.encode_name not in ignored
            and field.name not in _NOT_PASSED
        },
        problems=() if check is None else tuple(check(decoded, path)),
        notes=tuple(
            Problem(path=(*path, name), message=IGNORED.format(reason=ignored[name]))
            for name in args
            if name in ignored
        ),
    )


def _check_machines(plugin_args: PluginArgs) -> DecodedArgs:
    args = _without_nulls(plugin_args.args)
    try:
        machine_settings(args)
        # A profile need not enable the plugin, which the controller adds.
        VirtualMachineAutoscaling(**args)
    except ValueError as error:
        return DecodedArgs(args={}, problems=(Problem(path=(*plugin_args.path, "args"), message=str(error)),))
    return DecodedArgs(args=args)


def _check_spread(args: Any, path: Steps) -> list[Problem]:
    if args.defaulting_type not in ("System", "List"):
        message = WRONG_WORD.format(choices="System or List", given=args.defaulting_type)
        return [Problem(path=(*path, "defaultingType"), message=message)]
    where = (*path, "defaultConstraints")
    if args.default_constraints and args.defaulting_type == "System":
        return [Problem(path=where, message=WITH_SYSTEM, remedy=WITH_SYSTEM_REMEDY)]
    problems: list[Problem] = []
    known: set[tuple[str, str]] = set()
    for at, constraint in enumerate(args.default_constraints):
        key, action = constraint.topologyKey, constraint.whenUnsatisfiable
        wrong = {
            "topologyKey": "" if key else NO_KEY,
            "maxSkew": "" if constraint.maxSkew > 0 else NO_SKEW.format(given=constraint.maxSkew),
            "whenUnsatisfiable": ""
            if action in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
            else NO_ACTION.format(given=action),
            "labelSelector": "" if constraint.labelSelector is None else NO_SELECTOR,
        }
        problems += [Problem(path=(*where, at, field), message=text) for field, text in wrong.items() if text]
        if (key, action) in known:
            problems.append(Problem(path=(*where, at), message=DUPLICATE.format(key=key, action=action)))
        known.add((key, action))
    return problems


def _check_balanced(args: Any, path: Steps) -> list[Problem]:
    return [
        Problem(
            path=(*path, "resources", at, "weight"), message=WEIGHT_OF_BALANCE.format(given=resource.weight)
        )
        for at, resource in enumerate(args.resources)
        if resource.weight != 1
    ]


def _check_volumes(args: Any, path: Steps) -> list[Problem]:
    seconds = args.bind_timeout_seconds
    message = BAD_TIMEOUT.format(given=seconds)
    return [Problem(path=(*path, "bindTimeoutSeconds"), message=message)] if seconds < 0 else []


_CHECKS: Final[Mapping[str, Callable[[Any, Steps], list[Problem]]]] = {
    "PodTopologySpread": _check_spread,
    "NodeResourcesBalancedAllocation": _check_balanced,
    "VolumeBinding": _check_volumes,
}

_AT: Final = re.compile(r"^(?P<message>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_STEP: Final = re.compile(r"\.(\w+)|\[(\d+)\]")
_UNKNOWN: Final = re.compile(r"Object contains unknown field `(?P<field>.*)`")


def _explain(error: msgspec.ValidationError, path: Steps, kind: type[_Args]) -> Problem:
    match = _AT.match(str(error))
    message, where = (match["message"], match["path"] or "") if match else (str(error), "")
    steps = tuple(int(index) if index else name for name, index in _STEP.findall(where))
    unknown = _UNKNOWN.match(message)
    if unknown is None:
        return Problem(path=(*path, *steps), message=message[0].lower() + message[1:].replace("`", ""))
    names = sorted(_names_of(kind))
    near = get_close_matches(unknown["field"], names, n=1)
    remedy = NEAR.format(near=near[0]) if near else KNOWN.format(known=", ".join(names))
    return Problem(path=(*path, *steps, unknown["field"]), message=UNKNOWN_FIELD, remedy=remedy)


def _names_of(kind: type[Any]) -> set[str]:
    """Return the names of all fields, also of nested objects."""
    names: set[str] = set()
    for field in msgspec.structs.fields(kind):
        names.add(field.encode_name)
        args = (field.type, *getattr(field.type, "__args__", ()))
        for nested in args:
            if isinstance(nested, type) and issubclass(nested, msgspec.Struct):
                names |= _names_of(nested)
    return names


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
