"""Find third-party plugins: classes of installed packages (entry points) and of Python files.

A package registers a plugin with an entry point of the group ``fairway.plugins``, whose name is the plugin's:

    [project.entry-points."fairway.plugins"]
    Cheapest = "example.scheduling:Cheapest"

A Python file contributes every plugin class that it defines. A package that cannot be imported is reported with its
name; it stops the start only if a profile names its plugin.
"""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, Protocol

from fairway.engine.fault import Stalled, description_of
from fairway.engine.forms import calls_of, points_of
from fairway.engine.points import EXTENSION_POINTS
from fairway.scheduling.guard import START_SECONDS
from fairway.scheduling.interrupts import Interrupts

GROUP: Final = "fairway.plugins"
"""Entry point group."""

BAD_SYNTAX: Final = "{path}:{line}: invalid Python: {message}"
IMPORT_FAILED: Final = "{place}: running it failed: {error}"
STALLED: Final = "did not end within {limit:g} seconds and was interrupted"
NO_FILE: Final = "there is no file {path}"
NOT_PYTHON: Final = "{path} is not a Python file: its name must end with .py"
NO_PLUGIN: Final = "{path} defines no plugin"
NO_PLUGIN_REMEDY: Final = "define a class with a name and a method such as filter or score"
FIX_FILE: Final = "fix the file, or remove it from pluginFiles"
WRITE_PATH: Final = "write a path relative to the configuration"
NOT_A_PLUGIN: Final = "{place} is {kind}, not a plugin class"
NO_NAME: Final = "{place} has no attribute name, the name of the plugin"
OTHER_NAME: Final = "{place} has the name {name!r}, but is registered as {given!r}"
NO_POINT: Final = "{place} implements no extension point{hint}"
NEAR_METHODS: Final = "; it has {methods}, and a plugin has methods such as filter, score or permit"
NAME_TAKEN: Final = "{place} has the name of plugin {name!r} of {origin}"
RENAME: Final = "give it another name"

_PREFIX: Final = "fairway_plugin_file_"


WRONG_METHOD: Final = "{place}.{name} (line {line}) {problem}"
WRONG_SIGNATURE: Final = "takes ({own}), but is called with ({wanted})"
NOT_ASYNC: Final = "is a coroutine, but is called within a cycle, which does not wait"
WRITE_METHOD: Final = "write `def {name}({wanted})`"


class LoadingError(Exception):
    """A plugin cannot be loaded; the message names the place."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlugin:
    name: str
    kind: type[Any]
    origin: str
    """The package with its version, or the file."""
    source: Any = None
    """Where a process of its own imports it; None if it runs in this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPlugin:
    """An entry point that cannot be used."""

    name: str
    origin: str
    reason: str

    def __str__(self) -> str:
        return f"plugin {self.name!r} of {self.origin} cannot be loaded: {self.reason}"


class Start(Protocol):
    """Calls a function with the limit of START_SECONDS. Raises Stalled."""

    def __call__(self, call: Callable[..., Any], /, *args: Any) -> Any: ...


def registered() -> dict[tuple[str, str], EntryPoint]:
    """Return the entry points of installed packages, by package and name."""
    return {
        (_origin(entry_point), entry_point.name): entry_point for entry_point in entry_points(group=GROUP)
    }


def in_package(point: EntryPoint) -> FoundPlugin:
    """Import the plugin of an entry point. Raises whatever its package raises, or LoadingError."""
    return FoundPlugin(name=point.name, kind=_load(point, point.name), origin=point.value)


def installed(*, start: Start, apart: Container[str] = ()) -> Iterator[FoundPlugin | BrokenPlugin]:
    """Yield the plugins of installed packages, in the order of package and name, except those named by ``apart``."""
    for (origin, name), point in sorted(registered().items()):
        if name in apart:
            continue
        try:
            with Interrupts():
                kind = start(_load, point, name)
        except LoadingError as error:
            yield BrokenPlugin(name=name, origin=origin, reason=str(error))
        except SyntaxError as error:
            reason = BAD_SYNTAX.format(path=error.filename, line=error.lineno, message=error.msg)
            yield BrokenPlugin(name=name, origin=origin, reason=reason)
        except Stalled:
            yield BrokenPlugin(name=name, origin=origin, reason=STALLED.format(limit=START_SECONDS))
        except BaseException as error:
            yield BrokenPlugin(name=name, origin=origin, reason=description_of(error))
        else:
            yield FoundPlugin(name=name, kind=kind, origin=origin)


