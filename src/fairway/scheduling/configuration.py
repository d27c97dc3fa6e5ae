"""The SchedulerConfiguration: the shape of KubeSchedulerConfiguration, decoded strictly.

Decoding reports every problem of a document at once, each with the path of its field. It knows no plugins: names are
checked when profiles are resolved (``resolution``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from fairway.workloads.placement.profile import PROFILE_NAME
from kubewire.api.quantity import QuantityError, quantity_float

API_VERSION: Final = "fairway.dev/v1alpha1"
KIND: Final = "SchedulerConfiguration"
PLACEMENT_PROFILE: Final = PROFILE_NAME
"""Name of the profile that decides Placements, and the default of ``schedulerName``."""
FAIL: Final = "Fail"
SKIP: Final = "Skip"
ALL: Final = "*"
"""In ``disabled``: every plugin that the set would otherwise inherit."""

MULTI_POINT: Final = "multiPoint"
POINT_FIELDS: Final[Mapping[str, str]] = {
    "preEnqueue": "PreEnqueue",
    "queueSort": "QueueSort",
    "prioritize": "Prioritize",
    "preFilter": "PreFilter",
    "filter": "Filter",
    "postFilter": "PostFilter",
    "preScore": "PreScore",
    "score": "Score",
    "choose": "Choose",
    "reserve": "Reserve",
    "permit": "Permit",
    "preBind": "PreBind",
    "bind": "Bind",
    "postBind": "PostBind",
}
"""Extension points by the field that configures them."""

INITIAL_BACKOFF_SECONDS: Final = 1
MAX_BACKOFF_SECONDS: Final = 10
LONGEST_BACKOFF_SECONDS: Final = 86_400
LARGEST_TOTAL: Final = (1 << 63) - 1
LARGEST_SCORE: Final = 100

UNKNOWN_FIELD: Final = "unknown field"
NEAR: Final = "did you mean {near!r}?"
KNOWN: Final = "known fields are {known}"
NOT_HERE: Final = "remove it: {reason}"
WRONG_TYPE: Final = "expected {expected}; got {given}"
REQUIRED: Final = "is required"
WRITE: Final = "write {example}"
WRONG_WORD: Final = "must be {choices}; got {given!r}"
OUT_OF_RANGE: Final = "must be between {low} and {high}; got {given}"
MAX_BELOW_INITIAL: Final = (
    "the longest back-off, {longest} seconds, is shorter than the first one, {initial} seconds"
)
RAISE_MAX: Final = "write podMaxBackoffSeconds: {initial} or more"
NO_PROFILE: Final = "must have at least one profile"
NO_PROFILE_REMEDY: Final = "leave profiles out for the default one"
UNNAMED_PROFILE: Final = "is required because there is more than one profile"
DUPLICATE_PROFILE: Final = "duplicate profile {name!r}; the first one is profiles[{first}]"
DUPLICATE_PROFILE_REMEDY: Final = "give each profile its own schedulerName"
DUPLICATE_PLUGIN: Final = "plugin {name!r} is listed twice; the first entry is {first}"
REMOVE_ONE: Final = "remove one of them"
BAD_WEIGHT: Final = "weight of plugin {name!r} must be at least 1; got {given}"
BAD_WEIGHT_REMEDY: Final = "leave it out for 1, or list the plugin under disabled"
NO_WEIGHT: Final = "plugin {name!r} has a weight, but {field} plugins do not score"
NO_WEIGHT_REMEDY: Final = "write the weight under score or multiPoint"
PROCESS: Final = "process"
"""Value of ``isolation``."""
BAD_ISOLATION: Final = "must be {process}; got {given!r}"
BAD_ISOLATION_REMEDY: Final = "leave it out for a plugin that runs in the scheduler's own process"
NOT_ISOLATED: Final = "limits the process of a plugin, and this one has none"
ISOLATE: Final = f"write isolation: {PROCESS} beside it, or remove it"
SMALLEST_MEMORY: Final = 16 << 20
LARGEST_MEMORY: Final = 1 << 50
BAD_MEMORY: Final = "must be between 16Mi and 1Pi; got {given!r}"
BAD_MEMORY_REMEDY: Final = "write a quantity of bytes, such as 512Mi"
TOTAL_TOO_LARGE: Final = "the weights add up to {total}, so that totals exceed 64 bits"
SMALLER_WEIGHTS: Final = "write smaller weights"

_ELSEWHERE: Final = {
    "percentageOfNodesToScore": "Fairway scores every host",
    "parallelism": "Fairway evaluates all hosts with array operations",
    "extenders": "write a plugin instead",
    "leaderElection": "use the options --leader-elect and --lease-namespace of fairway run",
    "clientConnection": "use --kubeconfig and --context",
    "delayCacheUntilActive": "a standby always keeps its cache up to date",
    "enableProfiling": "Fairway has no profiling endpoint",
    "enableContentionProfiling": "Fairway has no profiling endpoint",
    "healthzBindAddress": "use the option --health-address of fairway run",
    "metricsBindAddress": "use the option --metrics-address of fairway run",
    "placementGenerate": "Fairway has no such extension point",
    "placementScore": "Fairway has no such extension point",
    "podGroupPostFilter": "Fairway has no such extension point",
}
"""Fields of KubeSchedulerConfiguration that mean nothing here, with the reason."""

_TOP: Final = (
    *("apiVersion", "kind", "profiles", "pluginFiles"),
    *("podInitialBackoffSeconds", "podMaxBackoffSeconds"),
)

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong with the field at a path, and what to write instead."""

    path: Steps
    message: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enabled:
    """An entry of ``enabled``; ``weight`` is None where the file gives none."""

    name: str
    weight: int | None = None
    path: Steps = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Disabled:
    name: str
    path: Steps = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSet:
    enabled: tuple[Enabled, ...] = ()
    disabled: tuple[Disabled, ...] = ()

    def disables(self, name: str) -> bool:
        return any(entry.name in (name, ALL) for entry in self.disabled)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginArgs:
    name: str
    args: Mapping[str, Any]
    isolated: bool = False
    """Whether the plugin runs in a process of its own."""
    memory_limit: int | None = None
    """Of that process, in bytes."""
    path: Steps = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileConfiguration:
    name: str = PLACEMENT_PROFILE
    on_plugin_fault: str = FAIL
    sets: Mapping[str, PluginSet] = field(default_factory=dict)
    """Plugin sets by field: ``filter``, ``multiPoint`` and so on."""
    plugin_config: tuple[PluginArgs, ...] = ()
    path: Steps = ()

    def at(self, field: str) -> PluginSet:
        return self.sets.get(field, _EMPTY)


