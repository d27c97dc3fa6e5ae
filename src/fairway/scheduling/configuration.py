"""The SchedulerConfiguration: the shape of KubeSchedulerConfiguration, decoded strictly.

Decoding reports every problem of a document at once, each with the path of its field. It knows no plugins: names are
checked when profiles are resolved (``resolution``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final

from fairway.placement.profile import PROFILE_NAME

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
        return any(each.name in (name, ALL) for each in self.disabled)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginArgs:
    name: str
    args: Mapping[str, Any]
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


def decode(value: object) -> tuple[SchedulerConfiguration, tuple[Problem, ...]]:
    """Decode a document. The configuration is usable if there are no problems."""
    decoder = Decoder()
    return decoder.configuration(value), tuple(decoder.problems)


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
        found = {}
        for key, each in value.items():
            if key in known:
                if each is not None:
                    found[key] = each
                continue
            if key in _ELSEWHERE:
                remedy = NOT_HERE.format(reason=_ELSEWHERE[key])
            elif near := get_close_matches(str(key), known, n=1):
                remedy = NEAR.format(near=near[0])
            else:
                remedy = KNOWN.format(known=", ".join(known))
            self._report((*path, key), UNKNOWN_FIELD, remedy)
        return found

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

    def _exactly(self, given: dict[str, Any], field: str, expected: str) -> None:
        example = WRITE.format(example=f"{field}: {expected}")
        if field not in given:
            self._report((field,), REQUIRED, example)
        elif given[field] != expected:
            message = WRONG_WORD.format(choices=expected, given=given[field])
            self._report((field,), message, example)

    # Parts of the document

    def configuration(self, value: object) -> SchedulerConfiguration:
        given = self._mapping(value, (), self.fields)
        if not isinstance(value, dict):
            return SchedulerConfiguration()
        self._exactly(given, "apiVersion", self.api_version)
        self._exactly(given, "kind", self.kind)
        initial, longest = self._backoff(given)
        files = self._items(given.get("pluginFiles", []), ("pluginFiles",))
        return SchedulerConfiguration(
            profiles=self._profiles(given),
            initial_backoff_seconds=initial,
            max_backoff_seconds=longest,
            sets_backoff="podInitialBackoffSeconds" in given or "podMaxBackoffSeconds" in given,
            plugin_files=tuple(
                PluginFile(name=self._text(each, ("pluginFiles", at)), path=("pluginFiles", at))
                for at, each in enumerate(files)
            ),
        )

    def _backoff(self, given: dict[str, Any]) -> tuple[int, int]:
        first, last = "podInitialBackoffSeconds", "podMaxBackoffSeconds"
        initial, longest = INITIAL_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS
        reported = len(self.problems)
        if first in given:
            initial = self._integer(given[first], (first,), initial, low=1, high=LONGEST_BACKOFF_SECONDS)
        if last in given:
            longest = self._integer(given[last], (last,), longest, low=1, high=LONGEST_BACKOFF_SECONDS)
        if longest < initial and len(self.problems) == reported:
            message = MAX_BELOW_INITIAL.format(longest=longest, initial=initial)
            where = last if last in given else first
            self._report((where,), message, RAISE_MAX.format(initial=initial))
        return initial, longest

    def _profiles(self, given: dict[str, Any]) -> tuple[ProfileConfiguration, ...]:
        if "profiles" not in given:
            return (ProfileConfiguration(name=self.default_profile),)
        values = self._items(given["profiles"], ("profiles",))
        if not values and isinstance(given["profiles"], list):
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
        given = self._mapping(value, path, self.profile_fields)
        name = self.default_profile if only else ""
        if "schedulerName" in given:
            name = self._text(given["schedulerName"], (*path, "schedulerName"))
        elif not only and isinstance(value, dict):
            example = WRITE.format(example=f"schedulerName: {self.default_profile}")
            self._report((*path, "schedulerName"), UNNAMED_PROFILE, example)
        on_fault = given.get("onPluginFault", FAIL)
        if on_fault not in (FAIL, SKIP):
            message = WRONG_WORD.format(choices=f"{FAIL} or {SKIP}", given=on_fault)
            self._report((*path, "onPluginFault"), message)
        sets = self._mapping(given.get("plugins", {}), (*path, "plugins"), (*POINT_FIELDS, MULTI_POINT))
        decoded = {key: self._plugin_set(each, (*path, "plugins", key)) for key, each in sets.items()}
        return ProfileConfiguration(
            name=name,
            on_plugin_fault=on_fault,
            sets=decoded,
            plugin_config=self._plugin_config(given, (*path, "pluginConfig")),
            path=path,
        )

    def _plugin_set(self, value: object, path: Steps) -> PluginSet:
        given = self._mapping(value, path, ("enabled", "disabled"))
        enabled, disabled = [], []
        for at, each in enumerate(self._items(given.get("enabled", []), (*path, "enabled"))):
            enabled.append(self._enabled(each, (*path, "enabled", at), field=str(path[-1])))
        for at, each in enumerate(self._items(given.get("disabled", []), (*path, "disabled"))):
            where = (*path, "disabled", at)
            # Kubernetes' form is {name: "*"}; the name alone is accepted as well.
            name = self._text(each, where) if isinstance(each, str) else self._name(each, where, ("name",))
            disabled.append(Disabled(name=name, path=where))
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

    def _weight(self, value: object) -> object:
        return value.get("weight") if isinstance(value, dict) else None

    def _name(self, value: object, path: Steps, known: tuple[str, ...]) -> str:
        given = self._mapping(value, path, known)
        if "name" in given:
            return self._text(given["name"], (*path, "name"))
        if isinstance(value, dict):
            self._report((*path, "name"), REQUIRED)
        return ""

    def _check_repeated(self, entries: Sequence[Enabled | Disabled], path: Steps) -> None:
        first: dict[str, int] = {}
        for at, each in enumerate(entries):
            if each.name and first.setdefault(each.name, at) != at:
                message = DUPLICATE_PLUGIN.format(
                    name=each.name, first=format_path((*path, first[each.name]))
                )
                self._report(each.path, message, REMOVE_ONE)

    def _plugin_config(self, given: dict[str, Any], path: Steps) -> tuple[PluginArgs, ...]:
        found: list[PluginArgs] = []
        first: dict[str, int] = {}
        for at, value in enumerate(self._items(given.get("pluginConfig", []), path)):
            where = (*path, at)
            name = self._name(value, where, ("name", "args"))
            args = value.get("args") if isinstance(value, dict) else None
            if args is not None and not isinstance(args, dict):
                self._wrong_type(args, (*where, "args"), "a mapping")
                args = None
            if name and first.setdefault(name, at) != at:
                message = DUPLICATE_PLUGIN.format(name=name, first=format_path((*path, first[name])))
                self._report((*where, "name"), message, REMOVE_ONE)
                continue
            found.append(PluginArgs(name=name, args=args or {}, path=where))
        return tuple(found)


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
