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
ABSENT_BY_DEFAULT: Final = "the default plugins {names} do not exist here: {reasons}"
ABSENT_BY_DEFAULT_REMEDY: Final = "list them under multiPoint.disabled if no pod needs them"
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
    "VolumeRestrictions": "two pods may use a ReadWriteOncePod claim, or one cloud disk, at the same time",
    "NodeVolumeLimits": "more volumes may be attached to a node than its CSI driver allows",
    "DynamicResources": "resource claims are not allocated",
    "NodeDeclaredFeatures": "features that nodes declare are not compared with those that pods need",
    "GangScheduling": "use Coscheduling, with the label scheduling.x-k8s.io/pod-group",
    "TopologyPlacementGenerator": "pod groups are not placed as a whole",
    "PodGroupPodsCount": "pod groups are not placed as a whole",
}
_ABSENT_BY_DEFAULT: Final = ("VolumeRestrictions", "NodeVolumeLimits", "DynamicResources")
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
    "VolumeBinding": _PREPARED | {"reserve", "preBind"},
    "VolumeZone": frozenset({"preFilter", "filter"}),
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
    profile_fields = ("schedulerName", "plugins", "pluginConfig", "percentageOfNodesToScore")

    def configuration(self, value: object) -> SchedulerConfiguration:
        given = value if isinstance(value, dict) else {}
        if self._items(given.get("extenders") or [], ("extenders",)):
            self._report(("extenders",), NO_EXTENDERS, NO_EXTENDERS_REMEDY)
        found = super().configuration(value)
        for profile in found.profiles:
            if profile.name == DEFAULT_SCHEDULER:
                self._note((*profile.path, "schedulerName"), TAKES_ALL_PODS, TAKES_ALL_PODS_REMEDY)
        return found

    def _mapping(self, value: object, path: Steps, known: tuple[str, ...]) -> dict[str, Any]:
        found = super()._mapping(value, path, known)
        if known is self.fields or known is self.profile_fields:
            for key in found.keys() & _IGNORED.keys():
                self._note((*path, key), IGNORED.format(reason=_IGNORED[key]))
                if key == "percentageOfNodesToScore":
                    self._integer(found[key], (*path, key), 0, low=0, high=100)
        return found

    def _weight(self, value: object) -> object:
        return super()._weight(value) or None  # 0 means 1

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
    notes = list(_check_defaults(profile))
    sets = {
        field: PluginSet(
            enabled=tuple(_enabled(given, field, points, problems, notes)),
            disabled=tuple(_disabled(given)),
        )
        for field, given in profile.sets.items()
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
    given: PluginSet, field: str, points: Points, problems: list[Problem], notes: list[Problem]
) -> Iterator[Enabled]:
    for each in given.enabled:
        if each.name not in points:
            missing = _missing(each)
            if missing is None:
                yield each  # resolution reports an unknown plugin
            else:
                problems.append(missing)
        elif field in _KUBE_POINTS.get(each.name, ()) and _point(field) not in points[each.name]:
            continue
        elif each.weight is not None and SCORE not in points[each.name]:
            message = WEIGHT_IGNORED.format(name=each.name)
            notes.append(Problem(path=(*each.path, "weight"), message=message))
            yield replace(each, weight=None)
        else:
            yield each


def _missing(each: Enabled) -> Problem | None:
    path = (*each.path, "name")
    if each.name in _ABSENT:
        message = ABSENT.format(name=each.name, reason=_ABSENT[each.name])
        return Problem(path=path, message=message, remedy=ABSENT_REMEDY)
    if each.name in _REMOVED:
        message = REMOVED.format(name=each.name, reason=_REMOVED[each.name])
        return Problem(path=path, message=message, remedy=REMOVED_REMEDY)
    return None


def _disabled(given: PluginSet) -> Iterator[Disabled]:
    """Leave out plugins that do not exist here, which are disabled anyway."""
    for each in given.disabled:
        if each.name not in _ABSENT and each.name not in _REMOVED:
            yield each


def _check_defaults(profile: ProfileConfiguration) -> Iterator[Problem]:
    given = profile.at(MULTI_POINT)
    names = [name for name in _ABSENT_BY_DEFAULT if not given.disables(name)]
    if names:
        message = ABSENT_BY_DEFAULT.format(
            names=", ".join(names), reasons="; ".join(_ABSENT[name] for name in names)
        )
        yield Problem(path=profile.path, message=message, remedy=ABSENT_BY_DEFAULT_REMEDY)


def _point(field: str) -> str:
    return field[0].upper() + field[1:]
