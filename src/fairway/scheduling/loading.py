"""Load a SchedulerConfiguration or a KubeSchedulerConfiguration: read the file, find plugins, resolve the profiles.

All problems of a file are raised at once, each with file, line, field, reason and remedy.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final

from fairway.engine.errors import PluginArgsError
from fairway.engine.kind import WorkKind
from fairway.engine.points import EXTENSION_POINTS, Plugin
from fairway.engine.profile import Enabled, OnFault, Profile, ProfileSpec, build_profile
from fairway.engine.registry import Registry
from fairway.scheduling.configuration import (
    API_VERSION,
    KIND,
    MULTI_POINT,
    NEAR,
    POINT_FIELDS,
    Decoder,
    Problem,
    ProfileConfiguration,
    SchedulerConfiguration,
    Steps,
    format_path,
)
from fairway.scheduling.discovery import (
    FIX_FILE,
    BrokenPlugin,
    FoundPlugin,
    LoadingError,
    check_taken,
    in_file,
    installed,
    registered,
)
from fairway.scheduling.guard import Supervisor, guarded_class, guarded_factory
from fairway.scheduling.isolation import (
    ISOLATED_POINTS,
    Isolation,
    StartError,
    describe,
    file_source,
    isolated_class,
    isolated_factory,
    package_source,
)
from fairway.scheduling.kinds import WITH_ONE_PROFILE, kind_of
from fairway.scheduling.kube_configuration import (
    KubeDecoder,
    adapt,
    is_kube_configuration,
)
from fairway.scheduling.pod_args import decode_args
from fairway.scheduling.resolution import Points, ResolvedProfile, default_sets, resolve
from fairway.workloads.pods.profile import POD_KIND
from kubewire.documents import parser, positions, reader, scalars

LARGEST_FILE: Final = 1 << 20
"""Maximum size of a configuration in bytes."""
RULES: Final = parser.Rules(depth=40, resolve=scalars.resolve_core)

UNREADABLE: Final = "cannot be read ({why}); check the path"
TOO_LARGE: Final = f"is larger than {LARGEST_FILE >> 20} MiB"
TOO_LARGE_REMEDY: Final = "this is probably another file"
EMPTY: Final = "is empty"
EMPTY_REMEDY: Final = f"write at least apiVersion: {API_VERSION} and kind: {KIND}"
NOT_YAML: Final = "is not valid YAML: {why}"
UNUSED_PROFILE: Final = "no workload uses profile {name!r}"
USED_PROFILES: Final = "write one of {names}; the controller machines uses others, for pods"
CONFIGURES_PODS: Final = "a KubeSchedulerConfiguration configures pods, and no pods are scheduled"
RUN_MACHINES: Final = f"run the controller machines, or write kind: {KIND} for Placements"
ISOLATED_BUILT_IN: Final = "plugin {name!r} is built in, and isolation is for third-party plugins"
NOT_ISOLATED_HERE: Final = (
    "plugin {name!r} places {kind}, and only plugins of Placements can have a process of their own"
)
NO_ISOLATION: Final = "remove isolation"
NOT_ISOLATED_AT: Final = "plugin {name!r} runs in a process of its own, which a {point} plugin cannot"
NOT_ISOLATED_AT_REMEDY: Final = (
    "remove its isolation, or enable it only at {points}; divide a plugin that needs both into two"
)
NOT_STARTED: Final = "{place}: the process that imported it {error}"
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
class Scheduling:
    """What a configuration says about one kind of work."""

    kind: WorkKind
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
        for plugin in self.plugins:
            if plugin.origin != BUILT_IN:
                factory = partial(_build_registered, self.registry, plugin.name)
                registry.register(plugin.name, factory, kind=self.registry.kind(plugin.name))

    def build(
        self, registry: Registry, *, change: Callable[[ProfileSpec], ProfileSpec] = lambda spec: spec
    ) -> list[Profile]:
        """Build the profiles with the plugins of a registry, which has the state of its caller, and third-party ones.

        ``change`` adds what each profile must have, or leaves out what the caller does not need.
        """
        self.add_third_party(registry)
        return [build_profile(change(spec), registry) for spec in self.specs.values()]

    @property
    def profile(self) -> Profile:
        """Return the profile of a kind that has only one, without plugins that a controller creates."""
        return self.profiles[self.kind.profile]

    def quarantined(self) -> Mapping[str, bool]:
        """Return whether each third-party plugin is in quarantine now."""
        now, quarantine = self.supervisor.clock(), self.supervisor.quarantine
        return {
            plugin.name: quarantine.until(plugin.name, now=now) is not None
            for plugin in self.plugins
            if plugin.origin != BUILT_IN
        }


def load(
    path: Path | None,
    *,
    kind: WorkKind,
    supervisor: Supervisor,
    beside: Iterable[WorkKind] = WITH_ONE_PROFILE,
) -> Scheduling:
    """Load the profiles of one kind of work from a file; None for the default configuration with installed plugins.

    ``beside`` are other kinds whose profiles the file may have; they are skipped. Raises ConfigurationError.
    """
    if path is None:
        loader = _Loader(None, supervisor=supervisor, kind=kind, beside=beside)
        return loader.load(SchedulerConfiguration(), (), ())
    return parse(_read(path), path=path, kind=kind, supervisor=supervisor, beside=beside)


def parse(
    data: bytes,
    *,
    path: Path,
    kind: WorkKind,
    supervisor: Supervisor,
    beside: Iterable[WorkKind] = WITH_ONE_PROFILE,
) -> Scheduling:
    """Load a configuration from text; files of plugins are relative to ``path``. Raises ConfigurationError."""
    source = _Source.parse(data, path)
    loader = _Loader(source, supervisor=supervisor, kind=kind, beside=beside)
    if not is_kube_configuration(source.value):
        return loader.load(*_decoded(Decoder(), source))
    if kind is POD_KIND:
        return loader.load(*_decoded(KubeDecoder(), source), adapts=True)
    problems = (Problem(path=("kind",), message=CONFIGURES_PODS, remedy=RUN_MACHINES),)
    return loader.load(SchedulerConfiguration(), () if POD_KIND in beside else problems, ())


def _decoded(
    decoder: Decoder, source: "_Source"
) -> tuple[SchedulerConfiguration, list[Problem], list[Problem]]:
    return decoder.configuration(source.value), decoder.problems, decoder.notes


def _build_registered(registry: Registry, name: str, **args: Any) -> Plugin:
    return registry.build(name, args)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_FILE + 1)
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

        if len(data) > LARGEST_FILE:
            raise refused(TOO_LARGE, TOO_LARGE_REMEDY)
        try:
            document = reader.yaml_document(data, RULES)
        except parser.DocumentError as error:
            raise refused(NOT_YAML.format(why=error), error.remedy, error.line) from None
        if document is None:
            raise refused(EMPTY, EMPTY_REMEDY)
        return cls(document.value, path, data, document.line)

    def problems(self, problems: Iterable[Problem]) -> list[FileProblem]:
        document = reader.Document(value=None, number=1, line=self.first)
        places = positions.places_of(self.data, document)

        def line_of(path: Steps) -> int:
            while path and path not in places:
                path = path[:-1]
            return places[path].line if path else self.first

        placed = [
            FileProblem(
                file=str(self.path),
                line=line_of(problem.path),
                field=format_path(problem.path),
                message=problem.message,
                remedy=problem.remedy,
            )
            for problem in problems
        ]
        return sorted(placed, key=lambda problem: problem.line)


class _Loader:
    def __init__(
        self,
        source: _Source | None,
        *,
        kind: WorkKind,
        beside: Iterable[WorkKind],
        supervisor: Supervisor,
    ) -> None:
        self._source = source
        self._kind = kind
        self._kinds = tuple(dict.fromkeys((kind, *beside)))
        """All kinds that the file may configure."""
        self._supervisor = supervisor
        self._problems: list[Problem] = []
        self._notes: list[Problem] = []
        self._broken: list[BrokenPlugin] = []
        self._registry = kind.registry()
        self._origins: dict[str, str] = {}
        self._isolated: Mapping[str, Isolation] = {}
        """By plugin, also of profiles that are skipped."""

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
        self._isolated = _isolated(configuration)
        configuration = self._with_defaults(configuration)
        self._check_isolation(configuration)
        self._register(configuration)
        points = {name: self._registry.points(name) for name in self._registry.names()}
        profiles = [self._prepare(profile, points, adapts=adapts) for profile in configuration.profiles]
        configuration = replace(configuration, profiles=tuple(profiles))
        resolved: list[ResolvedProfile] = []
        for profile in profiles:
            result, wrong = resolve(
                profile,
                defaults=default_sets(self._kind),
                points=points,
                required=self._kind.required,
                essential=self._kind.essential,
            )
            resolved.append(result)
            self._problems += map(self._explain_broken, wrong)
            self._problems += self._check_isolated_points(profile, result)
        self._raise_problems()
        specs = {profile.name: _spec_of(profile) for profile in resolved}
        built = {
            profile.name: self._build(profile, specs[profile.name], result)
            for profile, result in zip(profiles, resolved, strict=True)
        }
        self._raise_problems()
        return Scheduling(
            kind=self._kind,
            configuration=configuration,
            resolved=tuple(resolved),
            profiles={
                name: built_profile for name, built_profile in built.items() if built_profile is not None
            },
            specs=specs,
            is_kube=adapts,
            notes=() if self._source is None else tuple(self._source.problems(_once(self._notes))),
            registry=self._registry,
            plugins=tuple(
                PluginInfo(
                    name=name,
                    origin=self._origins[name],
                    points=tuple(point for point in EXTENSION_POINTS if point in points[name]),
                )
                for name in sorted(self._origins)
            ),
            broken=tuple(self._broken),
            supervisor=self._supervisor,
        )

    def _with_defaults(self, configuration: SchedulerConfiguration) -> SchedulerConfiguration:
        """Check the names of the profiles, and add those that the file leaves out."""
        used: list[ProfileConfiguration] = []
        for profile in configuration.profiles:
            owner = kind_of(profile.name, self._kinds)
            if owner is None or owner is self._kind:
                self._check_profile_name(profile, is_used=owner is not None)
                used.append(profile)
        own = self._kind.profile
        if not used or not (self._kind.names_profiles or any(profile.name == own for profile in used)):
            used.append(ProfileConfiguration(name=own))
        return replace(configuration, profiles=tuple(used))

    def _check_profile_name(self, profile: ProfileConfiguration, *, is_used: bool) -> None:
        """Report a name that no workload has, or that is similar to a reserved one: it is probably misspelt."""
        reserved = [kind.profile for kind in self._kinds if not kind.names_profiles]
        near = get_close_matches(profile.name, reserved, n=1)
        if not profile.name or profile.name in reserved or (is_used and not near):
            return
        self._problems.append(
            Problem(
                path=(*profile.path, "schedulerName"),
                message=UNUSED_PROFILE.format(name=profile.name),
                remedy=NEAR.format(near=near[0]) if near else USED_PROFILES.format(names=", ".join(reserved)),
            )
        )

    def _prepare(
        self, profile: ProfileConfiguration, points: Points, *, adapts: bool
    ) -> ProfileConfiguration:
        """Decode the arguments of a profile; if it is one of kube-scheduler, leave out what has no effect here."""
        if adapts:
            adapted = adapt(profile, points)
            self._problems += adapted.problems
            self._notes += adapted.notes
            profile = adapted.profile
        if self._kind is not POD_KIND:
            return profile
        plugin_config = []
        for entry in profile.plugin_config:
            decoded = decode_args(entry)
            self._problems += decoded.problems
            self._notes += decoded.notes
            plugin_config.append(replace(entry, args=decoded.args))
        return replace(profile, plugin_config=tuple(plugin_config))

    def _raise_problems(self) -> None:
        if self._problems and self._source is not None:
            raise ConfigurationError(self._source.problems(self._problems))

    def _register(self, configuration: SchedulerConfiguration) -> None:
        for name in self._registry.names():
            self._origins[name] = BUILT_IN
        packages: list[FoundPlugin | BrokenPlugin] = list(
            installed(start=self._supervisor.watch.start, apart=self._isolated)
        )
        packages += self._describe_packages()
        self._broken += (plugin for plugin in packages if isinstance(plugin, BrokenPlugin))
        self._add(plugin for plugin in packages if isinstance(plugin, FoundPlugin))
        # Names are those of one kind of work. A plugin of another kind may have the name of a built-in one of this
        # kind, and that matters only where something of this kind could mean either.
        is_used = self._kind.selects_plugins or any(profile.path for profile in configuration.profiles)
        for file in configuration.plugin_files:
            if not file.name or self._source is None:
                continue
            before = len(self._broken)
            try:
                self._add(self._in_file(self._source.path.parent / file.name))
            except LoadingError as error:
                self._problems.append(Problem(path=file.path, message=str(error), remedy=error.remedy))
            if is_used:
                for broken in self._broken[before:]:
                    self._problems.append(Problem(path=file.path, message=broken.reason))

    def _in_file(self, path: Path) -> Iterable[FoundPlugin]:
        """Return the plugins of a file. It is imported only if it has one without isolation. Raises LoadingError."""
        shown, apart = str(path), {}
        if self._isolated.keys() - self._origins.keys():
            source = file_source(path, shown=shown)
            try:
                described = describe(source)
            except StartError as error:
                message = str(error) if error.remedy else NOT_STARTED.format(place=shown, error=error)
                raise LoadingError(message, error.remedy or FIX_FILE) from None
            apart = {
                plugin.name: FoundPlugin(
                    name=plugin.name, kind=isolated_class(plugin), origin=shown, source=source
                )
                for plugin in described
                if plugin.name in self._isolated
            }
            if len(apart) == len(described):
                return apart.values()
        plugins = in_file(path, shown=shown, start=self._supervisor.watch.start)
        return [apart.get(plugin.name, plugin) for plugin in plugins]

    def _describe_packages(self) -> Iterable[FoundPlugin | BrokenPlugin]:
        for (origin, name), point in sorted(registered().items()):
            if name not in self._isolated:
                continue
            source = package_source(point)
            try:
                (described,) = describe(source, name)
            except StartError as error:
                yield BrokenPlugin(name=name, origin=origin, reason=str(error))
            else:
                yield FoundPlugin(name=name, kind=isolated_class(described), origin=origin, source=source)

    def _add(self, plugins: Iterable[FoundPlugin]) -> None:
        for plugin in check_taken(plugins, self._origins):
            if isinstance(plugin, BrokenPlugin):
                self._broken.append(plugin)
            elif plugin.source is not None:
                factory = isolated_factory(
                    plugin.source,
                    plugin.kind,
                    name=plugin.name,
                    isolation=self._isolated[plugin.name],
                    supervisor=self._supervisor,
                )
                self._registry.register(plugin.name, factory, kind=plugin.kind)
            else:
                kind = guarded_class(plugin.kind)
                guarded = guarded_factory(plugin.kind, kind, self._supervisor)
                self._registry.register(plugin.name, guarded, kind=kind)

    def _check_isolation(self, configuration: SchedulerConfiguration) -> None:
        for profile in configuration.profiles:
            for entry in profile.plugin_config:
                if not entry.isolated:
                    continue
                message = ""
                if entry.name in self._registry:
                    message = ISOLATED_BUILT_IN.format(name=entry.name)
                elif not self._kind.isolates:
                    message = NOT_ISOLATED_HERE.format(name=entry.name, kind=self._kind.name)
                if message:
                    path = (*entry.path, "isolation")
                    self._problems.append(Problem(path=path, message=message, remedy=NO_ISOLATION))

    def _check_isolated_points(
        self, profile: ProfileConfiguration, resolved: ResolvedProfile
    ) -> Iterable[Problem]:
        apart = {entry.name for entry in profile.plugin_config if entry.isolated}
        for name_of_set, point in POINT_FIELDS.items():
            for plugin in resolved.points.get(point, ()):
                if plugin.name in apart and plugin.name in self._registry and point not in ISOLATED_POINTS:
                    here = [
                        entry.path for entry in profile.at(name_of_set).enabled if entry.name == plugin.name
                    ]
                    yield Problem(
                        path=here[0] if here else self._enabled_at(profile, plugin.name),
                        message=NOT_ISOLATED_AT.format(name=plugin.name, point=point),
                        remedy=NOT_ISOLATED_AT_REMEDY.format(
                            points=", ".join(
                                isolated_point
                                for isolated_point in ISOLATED_POINTS
                                if isolated_point in POINT_FIELDS.values()
                            )
                        ),
                    )

    def _explain_broken(self, problem: Problem) -> Problem:
        """Return the problem with the reason why a plugin is unknown, if it is one that cannot be loaded."""
        for plugin in self._broken:
            if f"{plugin.name!r}" in problem.message and problem.path[-1:] == ("name",):
                return Problem(path=problem.path, message=str(plugin), remedy=REPAIR)
        return problem

    def _build(
        self, profile: ProfileConfiguration, spec: ProfileSpec, resolved: ResolvedProfile
    ) -> Profile | None:
        try:
            broken = {plugin.name: str(plugin) for plugin in self._broken if plugin.name not in self._origins}
            return build_profile(spec, self._registry, broken=broken)
        except PluginArgsError:
            self._problems += self._wrong_args(profile, resolved)
            return None

    def _wrong_args(self, profile: ProfileConfiguration, resolved: ResolvedProfile) -> Iterable[Problem]:
        path_by_name = {entry.name: entry.path for entry in profile.plugin_config}
        for name in resolved.plugins():
            if self._registry.is_declared(name):
                continue
            try:
                self._registry.build(name, resolved.args.get(name))
            except PluginArgsError as error:
                path = path_by_name.get(name)
                where = (*path, "args") if path is not None else self._enabled_at(profile, name)
                yield Problem(path=where, message=str(error))

    @staticmethod
    def _enabled_at(profile: ProfileConfiguration, name: str) -> Steps:
        for name_of_set in (*profile.sets, MULTI_POINT):
            for entry in profile.at(name_of_set).enabled:
                if entry.name == name:
                    return entry.path
        return profile.path


def _isolated(configuration: SchedulerConfiguration) -> Mapping[str, Isolation]:
    return {
        entry.name: Isolation(memory_limit=entry.memory_limit)
        for profile in configuration.profiles
        for entry in profile.plugin_config
        if entry.isolated
    }


def _once(notes: Iterable[Problem]) -> Iterable[Problem]:
    """Return the notes, those that several profiles share only once."""
    return {(note.message, note.remedy): note for note in reversed(list(notes))}.values()


def _spec_of(resolved: ResolvedProfile) -> ProfileSpec:
    return ProfileSpec(
        name=resolved.name,
        points={
            point: tuple(Enabled(plugin.name, plugin.weight) for plugin in plugins)
            for point, plugins in resolved.points.items()
        },
        args=resolved.args,
        on_fault=OnFault(resolved.on_plugin_fault),
    )
