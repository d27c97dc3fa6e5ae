"""The plugins that profiles can name.

A factory is called with the plugin's arguments as keywords, so the class of a plugin is its own factory:

    registry.register("Cheapest", Cheapest)

Other factories, which for example pass a ledger, name the class that they create, because a profile checks which
extension points a plugin implements before it creates one.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fairway.engine.errors import DuplicatePluginError, PluginArgsError, UnknownPluginError
from fairway.engine.fault import description_of, words_of
from fairway.engine.forms import points_of
from fairway.engine.points import EXTENSION_POINTS, Plugin

DUPLICATE: Final = "plugin {name} is registered already, as {kind}: choose another name"
UNKNOWN: Final = "plugin {name} is not registered; {hint}"
DID_YOU_MEAN: Final = "did you mean {names}?"
REGISTERED: Final = "registered plugins: {names}"
NONE_REGISTERED: Final = "no plugin is registered"
WRONG_ARGS: Final = "plugin {name} does not accept its arguments: {error}"
WRONG_KIND: Final = "the factory of plugin {name} returned {kind}, and was registered for {expected}"
WRONG_NAME: Final = "plugin {name} has the name {given!r}: register it under its own name"
KIND_NEEDED: Final = "plugin {name}: a factory that is not a class needs kind, the class that it creates"
COMMIT_POINTS: Final = frozenset({"Reserve", "Permit", "PreBind", "Bind", "PostBind"})
"""The extension points that follow the decision."""

PluginFactory = Callable[..., Plugin]


class Registry:
    """Plugin factories by name."""

    def __init__(self) -> None:
        self._factories: dict[str, tuple[PluginFactory, type[Any]]] = {}
        self._declared: dict[str, frozenset[str]] = {}

    def declare(self, name: str, points: Iterable[str]) -> None:
        """Add a plugin that only a controller can create, which registers it. Profiles built without it have none.

        Its extension points come after the decision: a what-if decides the same without the plugin.
        """
        assert COMMIT_POINTS.issuperset(points), name
        self._declared[name] = frozenset(points)

    def is_declared(self, name: str) -> bool:
        """Return whether a plugin is declared, and not registered."""
        return name in self._declared and name not in self._factories

    def register(self, name: str, factory: PluginFactory, *, kind: type[Any] | None = None) -> None:
        """Add a factory. ``kind`` is the class of the plugins that it creates, by default the factory itself."""
        if name in self._factories:
            known = self._factories[name][1]
            raise DuplicatePluginError(
                DUPLICATE.format(name=name, kind=f"{known.__module__}.{known.__qualname__}"), plugin=name
            )
        if kind is None:
            if not isinstance(factory, type):
                raise TypeError(KIND_NEEDED.format(name=name))
            kind = factory
        self._factories[name] = (factory, kind)

    def __contains__(self, name: object) -> bool:
        return name in self._factories or name in self._declared

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(sorted({*self._factories, *self._declared}))

    def points(self, name: str) -> frozenset[str]:
        """Return the extension points of a plugin. Raise UnknownPluginError."""
        if self.is_declared(name):
            return self._declared[name]
        return points_of(self.kind(name)) & EXTENSION_POINTS.keys()

    def kind(self, name: str) -> type[Any]:
        """Return the class of a plugin. Raise UnknownPluginError."""
        return self._find(name)[1]

    def build(self, name: str, args: Mapping[str, Any] | None = None) -> Plugin:
        """Create a plugin. Raise UnknownPluginError or PluginArgsError."""
        factory, kind = self._find(name)
        try:
            plugin: Plugin = factory(**(args or {}))
        except Exception as error:
            words = words_of(error) or description_of(error)
            raise PluginArgsError(WRONG_ARGS.format(name=name, error=words), plugin=name) from error
        if not issubclass(type(plugin), kind):
            raise PluginArgsError(
                WRONG_KIND.format(name=name, kind=type(plugin).__name__, expected=kind.__name__), plugin=name
            )
        if plugin.name != name:
            raise PluginArgsError(WRONG_NAME.format(name=name, given=plugin.name), plugin=name)
        return plugin

    def _find(self, name: str) -> tuple[PluginFactory, type[Any]]:
        factory = self._factories.get(name)
        if factory is None:
            raise UnknownPluginError(UNKNOWN.format(name=name, hint=self._hint(name)), plugin=name)
        return factory

    def _hint(self, name: str) -> str:
        folded = {known.casefold(): known for known in self.names()}
        near = [folded[match] for match in difflib.get_close_matches(name.casefold(), folded, n=3)]
        if near:
            return DID_YOU_MEAN.format(names=" or ".join(near))
        if not folded:
            return NONE_REGISTERED
        return REGISTERED.format(names=", ".join(self.names()))
