"""Load a SchedulerConfiguration or a KubeSchedulerConfiguration: read the file, find plugins, resolve the profiles.

All problems of a file are raised at once, each with file, line, field, reason and remedy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final

from fairway.documents import parser, positions, reader, scalars
from fairway.engine.errors import PluginArgsError
from fairway.engine.forms import points_of
from fairway.engine.points import EXTENSION_POINTS, Plugin
from fairway.engine.profile import Enabled, OnFault, Profile, ProfileSpec, build_profile
from fairway.engine.registry import Registry
from fairway.scheduling.configuration import (
    API_VERSION,
    KIND,
    MULTI_POINT,
    NEAR,
    PLACEMENT_PROFILE,
    Decoder,
    PluginArgs,
    PluginSet,
    Problem,
    ProfileConfiguration,
    SchedulerConfiguration,
    Steps,
    format_path,
)
from fairway.scheduling.discovery import (
    BrokenPlugin,
    FoundPlugin,
    LoadingError,
    check_taken,
    in_file,
    installed,
)
from fairway.scheduling.guard import Supervisor, guarded_class, guarded_factory
from fairway.scheduling.kube_configuration import (
    DEFAULT_SCHEDULER,
    KubeDecoder,
    adapt,
    is_kube_configuration,
)
from fairway.scheduling.pod_args import DecodedArgs
from fairway.scheduling.resolution import Points, ResolvedProfile, resolve

LARGEST: Final = 1 << 20
"""Maximum size of a configuration in bytes."""
RULES: Final = parser.Rules(depth=40, resolve=scalars.resolve_core)

UNREADABLE: Final = "cannot be read ({why})"
TOO_LARGE: Final = f"is larger than {LARGEST >> 20} MiB"
TOO_LARGE_REMEDY: Final = "this is probably another file"
EMPTY: Final = "is empty"
EMPTY_REMEDY: Final = f"write at least apiVersion: {API_VERSION} and kind: {KIND}"
NOT_YAML: Final = "is not valid YAML: {why}"
UNUSED_PROFILE: Final = "no workload uses profile {name!r}"
USED_PROFILES: Final = "write one of {names}; the controller machines uses others, for pods"
CONFIGURES_PODS: Final = "a KubeSchedulerConfiguration configures pods, and no pods are scheduled"
RUN_MACHINES: Final = f"run the controller machines, or write kind: {KIND} for Placements"
REPAIR: Final = "repair or remove the package, or do not name the plugin here"
BUILT_IN: Final = "fairway"
"""Origin of built-in plugins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileProblem:
    """A problem with its place. ``line`` counts from 1; 0 if the whole file is concerned."""

    file: str
    message: str
    line: int = 0
    field: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        text = ": ".join(part for part in (place, self.field, self.message) if part)
        return f"{text}; {self.remedy}" if self.remedy else text