_EMPTY: Final = PluginSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginFile:
    name: str
    path: Steps = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfiguration:
    profiles: tuple[ProfileConfiguration, ...] = (ProfileConfiguration(),)
    initial_backoff_seconds: int = INITIAL_BACKOFF_SECONDS
    max_backoff_seconds: int = MAX_BACKOFF_SECONDS
    sets_backoff: bool = False
    """Whether the file has one of them; Placements have other defaults."""
    plugin_files: tuple[PluginFile, ...] = ()


def format_path(path: Steps) -> str:
    """Format ``("profiles", 0, "plugins")`` as ``profiles[0].plugins``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


class Decoder:
    """Decodes a document. The configuration is usable if there are no problems."""

    api_version: str = API_VERSION
    kind: str = KIND
    default_profile: str = PLACEMENT_PROFILE
    """The name of the only profile, if the file gives none."""
    fields: tuple[str, ...] = _TOP
    plugin_config_fields: tuple[str, ...] = ("name", "args", "isolation", "memoryLimit")
    profile_fields: tuple[str, ...] = ("schedulerName", "plugins", "pluginConfig", "onPluginFault")

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.notes: list[Problem] = []
        """What has no effect."""

    def _report(self, path: Steps, message: str, remedy: str = "") -> None:
        self.problems.append(Problem(path=path, message=message, remedy=remedy))

    # Values

    def _mapping(self, value: object, path: Steps, known: tuple[str, ...]) -> dict[str, Any]:
        """Return the known fields that are given; null counts as absent, as in Kubernetes."""
        if not isinstance(value, dict):
            self._wrong_type(value, path, "a mapping")
            return {}
        known_fields = {}
        for key, field_value in value.items():
            if key in known:
                if field_value is not None:
                    known_fields[key] = field_value
                continue
            if key in _ELSEWHERE:
                remedy = NOT_HERE.format(reason=_ELSEWHERE[key])
            elif near := get_close_matches(str(key), known, n=1):
                remedy = NEAR.format(near=near[0])
            else:
                remedy = KNOWN.format(known=", ".join(known))
            self._report((*path, key), UNKNOWN_FIELD, remedy)
        return known_fields

    def _items(self, value: object, path: Steps) -> list[Any]:
        if isinstance(value, list):
            return value
        self._wrong_type(value, path, "a list")
        return []

    def _text(self, value: object, path: Steps) -> str:
        if isinstance(value, str) and value:
            return value
        self._wrong_type(value, path, "a non-empty text")
        return ""

    def _integer(self, value: object, path: Steps, default: int, *, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self._wrong_type(value, path, "a whole number")
        elif not low <= value <= high:
            self._report(path, OUT_OF_RANGE.format(low=low, high=high, given=value))
        else:
            return value
        return default

    def _wrong_type(self, value: object, path: Steps, expected: str) -> None:
        self._report(path, WRONG_TYPE.format(expected=expected, given=_described(value)))

    def _exactly(self, fields: dict[str, Any], field: str, expected: str) -> None:
        example = WRITE.format(example=f"{field}: {expected}")
        if field not in fields:
            self._report((field,), REQUIRED, example)
        elif fields[field] != expected:
            message = WRONG_WORD.format(choices=expected, given=fields[field])
            self._report((field,), message, example)

    # Parts of the document

    def configuration(self, value: object) -> SchedulerConfiguration:
        fields = self._mapping(value, (), self.fields)
        if not isinstance(value, dict):
            return SchedulerConfiguration()
        self._exactly(fields, "apiVersion", self.api_version)
        self._exactly(fields, "kind", self.kind)
        initial, longest = self._backoff(fields)
        files = self._items(fields.get("pluginFiles", []), ("pluginFiles",))
        return SchedulerConfiguration(
            profiles=self._profiles(fields),
            initial_backoff_seconds=initial,
            max_backoff_seconds=longest,
            sets_backoff="podInitialBackoffSeconds" in fields or "podMaxBackoffSeconds" in fields,
            plugin_files=tuple(
                PluginFile(name=self._text(name, ("pluginFiles", at)), path=("pluginFiles", at))
                for at, name in enumerate(files)
            ),
        )

    def _backoff(self, fields: dict[str, Any]) -> tuple[int, int]:
        first, last = "podInitialBackoffSeconds", "podMaxBackoffSeconds"
        initial, longest = INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS
        reported = len(self.problems)
        if first in fields:
            initial = self._integer(fields[first], (first,), initial, low=1, high=LONGEST_BACKOFF_SECONDS)
        if last in fields:
            longest = self._integer(fields[last], (last,), longest, low=1, high=LONGEST_BACKOFF_SECONDS)
        if longest < initial and len(self.problems) == reported:
            message = MAX_BELOW_INITIAL.format(longest=longest, initial=initial)
            where = last if last in fields else first
            self._report((where,), message, RAISE_MAX.format(initial=initial))
        return initial, longest

    def _profiles(self, fields: dict[str, Any]) -> tuple[ProfileConfiguration, ...]:
        if "profiles" not in fields:
            return (ProfileConfiguration(name=self.default_profile),)
        values = self._items(fields["profiles"], ("profiles",))
        if not values and isinstance(fields["profiles"], list):
            self._report(("profiles",), NO_PROFILE, NO_PROFILE_REMEDY)
        names: dict[str, int] = {}
        profiles = []
        for at, value in enumerate(values):
            profile = self._profile(value, ("profiles", at), only=len(values) == 1)
            if profile.name in names:
                message = DUPLICATE_PROFILE.format(name=profile.name, first=names[profile.name])
                self._report(("profiles", at, "schedulerName"), message, DUPLICATE_PROFILE_REMEDY)
            elif profile.name:
                names[profile.name] = at
            profiles.append(profile)
        return tuple(profiles)

    def _profile(self, value: object, path: Steps, *, only: bool) -> ProfileConfiguration:
        fields = self._mapping(value, path, self.profile_fields)
        name = self.default_profile if only else ""
        if "schedulerName" in fields:
            name = self._text(fields["schedulerName"], (*path, "schedulerName"))
        elif not only and isinstance(value, dict):
            example = WRITE.format(example=f"schedulerName: {self.default_profile}")
            self._report((*path, "schedulerName"), UNNAMED_PROFILE, example)
        on_fault = fields.get("onPluginFault", FAIL)
        if on_fault not in (FAIL, SKIP):
            message = WRONG_WORD.format(choices=f"{FAIL} or {SKIP}", given=on_fault)
            self._report((*path, "onPluginFault"), message)
        sets = self._mapping(fields.get("plugins", {}), (*path, "plugins"), (*POINT_FIELDS, MULTI_POINT))
        decoded = {
            key: self._plugin_set(plugin_set, (*path, "plugins", key)) for key, plugin_set in sets.items()
        }
        return ProfileConfiguration(
            name=name,
            on_plugin_fault=on_fault,
            sets=decoded,
            plugin_config=self._plugin_config(fields, (*path, "pluginConfig")),
            path=path,
        )

    def _plugin_set(self, value: object, path: Steps) -> PluginSet:
        fields = self._mapping(value, path, ("enabled", "disabled"))
        enabled, disabled = [], []
        for at, entry in enumerate(self._items(fields.get("enabled", []), (*path, "enabled"))):
            enabled.append(self._enabled(entry, (*path, "enabled", at), field=str(path[-1])))
        for at, entry in enumerate(self._items(fields.get("disabled", []), (*path, "disabled"))):
            disabled.append(self._disabled(entry, (*path, "disabled", at)))
        self._check_repeated(enabled, (*path, "enabled"))
        self._check_repeated(disabled, (*path, "disabled"))
        return PluginSet(enabled=tuple(enabled), disabled=tuple(disabled))

    def _enabled(self, value: object, path: Steps, *, field: str) -> Enabled:
        name = self._name(value, path, ("name", "weight"))
        weight = self._weight(value)
        where = (*path, "weight")
        if weight is None:
            return Enabled(name=name, path=path)
        if field not in ("score", MULTI_POINT):
            self._report(where, NO_WEIGHT.format(name=name, field=field), NO_WEIGHT_REMEDY)
        elif not isinstance(weight, int) or isinstance(weight, bool):
            self._wrong_type(weight, where, "a whole number")
        elif weight < 1:
            self._report(where, BAD_WEIGHT.format(name=name, given=weight), BAD_WEIGHT_REMEDY)
        else:
            return Enabled(name=name, weight=weight, path=path)
        return Enabled(name=name, path=path)

    def _disabled(self, value: object, path: Steps) -> Disabled:
        # Kubernetes' form is {name: "*"}; the name alone is accepted as well.
        name = self._text(value, path) if isinstance(value, str) else self._name(value, path, ("name",))
        return Disabled(name=name, path=path)

    def _weight(self, value: object) -> object:
        return value.get("weight") if isinstance(value, dict) else None

    def _name(self, value: object, path: Steps, known: tuple[str, ...]) -> str:
        fields = self._mapping(value, path, known)
        if "name" in fields:
            return self._text(fields["name"], (*path, "name"))
        if isinstance(value, dict):
            self._report((*path, "name"), REQUIRED)
        return ""

    def _check_repeated(self, entries: Sequence[Enabled | Disabled], path: Steps) -> None:
        first: dict[str, int] = {}
        for at, entry in enumerate(entries):
            if entry.name and first.setdefault(entry.name, at) != at:
                message = DUPLICATE_PLUGIN.format(
                    name=entry.name, first=format_path((*path, first[entry.name]))
                )
                self._report(entry.path, message, REMOVE_ONE)

    def _plugin_config(self, fields: dict[str, Any], path: Steps) -> tuple[PluginArgs, ...]:
        plugin_configs: list[PluginArgs] = []
        first: dict[str, int] = {}
        for at, value in enumerate(self._items(fields.get("pluginConfig", []), path)):
            where = (*path, at)
            name = self._name(value, where, self.plugin_config_fields)
            args = value.get("args") if isinstance(value, dict) else None
            if args is not None and not isinstance(args, dict):
                self._wrong_type(args, (*where, "args"), "a mapping")
                args = None
            if name and first.setdefault(name, at) != at:
                message = DUPLICATE_PLUGIN.format(name=name, first=format_path((*path, first[name])))
                self._report((*where, "name"), message, REMOVE_ONE)
                continue
            isolated, memory_limit = False, None
            if isinstance(value, dict) and "isolation" in self.plugin_config_fields:
                isolated, memory_limit = self._isolation(value, where)
            plugin_configs.append(
                PluginArgs(
                    name=name, args=args or {}, isolated=isolated, memory_limit=memory_limit, path=where
                )
            )
        return tuple(plugin_configs)

    def _isolation(self, fields: dict[str, Any], path: Steps) -> tuple[bool, int | None]:
        isolation, limit = fields.get("isolation"), fields.get("memoryLimit")
        if isolation not in (None, PROCESS):
            message = BAD_ISOLATION.format(process=PROCESS, given=isolation)
            self._report((*path, "isolation"), message, BAD_ISOLATION_REMEDY)
        if limit is None:
            return isolation == PROCESS, None
        size = _bytes(limit)
        if size is None or not SMALLEST_MEMORY <= size <= LARGEST_MEMORY:
            self._report((*path, "memoryLimit"), BAD_MEMORY.format(given=limit), BAD_MEMORY_REMEDY)
        elif isolation is None:
            self._report((*path, "memoryLimit"), NOT_ISOLATED, ISOLATE)
        return isolation == PROCESS, size


def _bytes(value: object) -> int | None:
    """Return a quantity of bytes; None if it is none."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        return None
    try:
        return int(quantity_float(value))
    except (QuantityError, OverflowError, ValueError):
        return None


def _described(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case _:
            return f"{value!r:.100}"
