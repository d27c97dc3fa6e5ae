"""Kinds that not every hub serves: their informers run while the hub has their CustomResourceDefinitions.

A definition can be created or deleted at any time. Each one is watched by its name, which the permission names as well.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from fairway.controllers.kinds import DEFINITIONS, CustomResourceDefinition
from fairway.controllers.runtime.informer_factory import InformerFactory
from kubewire.client import Batch, Informer, Resource
from kubewire.client.rbac import Rule

log: Final = logging.getLogger(__name__)

ESTABLISHED: Final = "Established"
SERVED: Final = "the hub serves %s"
NOT_SERVED: Final = "the hub no longer serves %s"


class OptionalKinds:
    """``informers`` of the kinds, in their order, once all are listed; empty while the hub does not serve all of them.

    ``changed`` is called after each change of ``informers``. ``fixed`` means that the hub serves the kinds, whatever
    their definitions are. Create it before entering the factory.
    """

    def __init__(
        self,
        informer_factory: InformerFactory,
        kinds: Iterable[Resource[Any]],
        *,
        changed: Callable[[], None],
        fixed: bool = False,
    ) -> None:
        self.informers: tuple[Informer[Any], ...] = ()
        self._factory, self._kinds, self._changed = informer_factory, tuple(kinds), changed
        self._started: tuple[Informer[Any], ...] = ()
        if fixed:
            self.informers = tuple(informer_factory.of(kind) for kind in self._kinds)
            changed()
            return
        self._definitions = {
            kind: informer_factory.of(DEFINITIONS, fields=f"metadata.name={definition_name(kind)}")
            for kind in self._kinds
        }
        for informer in self._definitions.values():
            informer.subscribe(self._review)

    @property
    def is_served(self) -> bool:
        """Whether the hub serves the kinds, which may not be listed yet."""
        return bool(self._started or self.informers)

    def _review(self, _: Batch[CustomResourceDefinition]) -> None:
        served = all(self._is_served(kind) for kind in self._kinds)
        names = ", ".join(map(str, self._kinds))
        if served and not self._started:
            log.info(SERVED, names)
            self._started = tuple(self._factory.start(kind) for kind in self._kinds)
            for informer in self._started:
                informer.subscribe(self._listed)
        elif self._started and not served:
            log.info(NOT_SERVED, names)
            # Their objects are deleted with the definition, and a watch would only fail again and again.
            for kind in self._kinds:
                self._factory.stop(kind)
            self._started = ()
            if self.informers:
                self.informers = ()
                self._changed()

    def _is_served(self, kind: Resource[Any]) -> bool:
        return any(serves(definition, kind) for definition in self._definitions[kind].store.values())

    def _listed(self, _: Batch[Any]) -> None:
        # Together, because controllers combine objects of these kinds: with one of two lists, all others would look
        # deleted.
        if self._started != self.informers and all(informer.synced.is_set() for informer in self._started):
            self.informers = self._started
            self._changed()


def definition_name(kind: Resource[Any]) -> str:
    return f"{kind.plural}.{kind.group}"


def serves(definition: CustomResourceDefinition, kind: Resource[Any]) -> bool:
    """Return whether the hub serves a kind according to its definition. One that is being deleted serves objects
    until it is deleted."""
    conditions = definition.status.conditions or ()
    established = any(
        condition.type == ESTABLISHED and condition.status == "True" for condition in conditions
    )
    return established and any(
        version.name == kind.version and version.served for version in definition.spec.versions
    )


def definition_rule(kinds: Iterable[Resource[Any]]) -> Rule:
    """Return the permission to watch the definitions of kinds."""
    return Rule(
        groups=(DEFINITIONS.group,),
        resources=(DEFINITIONS.plural,),
        verbs=("list", "watch"),
        names=tuple(definition_name(kind) for kind in kinds),
    )
