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
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from fairway.engine.forms import points_of
from fairway.engine.points import EXTENSION_POINTS

GROUP: Final = "fairway.plugins"
"""Entry point group."""

BAD_SYNTAX: Final = "{path}:{line}: invalid Python: {message}"
IMPORT_FAILED: Final = "{place}: running it failed: {error}"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPlugin:
    """An entry point that cannot be used."""

    name: str
    origin: str
    reason: str

    def __str__(self) -> str:
        return f"plugin {self.name!r} of {self.origin} cannot be loaded: {self.reason}"


def installed() -> Iterator[FoundPlugin | BrokenPlugin]:
    """Yield the plugins of installed packages, in the order of package and name."""
    found = {(_origin(each), each.name): each for each in entry_points(group=GROUP)}
    for (origin, name), point in sorted(found.items()):
        try:
            kind = _checked(point.load(), place=point.value, given=name)
        except LoadingError as error:
            yield BrokenPlugin(name=name, origin=origin, reason=str(error))
        except SyntaxError as error:
            reason = BAD_SYNTAX.format(path=error.filename, line=error.lineno, message=error.msg)
            yield BrokenPlugin(name=name, origin=origin, reason=reason)
        except (Exception, SystemExit) as error:
            yield BrokenPlugin(name=name, origin=origin, reason=_described(error))
        else:
            yield FoundPlugin(name=name, kind=kind, origin=origin)


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else point.value


def in_file(path: Path, *, shown: str) -> tuple[FoundPlugin, ...]:
    """Return the plugins of a Python file. ``shown`` is the path for messages. Raises LoadingError."""
    module = _import_file(path, shown=shown)
    found = []
    for name, kind in vars(module).items():
        if inspect.isclass(kind) and kind.__module__ == module.__name__ and _looks_like_plugin(kind):
            place = f"{shown}:{name}"
            checked = _checked(kind, place=place)
            found.append(FoundPlugin(name=checked.name, kind=checked, origin=shown))
    if not found:
        raise LoadingError(NO_PLUGIN.format(path=shown), NO_PLUGIN_REMEDY)
    return tuple(found)


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
        own = [each for each, value in vars(kind).items() if callable(value) and not each.startswith("_")]
        hint = NEAR_METHODS.format(methods=", ".join(own)) if own else ""
        raise LoadingError(NO_POINT.format(place=place, hint=hint))
    return kind


def _import_file(path: Path, *, shown: str) -> ModuleType:
    if not path.is_file():
        raise LoadingError(NO_FILE.format(path=shown), WRITE_PATH)
    if path.suffix != ".py":
        raise LoadingError(NOT_PYTHON.format(path=shown))
    name = _PREFIX + "".join(each if each.isalnum() else "_" for each in str(path.resolve().with_suffix("")))
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
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise LoadingError(_import_failure(error, path, shown=shown), FIX_FILE) from error
    return module


def _import_failure(error: BaseException, path: Path, *, shown: str) -> str:
    own = str(path.resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    place = f"{shown}:{lines[-1]}" if lines else shown
    return IMPORT_FAILED.format(place=place, error=_described(error))


def _described(error: BaseException) -> str:
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def check_taken(found: Iterable[FoundPlugin], taken: dict[str, str]) -> Iterator[FoundPlugin | BrokenPlugin]:
    """Yield the plugins whose names are free, and others as broken ones. ``taken`` maps names to origins, and grows."""
    for each in found:
        if each.name in taken:
            reason = NAME_TAKEN.format(place=each.kind.__qualname__, name=each.name, origin=taken[each.name])
            yield BrokenPlugin(name=each.name, origin=each.origin, reason=f"{reason}; {RENAME}")
        else:
            taken[each.name] = each.origin
            yield each