def _load(point: EntryPoint, name: str) -> type[Any]:
    return _checked(point.load(), place=point.value, given=name)


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def in_file(path: Path, *, shown: str, start: Start) -> tuple[FoundPlugin, ...]:
    """Return the plugins of a Python file. ``shown`` is the path for messages. Raises LoadingError."""
    try:
        with Interrupts():
            plugins: tuple[FoundPlugin, ...] = start(_plugins_of_file, path, shown)
    except LoadingError:
        raise
    except Stalled:
        words = STALLED.format(limit=START_SECONDS)
        raise LoadingError(IMPORT_FAILED.format(place=shown, error=words), FIX_FILE) from None
    except BaseException as error:
        words = description_of(error)
        raise LoadingError(IMPORT_FAILED.format(place=shown, error=words), FIX_FILE) from None
    if not plugins:
        raise LoadingError(NO_PLUGIN.format(path=shown), NO_PLUGIN_REMEDY)
    return plugins


def _plugins_of_file(path: Path, shown: str) -> tuple[FoundPlugin, ...]:
    module = _import_file(path, shown=shown)
    plugins = []
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and _looks_like_plugin(kind):
            place = f"{shown}:{name}"
            checked = _checked(kind, place=place)
            plugins.append(FoundPlugin(name=checked.name, kind=checked, origin=shown))
    return tuple(plugins)


def _looks_like_plugin(kind: type[Any]) -> bool:
    return isinstance(getattr(kind, "name", None), str)


def _checked(kind: object, *, place: str, given: str | None = None) -> type[Any]:
    if not inspect.isclass(kind):
        raise LoadingError(NOT_A_PLUGIN.format(place=place, kind=f"a {type(kind).__name__}"))
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or not name:
        raise LoadingError(NO_NAME.format(place=place))
    if given is not None and name != given:
        raise LoadingError(OTHER_NAME.format(place=place, name=name, given=given))
    if points_of(kind).isdisjoint(EXTENSION_POINTS):
        own = [
            method for method, value in vars(kind).items() if callable(value) and not method.startswith("_")
        ]
        hint = NEAR_METHODS.format(methods=", ".join(own)) if own else ""
        raise LoadingError(NO_POINT.format(place=place, hint=hint))
    _check_signatures(kind, place=place)
    return kind


def _check_signatures(kind: type[Any], *, place: str) -> None:
    """Raise LoadingError for a method that cannot be called as the engine calls it: otherwise its first call faults."""
    for name, declared in sorted(calls_of(kind).items()):
        method = inspect.getattr_static(kind, name)
        bound = not isinstance(method, staticmethod)
        function = method.__func__ if isinstance(method, staticmethod | classmethod) else method
        if not isinstance(function, FunctionType):
            continue
        # What runs is the decorator's function, whatever it wraps.
        actual = inspect.signature(function, follow_wrapped=False)
        wanted = list(inspect.signature(declared).parameters)[not bound :]
        line = function.__code__.co_firstlineno
        problem = ""
        try:
            actual.bind(*wanted)
        except TypeError:
            own = ", ".join(actual.parameters)
            problem = WRONG_SIGNATURE.format(own=own, wanted=", ".join(wanted))
        if inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(declared):
            problem = NOT_ASYNC
        if problem:
            raise LoadingError(
                WRONG_METHOD.format(place=place, name=name, line=line, problem=problem),
                WRITE_METHOD.format(name=name, wanted=", ".join(wanted)),
            )


def _import_file(path: Path, *, shown: str) -> ModuleType:
    if not path.is_file():
        raise LoadingError(NO_FILE.format(path=shown), WRITE_PATH)
    if path.suffix != ".py":
        raise LoadingError(NOT_PYTHON.format(path=shown))
    name = _PREFIX + "".join(char if char.isalnum() else "_" for char in str(path.resolve().with_suffix("")))
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look it up there
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        own = error.filename == str(path.resolve())
        place = shown if own else error.filename
        raise LoadingError(
            BAD_SYNTAX.format(path=place, line=error.lineno, message=error.msg), FIX_FILE
        ) from None
    except Stalled:
        del sys.modules[name]
        raise
    except BaseException as error:
        del sys.modules[name]
        raise LoadingError(_import_failure(error, path, shown=shown), FIX_FILE) from error
    return module


def _import_failure(error: BaseException, path: Path, *, shown: str) -> str:
    own = str(path.resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    place = f"{shown}:{lines[-1]}" if lines else shown
    return IMPORT_FAILED.format(place=place, error=description_of(error))


def check_taken(
    plugins: Iterable[FoundPlugin], taken: dict[str, str]
) -> Iterator[FoundPlugin | BrokenPlugin]:
    """Yield the plugins whose names are free, and others as broken ones. ``taken`` maps names to origins, and grows."""
    for plugin in plugins:
        if plugin.name in taken:
            reason = NAME_TAKEN.format(
                place=plugin.kind.__qualname__, name=plugin.name, origin=taken[plugin.name]
            )
            yield BrokenPlugin(name=plugin.name, origin=plugin.origin, reason=f"{reason}; {RENAME}")
        else:
            taken[plugin.name] = plugin.origin
            yield plugin
