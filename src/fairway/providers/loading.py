"""Load a provider by file, by module, or by the name of an entry point.

``queue.py``, ``queue.py:queue``, ``company.scores:queue``, or ``queue`` from the entry points of ``GROUP``. The target
may be a Provider, a Provider class without constructor arguments, or a factory as in ``catalogue``. It is third-party
code, so it runs in a sandbox.
"""

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Mapping
from difflib import get_close_matches
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from fairway.providers.catalogue import CATALOGUE, Context, Factory, OptionsError
from fairway.providers.message_format import describe
from fairway.providers.provider import Provider

GROUP: Final = "fairway.providers"
"""Entry point group."""

NO_FILE: Final = "there is no file {path}; check the path"
NOT_PYTHON: Final = "{path} is not a Python file: its name must end with .py"
BAD_SYNTAX: Final = "{path}:{line}: invalid Python: {message}"
IMPORT_FAILED: Final = "{place}: running it failed: {error}"
NO_MODULE: Final = "there is no module {module!r}"
NO_ATTRIBUTE: Final = "{place} has no {name!r}{hint}"
NO_PROVIDER: Final = (
    "{place} has no provider; put @provider(...) above a function, or write a class of Provider"
)
UNFINISHED: Final = "{place}:{name} has no method {missing}"
SEVERAL: Final = "{place} has several providers: {names}; name one, as in {example}"
NOT_A_PROVIDER: Final = "{place}:{name} is {kind}, not a provider"
BARE_FUNCTION: Final = (
    "{place}:{name} is a function, not a provider: put @provider(...) above it, "
    "or let it take options and context"
)
NEEDS_ARGUMENTS: Final = "{place}:{name} cannot be made without arguments: {error}"
UNKNOWN_NAME: Final = "there is no provider {name!r}{hint}; `fairway provider list` shows those there are"
TAKES_NO_OPTIONS: Final = "this provider takes no options; leave out --config"
NEAR: Final = ", did you mean {near!r}?"
AMONG: Final = "; it has {names}"

_PREFIX: Final = "fairway_provider_file_"


class LoadingError(Exception):
    """The named provider cannot be loaded. The message names the place that was searched."""


def load(target: str) -> Factory:
    """Return the factory of ``target``. Raises LoadingError."""
    if target in CATALOGUE:
        return CATALOGUE[target].factory()
    path, name = _split(target)
    if path is not None:
        module = _from_file(path)
        return _in_sandbox(_resolve(module, name, place=str(path)))
    module_name, colon, attribute = target.partition(":")
    if colon:
        return _in_sandbox(_resolve(_from_module(module_name), attribute, place=module_name))
    return _in_sandbox(_from_entry_point(target))


def installed() -> Mapping[str, EntryPoint]:
    """Entry points of installed packages by name, without the built-in providers."""
    return {
        entry_point.name: entry_point
        for entry_point in entry_points(group=GROUP)
        if entry_point.name not in CATALOGUE
    }


def _split(target: str) -> tuple[Path | None, str]:
    """Split into a file and a name in it; (None, "") if the target is not a file."""
    head, colon, tail = target.rpartition(":")
    if colon and head.endswith(".py") and tail.isidentifier():
        return Path(head), tail
    if target.endswith(".py") or "/" in target or Path(target).is_file():
        return Path(target), ""
    return None, ""


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise LoadingError(NO_FILE.format(path=path))
    if path.suffix != ".py":
        raise LoadingError(NOT_PYTHON.format(path=path))
    name = _PREFIX + "".join(character if character.isalnum() else "_" for character in path.stem)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  #  dataclasses and pickle look it up there
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        # Modules beside the file can be imported, as with `python FILE`. Appended, because a queue.py must not
        # shadow the standard library's.
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[name]
        raise LoadingError(
            BAD_SYNTAX.format(path=error.filename or path, line=error.lineno, message=error.msg)
        ) from None
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise LoadingError(_import_failure(error, path)) from error
    return module


def _import_failure(error: BaseException, path: Path) -> str:
    own = str(path.resolve())
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == own]
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return IMPORT_FAILED.format(place=place, error=describe(error))