class ConfigurationError(Exception):
    def __init__(self, problems: Sequence[FileProblem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    name: str
    origin: str
    points: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """What every configuration starts from: the built-in plugins and the default profile."""

    registry: Callable[[], Registry]
    """Returns a new registry of the built-in plugins."""
    sets: Mapping[str, PluginSet]
    profiles: tuple[str, ...] = ()
    """The profiles that something uses, each with its default where a file does not have it. Empty for any."""
    default_profile: str = ""
    """The name of the profile if a file has none that is used here."""
    skips: Callable[[str], bool] = lambda _name: False
    """Whether a profile of a file is for workloads of another kind."""
    other_profiles: tuple[str, ...] = ()
    """Names of such profiles: a similar name is probably misspelt."""
    required: tuple[str, ...] = ()
    """The fields of extension points at which some plugin must be enabled."""
    provided: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Plugins that the caller registers, with their extension points. They are not in ``Scheduling.profiles``."""
    for_pods: bool = False
    """Whether the workloads are pods, which a KubeSchedulerConfiguration can configure."""
    decode_args: Callable[[PluginArgs], DecodedArgs] | None = None
    """Checks and renames the arguments of built-in plugins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """A loaded configuration."""

    configuration: SchedulerConfiguration
    resolved: tuple[ResolvedProfile, ...]
    profiles: Mapping[str, Profile]
    registry: Registry
    plugins: tuple[PluginInfo, ...]
    broken: tuple[BrokenPlugin, ...]
    supervisor: Supervisor
    """Of the guards around third-party plugins."""
    specs: Mapping[str, ProfileSpec]
    """The profiles as data, for callers that provide plugins."""
    notes: tuple[FileProblem, ...] = ()
    """What in the file has no effect, or differs from kube-scheduler."""
    is_kube: bool = False
    """Whether the file is a KubeSchedulerConfiguration."""

    def add_third_party(self, registry: Registry) -> None:
        """Register the plugins that are not built in with a registry of the caller."""
        for each in self.plugins:
            if each.origin != BUILT_IN:
                factory = partial(_build_registered, self.registry, each.name)
                registry.register(each.name, factory, kind=self.registry.kind(each.name))

    @property
    def placement(self) -> Profile:
        """Return the profile that decides Placements."""
        return self.profiles[PLACEMENT_PROFILE]

    def quarantined(self) -> Mapping[str, bool]:
        """Return whether each third-party plugin is in quarantine now."""
        now, quarantine = self.supervisor.clock(), self.supervisor.quarantine
        return {
            each.name: quarantine.until(each.name, now=now) is not None
            for each in self.plugins
            if each.origin != BUILT_IN
        }


def load(path: Path | None, *, base: Base, supervisor: Supervisor) -> Scheduling:
    """Load a file; None for the default configuration with installed plugins. Raises ConfigurationError."""
    if path is None:
        return _Loader(None, supervisor=supervisor, base=base).load(SchedulerConfiguration(), (), ())
    data = _read(path)
    return parse(data, path=path, base=base, supervisor=supervisor)


def parse(data: bytes, *, path: Path, base: Base, supervisor: Supervisor) -> Scheduling:
    """Load a configuration from text; files of plugins are relative to ``path``. Raises ConfigurationError."""
    source = _Source.parse(data, path)
    loader = _Loader(source, supervisor=supervisor, base=base)
    if not is_kube_configuration(source.value):
        return loader.load(*_decoded(Decoder(), source))
    if base.for_pods:
        return loader.load(*_decoded(KubeDecoder(), source), adapts=True)
    problems = (Problem(path=("kind",), message=CONFIGURES_PODS, remedy=RUN_MACHINES),)
    return loader.load(SchedulerConfiguration(), () if base.skips(DEFAULT_SCHEDULER) else problems, ())


def _decoded(
    decoder: Decoder, source: "_Source"
) -> tuple[SchedulerConfiguration, list[Problem], list[Problem]]:
    return decoder.configuration(source.value), decoder.problems, decoder.notes


def _build_registered(registry: Registry, name: str, **args: Any) -> Plugin:
    return registry.build(name, args)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except OSError as error:
        problem = FileProblem(file=str(path), message=UNREADABLE.format(why=error.strerror))
        raise ConfigurationError([problem]) from None


@dataclass(frozen=True, slots=True)
class _Source:
    """The text of a configuration, which knows the line of each field."""

    value: Any
    path: Path
    data: bytes
    first: int

    @classmethod
    def parse(cls, data: bytes, path: Path) -> "_Source":
        def refused(message: str, remedy: str, line: int = 0) -> ConfigurationError:
            return ConfigurationError(
                [FileProblem(file=str(path), message=message, remedy=remedy, line=line)]
            )

        if len(data) > LARGEST:
            raise refused(TOO_LARGE, TOO_LARGE_REMEDY)
        try:
            document = reader.yaml_document(data, RULES)
        except parser.DocumentError as error:
            raise refused(NOT_YAML.format(why=error), error.remedy, error.line) from None
        if document is None:
            raise refused(EMPTY, EMPTY_REMEDY)
        return cls(document.value, path, data, document.line)

    def problems(self, found: Iterable[Problem]) -> list[FileProblem]:
        document = reader.Document(value=None, number=1, line=self.first)
        places = positions.places_of(self.data, document)

        def line_of(path: Steps) -> int:
            while path and path not in places:
                path = path[:-1]
            return places[path].line if path else self.first

        placed = [
            FileProblem(
                file=str(self.path),
                line=line_of(each.path),
                field=format_path(each.path),
                message=each.message,
                remedy=each.remedy,
            )
            for each in found
        ]
        return sorted(placed, key=lambda each: each.line)


class _Loader:
    def __init__(self, source: _Source | None, *, base: Base, supervisor: Supervisor) -> None:
        self._source = source
        self._base = base
        self._supervisor = supervisor
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []
        self._broken: list[BrokenPlugin] = []
        self._registry = base.registry()
        self._origins: dict[str, str] = {}

    def load(
        self,
        configuration: SchedulerConfiguration,
        problems: Iterable[Problem],
        notes: Iterable[Problem],
        *,
        adapts: bool = False,
    ) -> Scheduling:
        """``adapts`` is whether the configuration is one of kube-scheduler."""
        self._problems += problems
        self._notes += notes
        configuration = self._with_defaults(configuration)
        self._register(configuration)
        points: dict[str, frozenset[str]] = {
            name: points_of(self._registry.kind(name)) & EXTENSION_POINTS.keys()
            for name in self._registry.names()
        }
        points |= self._base.provided
        profiles = [self._prepare(each, points, adapts=adapts) for each in configuration.profiles]
        configuration = replace(configuration, profiles=tuple(profiles))
        resolved: list[ResolvedProfile] = []
        for profile in profiles:
            found, wrong = resolve(
                profile, defaults=self._base.sets, points=points, required=self._base.required
            )
            resolved.append(found)
            self._problems += map(self._explain_broken, wrong)
        self._raise_problems()
        specs = {each.name: _spec_of(each) for each in resolved}
        built = {
            profile.name: self._build(profile, specs[profile.name], found)
            for profile, found in zip(profiles, resolved, strict=True)
        }
        self._raise_problems()
        return Scheduling(
            configuration=configuration,
            resolved=tuple(resolved),
            profiles={name: each for name, each in built.items() if each is not None},
            specs=specs,
            is_kube=adapts,
            notes=() if self._source is None else tuple(self._source.problems(_once(self._notes))),
            registry=self._registry,
            plugins=tuple(
                PluginInfo(
                    name=name,
                    origin=self._origins.get(name, BUILT_IN),
                    points=tuple(point for point in EXTENSION_POINTS if point in points[name]),
                )
                for name in sorted({*self._origins, *self._base.provided})
            ),
            broken=tuple(self._broken),
            supervisor=self._supervisor,
        )

    def _with_defaults(self, configuration: SchedulerConfiguration) -> SchedulerConfiguration:
        """Check the names of the profiles, and add those that the file leaves out."""
        used = tuple(each for each in configuration.profiles if not self._base.skips(each.name))
        if not used and self._base.default_profile:
            used = (ProfileConfiguration(name=self._base.default_profile),)
        configuration = replace(configuration, profiles=used)
        known = self._base.profiles
        for each in configuration.profiles:
            near = get_close_matches(each.name, known or self._base.other_profiles, n=1)
            if each.name and each.name not in known and (known or near):
                remedy = NEAR.format(near=near[0]) if near else USED_PROFILES.format(names=", ".join(known))
                problem = Problem(
                    path=(*each.path, "schedulerName"),
                    message=UNUSED_PROFILE.format(name=each.name),
                    remedy=remedy,
                )
                self._problems.append(problem)
        given = {each.name for each in configuration.profiles}
        missing = tuple(ProfileConfiguration(name=name) for name in known if name not in given)
        return replace(configuration, profiles=(*configuration.profiles, *missing))

    def _prepare(
        self, profile: ProfileConfiguration, points: Points, *, adapts: bool
    ) -> ProfileConfiguration:
        """Decode the arguments of a profile; if it is one of kube-scheduler, leave out what has no effect here."""
        if adapts:
            adapted = adapt(profile, points)
            self._problems += adapted.problems
            self._notes += adapted.notes
            profile = adapted.profile
        if self._base.decode_args is None:
            return profile
        plugin_config = []
        for each in profile.plugin_config:
            decoded = self._base.decode_args(each)
            self._problems += decoded.problems
            self._notes += decoded.notes
            plugin_config.append(replace(each, args=decoded.args))
        return replace(profile, plugin_config=tuple(plugin_config))

    def _raise_problems(self) -> None:
        if self._problems and self._source is not None:
            raise ConfigurationError(self._source.problems(self._problems))

    def _register(self, configuration: SchedulerConfiguration) -> None:
        for name in self._registry.names():
            self._origins[name] = BUILT_IN
        found: list[FoundPlugin] = []
        for each in installed():
            if isinstance(each, BrokenPlugin):
                self._broken.append(each)
            else:
                found.append(each)
        self._add(found)
        for file in configuration.plugin_files:
            if not file.name or self._source is None:
                continue
            shown = str(self._source.path.parent / file.name)
            before = len(self._broken)
            try:
                self._add(in_file(self._source.path.parent / file.name, shown=shown))
            except LoadingError as error:
                self._problems.append(Problem(path=file.path, message=str(error), remedy=error.remedy))
            for broken in self._broken[before:]:
                self._problems.append(Problem(path=file.path, message=broken.reason))

    def _add(self, found: Iterable[FoundPlugin]) -> None:
        for each in check_taken(found, self._origins):
            if isinstance(each, BrokenPlugin):
                self._broken.append(each)
                continue
            kind = guarded_class(each.kind)
            self._registry.register(each.name, guarded_factory(each.kind, kind, self._supervisor), kind=kind)

    def _explain_broken(self, problem: Problem) -> Problem:
        """Say why a plugin is unknown if it is one of those that cannot be loaded."""
        for each in self._broken:
            if f"{each.name!r}" in problem.message and problem.path[-1:] == ("name",):
                return Problem(path=problem.path, message=str(each), remedy=REPAIR)
        return problem

    def _build(
        self, profile: ProfileConfiguration, spec: ProfileSpec, found: ResolvedProfile
    ) -> Profile | None:
        provided = self._base.provided
        points = {
            point: tuple(each for each in plugins if each.plugin not in provided)
            for point, plugins in spec.points.items()
        }
        try:
            broken = {each.name: str(each) for each in self._broken if each.name not in self._origins}
            args = {name: each for name, each in spec.args.items() if name not in provided}
            return build_profile(replace(spec, points=points, args=args), self._registry, broken=broken)
        except PluginArgsError:
            self._problems += self._wrong_args(profile, found)
            return None

    def _wrong_args(self, profile: ProfileConfiguration, found: ResolvedProfile) -> Iterable[Problem]:
        given = {each.name: each.path for each in profile.plugin_config}
        for name in found.plugins():
            if name in self._base.provided:
                continue
            try:
                self._registry.build(name, found.args.get(name))
            except PluginArgsError as error:
                path = given.get(name)
                where = (*path, "args") if path is not None else self._enabled_at(profile, name)
                yield Problem(path=where, message=str(error))

    @staticmethod
    def _enabled_at(profile: ProfileConfiguration, name: str) -> Steps:
        for name_of_set in (*profile.sets, MULTI_POINT):
            for each in profile.at(name_of_set).enabled:
                if each.name == name:
                    return each.path
        return profile.path


def _once(notes: Iterable[Problem]) -> Iterable[Problem]:
    """Return the notes, those that several profiles share only once."""
    return {(each.message, each.remedy): each for each in reversed(list(notes))}.values()


def _spec_of(found: ResolvedProfile) -> ProfileSpec:
    return ProfileSpec(
        name=found.name,
        points={
            point: tuple(Enabled(each.name, each.weight) for each in plugins)
            for point, plugins in found.points.items()
        },
        args=found.args,
        on_fault=OnFault(found.on_plugin_fault),
    )
