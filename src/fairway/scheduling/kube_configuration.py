"""The KubeSchedulerConfiguration of kube-scheduler: decoded strictly, and adapted to the plugins that exist here.

A field or plugin without which pods would be placed differently is a problem; one that changes no decision, such as
``parallelism``, is a note. ``KubeDecoder`` reads the document; ``adapt`` then removes what has no effect here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from fairway.scheduling.configuration import (
    MULTI_POINT,
    Decoder,
    Disabled,
    Enabled,
    PluginArgs,
    PluginSet,
    Problem,
    ProfileConfiguration,
    SchedulerConfiguration,
    Steps,
)
from fairway.scheduling.resolution import SCORE, Points

GROUP: Final = "kubescheduler.config.k8s.io"
API_VERSION: Final = f"{GROUP}/v1"
KIND: Final = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER: Final = "default-scheduler"
"""The profile of pods that name no scheduler."""

IGNORED: Final = "has no effect: {reason}"
TAKES_ALL_PODS: Final = (
    "Fairway schedules the pods that name no scheduler; kube-scheduler must not run with this profile as well"
)
TAKES_ALL_PODS_REMEDY: Final = "write another schedulerName to run beside kube-scheduler"
NO_EXTENDERS: Final = "extenders are not called, so that nodes they reject would be used"
NO_EXTENDERS_REMEDY: Final = "write a plugin instead, and remove the extenders"
ABSENT: Final = "plugin {name!r} does not exist here: {reason}"
ABSENT_REMEDY: Final = "remove it; list it under multiPoint.disabled to state that pods do not need it"
REMOVED: Final = "plugin {name!r} does not exist in Kubernetes 1.36 either: {reason}"
REMOVED_REMEDY: Final = "remove it"
RESOURCE_CLAIMS: Final = "DynamicResources"
CLAIMS_REJECTED: Final = "plugin {name!r} only rejects pods with resourceClaims here: they are not allocated"
CLAIMS_REJECTED_REMEDY: Final = "list it under multiPoint.disabled to ignore resourceClaims"
ARGS_IGNORED: Final = "arguments of plugin {name!r} have no effect: it does not exist here"
WEIGHT_IGNORED: Final = "the weight of plugin {name!r} has no effect: it does not score"

_IGNORED: Final[Mapping[str, str]] = {
    "percentageOfNodesToScore": "Fairway scores every node",
    "parallelism": "Fairway evaluates all nodes with array operations",
    "leaderElection": "use the options --leader-elect and --lease-namespace of fairway run",
    "clientConnection": "use --kubeconfig and --context",
    "delayCacheUntilActive": "a standby always keeps its cache up to date",
    "enableProfiling": "Fairway has no profiling endpoint",
    "enableContentionProfiling": "Fairway has no profiling endpoint",
}
"""Fields that change no decision, with the reason."""

_ABSENT: Final[Mapping[str, str]] = {
    "NodeDeclaredFeatures": "features that nodes declare are not compared with those that pods need",
    "GangScheduling": "use Coscheduling, with the label scheduling.x-k8s.io/pod-group",
    "TopologyPlacementGenerator": "pod groups are not placed as a whole",
    "PodGroupPodsCount": "pod groups are not placed as a whole",
}
_REMOVED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"), "NodeVolumeLimits replaced it"
    ),
    **dict.fromkeys(("SelectorSpread", "ServiceAffinity"), "PodTopologySpread replaced it"),
    **dict.fromkeys(("NodeLabel", "NodePreferAvoidPods"), "NodeAffinity and taints replaced it"),
    "NodeResourcesLeastAllocated": "write scoringStrategy of NodeResourcesFit",
    "NodeResourcesMostAllocated": "write scoringStrategy of NodeResourcesFit",
    "RequestedToCapacityRatio": "write scoringStrategy of NodeResourcesFit",
}

_PREPARED: Final = frozenset({"preFilter", "filter", "preScore", "score"})
_KUBE_POINTS: Final[Mapping[str, frozenset[str]]] = {
    "TaintToleration": frozenset({"filter", "preScore", "score"}),
    "NodeAffinity": _PREPARED,
    "NodePorts": frozenset({"preFilter", "filter"}),
    "NodeResourcesFit": _PREPARED,
    "VolumeRestrictions": frozenset({"preFilter", "filter"}),
    "VolumeBinding": _PREPARED | {"reserve", "preBind"},
    "VolumeZone": frozenset({"preFilter", "filter"}),
    "NodeVolumeLimits": frozenset({"preFilter", "filter"}),
    "DynamicResources": _PREPARED | {"preEnqueue", "postFilter", "reserve", "preBind"},
    "PodTopologySpread": _PREPARED,
    "InterPodAffinity": _PREPARED,
    "NodeResourcesBalancedAllocation": frozenset({"preScore", "score"}),
    "DefaultPreemption": frozenset({"preEnqueue", "postFilter"}),
}
"""Where plugins can be enabled in kube-scheduler. Those here need fewer points for the same decision."""


def is_kube_configuration(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    return value.get("kind") == KIND or str(value.get("apiVersion", "")).partition("/")[0] == GROUP


class KubeDecoder(Decoder):
    api_version = API_VERSION
    kind = KIND
    default_profile = DEFAULT_SCHEDULER
    fields = (
        *("apiVersion", "kind", "profiles", "podInitialBackoffSeconds", "podMaxBackoffSeconds", "extenders"),
        *_IGNORED,
    )
    plugin_config_fields = ("name", "args")
    profile_fields = ("schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore")

    def configuration(self, value: object) -> SchedulerConfiguration:
        fields = value if isinstance(value, dict) else {}
        if self._items(fields.get("extenders") or [], ("extenders",)):
            self._report(("extenders",), NO_EXTENDERS, NO_EXTENDERS_REMEDY)
        configuration = super().configuration(value)
        for profile in configuration.profiles:
            if profile.name == DEFAULT_SCHEDULER:
                self._note((*profile.path, "schedulerName"), TAKES_ALL_PODS, TAKES_ALL_PODS_REMEDY)
        return configuration

    def _mapping(self, value: object, path: Steps, known: tuple[str, ...]) -> dict[str, Any]:
        known_fields = super()._mapping(value, path, known)
        if known is self.fields or known is self.profile_fields:
            for key in known_fields.keys() & _IGNORED.keys():
                self._note((*path, key), IGNORED.format(reason=_IGNORED[key]))
                if key == "percentageOfNodesToScore":
                    self._integer(known_fields[key], (*path, key), 0, low=0, high=100)
        return known_fields

    def _weight(self, value: object) -> object:
        return super()._weight(value) or None  # 0 means 1

    def _disabled(self, value: object, path: Steps) -> Disabled:
        if isinstance(value, dict) and "weight" in value:
            # Both lists have the same type in its API: kube-scheduler itself writes `weight: 0` when it prints them.
            self._integer(value["weight"], (*path, "weight"), 0, low=-(2**31), high=2**31 - 1)
            value = {key: part for key, part in value.items() if key != "weight"}
        return super()._disabled(value, path)

    def _note(self, path: Steps, message: str, remedy: str = "") -> None:
        self.notes.append(Problem(path=path, message=message, remedy=remedy))


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    profile: ProfileConfiguration
    problems: tuple[Problem, ...]
    notes: tuple[Problem, ...]


def adapt(profile: ProfileConfiguration, points: Points) -> Adapted:
    """Remove from a profile what has no effect here. ``points`` are those of the plugins that exist."""
    problems: list[Problem] = []
    notes: list[Problem] = []
    if RESOURCE_CLAIMS in points and not profile.at(MULTI_POINT).disables(RESOURCE_CLAIMS):
        message = CLAIMS_REJECTED.format(name=RESOURCE_CLAIMS)
        notes.append(Problem(path=profile.path, message=message, remedy=CLAIMS_REJECTED_REMEDY))
    sets = {
        field: PluginSet(
            enabled=tuple(_enabled(plugin_set, field, points, problems, notes)),
            disabled=tuple(_disabled(plugin_set)),
        )
        for field, plugin_set in profile.sets.items()
    }
    plugin_config: list[PluginArgs] = []
    for args in profile.plugin_config:
        if args.name in _ABSENT and args.name not in points:
            notes.append(Problem(path=args.path, message=ARGS_IGNORED.format(name=args.name)))
        else:
            plugin_config.append(args)
    changed = replace(profile, sets=sets, plugin_config=tuple(plugin_config))
    return Adapted(profile=changed, problems=tuple(problems), notes=tuple(notes))


def _enabled(
    plugin_set: PluginSet, field: str, points: Points, problems: list[Problem], notes: list[Problem]
) -> Iterator[Enabled]:
    for entry in plugin_set.enabled:
        if entry.name not in points:
            missing = _missing(entry)
            if missing is None:
                yield entry  # resolution reports an unknown plugin
            else:
                problems.append(missing)
        elif field in _KUBE_POINTS.get(entry.name, ()) and _point(field) not in points[entry.name]:
            continue
        elif entry.weight is not None and SCORE not in points[entry.name]:
            message = WEIGHT_IGNORED.format(name=entry.name)
            notes.append(Problem(path=(*entry.path, "weight"), message=message))
            yield replace(entry, weight=None)
        else:
            yield entry


def _missing(entry: Enabled) -> Problem | None:
    path = (*entry.path, "name")
    if entry.name in _ABSENT:
        message = ABSENT.format(name=entry.name, reason=_ABSENT[entry.name])
        return Problem(path=path, message=message, remedy=ABSENT_REMEDY)
    if entry.name in _REMOVED:
        message = REMOVED.format(name=entry.name, reason=_REMOVED[entry.name])
        return Problem(path=path, message=message, remedy=REMOVED_REMEDY)
    return None


def _disabled(plugin_set: PluginSet) -> Iterator[Disabled]:
    """Leave out plugins that do not exist here, which are disabled anyway."""
    for entry in plugin_set.disabled:
        if entry.name not in _ABSENT and entry.name not in _REMOVED:
            yield entry


def _point(field: str) -> str:
    return field[0].upper() + field[1:]