def _from_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise LoadingError(NO_MODULE.format(module=name)) from None
        raise LoadingError(IMPORT_FAILED.format(place=name, error=describe(error))) from error
    except SyntaxError as error:
        raise LoadingError(
            BAD_SYNTAX.format(path=error.filename, line=error.lineno, message=error.msg)
        ) from None
    except (Exception, SystemExit) as error:
        raise LoadingError(IMPORT_FAILED.format(place=name, error=describe(error))) from error


def _from_entry_point(name: str) -> Factory:
    known = installed()
    point = known.get(name)
    if point is None:
        near = get_close_matches(name, [*CATALOGUE, *known], n=1)
        hint = NEAR.format(near=near[0]) if near else ""
        raise LoadingError(UNKNOWN_NAME.format(name=name, hint=hint))
    module = _from_module(point.module)
    return _resolve(module, point.attr, place=point.module)


def _resolve(module: ModuleType, name: str, *, place: str) -> Factory:
    if not name:
        return _single_provider(module, place)
    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            names = list(_providers(module))
            near = get_close_matches(
                name, [defined for defined in vars(module) if not defined.startswith("_")], n=1
            )
            hint = NEAR.format(near=near[0]) if near else ""
            hint = hint or (AMONG.format(names=", ".join(names)) if names else "")
            raise LoadingError(NO_ATTRIBUTE.format(place=place, name=name, hint=hint)) from None
    return _factory(value, name, place)


def _single_provider(module: ModuleType, place: str) -> Factory:
    providers = _providers(module)
    if not providers:
        raise LoadingError(_missing_methods(module, place) or NO_PROVIDER.format(place=place))
    names = sorted(providers)
    if len(names) > 1:
        raise LoadingError(SEVERAL.format(place=place, names=", ".join(names), example=f"{place}:{names[0]}"))
    return _factory(providers[names[0]], names[0], place)


def _missing_methods(module: ModuleType, place: str) -> str:
    """Describe the first abstract Provider class of the module; empty if there is none."""
    for name, value in vars(module).items():
        if inspect.isabstract(value) and issubclass(value, Provider) and value.__module__ == module.__name__:
            missing = ", ".join(sorted(value.__abstractmethods__))
            return UNFINISHED.format(place=place, name=name, missing=missing)
    return ""


def _providers(module: ModuleType) -> dict[str, Any]:
    """Providers that the module defines, by name. A provider with two names is listed once."""
    providers: dict[str, Any] = {}
    for name, value in vars(module).items():
        if name.startswith("_") or any(value is other for other in providers.values()):
            continue
        if isinstance(value, Provider) or (_is_class(value) and value.__module__ == module.__name__):
            providers[name] = value
    # The class of an instance in the module is not another provider.
    made = {type(value) for value in providers.values() if isinstance(value, Provider)}
    return {name: value for name, value in providers.items() if value not in made}


def _is_class(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Provider) and not inspect.isabstract(value)


def _factory(value: Any, name: str, place: str) -> Factory:
    if isinstance(value, Provider):
        return _constant_factory(value)
    if _is_class(value):
        try:
            return _constant_factory(value())
        except Exception as error:
            raise LoadingError(
                NEEDS_ARGUMENTS.format(place=place, name=name, error=describe(error))
            ) from error
    if not callable(value) or isinstance(value, type):
        kind = f"a {type(value).__name__}"
        raise LoadingError(NOT_A_PROVIDER.format(place=place, name=name, kind=kind))
    try:
        inspect.signature(value).bind({}, None)
    except (TypeError, ValueError):
        raise LoadingError(BARE_FUNCTION.format(place=place, name=name)) from None

    def checked_factory(options: Mapping[str, Any], context: Context) -> Provider:
        made: object = value(options, context)
        if not isinstance(made, Provider):
            kind = f"a factory of {type(made).__name__}"
            raise LoadingError(NOT_A_PROVIDER.format(place=place, name=name, kind=kind))
        return made

    return checked_factory


def _constant_factory(provider: Provider) -> Factory:
    def factory(options: Mapping[str, Any], _: Context) -> Provider:
        if options:
            raise OptionsError(TAKES_NO_OPTIONS)
        return provider

    return factory


def _in_sandbox(factory: Factory) -> Factory:
    def made(options: Mapping[str, Any], context: Context) -> Provider:
        provider = factory(options, context)
        object.__setattr__(provider, "isolated", True)  # also where its class is frozen
        return provider

    return made
