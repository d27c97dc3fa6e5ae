"""Kinds that not every hub serves: their informers run while the hub has their CustomResourceDefinitions.

A definition can be created or deleted at any time. Each one is watched by its name, which the permission names as well.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

from fairway.controllers.informer_factory import InformerFactory
from fairway.controllers.kinds import DEFINITIONS, CustomResourceDefinition
from fairway.kube import Batch, Informer, Resource
from fairway.kube.rbac import Rule

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
            self.informers = tuple(informer_factory.of(each) for each in self._kinds)
            changed()
            return
        self._definitions = {
            each: informer_factory.of(DEFINITIONS, fields=f"metadata.name={definition_name(each)}")
            for each in self._kinds
        }
        for informer in self._definitions.values():
            informer.subscribe(self._review)

    def _review(self, _: Batch[CustomResourceDefinition]) -> None:
        served = all(self._is_served(each) for each in self._kinds)
        names = ", ".join(map(str, self._kinds))
        if served and not self._started:
            log.info(SERVED, names)
            self._started = tuple(self._factory.start(each) for each in self._kinds)
            for informer in self._started:
                informer.subscribe(self._listed)
        elif self._started and not served:
            log.info(NOT_SERVED, names)
            for each in self._kinds:
                self._factory.stop(each)
            self._started = ()
            if self.informers:
                self.informers = ()
                self._changed()

    def _is_served(self, kind: Resource[Any]) -> bool:
        return any(serves(each, kind) for each in self._definitions[kind].store.values())

    def _listed(self, _: Batch[Any]) -> None:
        if self._started != self.informers and all(each.synced.is_set() for each in self._started):
            self.informers = self._started
            self._changed()


def definition_name(kind: Resource[Any]) -> str:
    return f"{kind.plural}.{kind.group}"


def serves(definition: CustomResourceDefinition, kind: Resource[Any]) -> bool:
    """Return whether the hub serves a kind according to its definition. One that is being deleted serves objects
    until it is deleted."""
    conditions = definition.status.conditions or ()
    established = any(each.type == ESTABLISHED and each.status == "True" for each in conditions)
    return established and any(each.name == kind.version and each.served for each in definition.spec.versions)


def definition_rule(kinds: Iterable[Resource[Any]]) -> Rule:
    """Return the permission to watch the definitions of kinds."""
    return Rule(
        groups=(DEFINITIONS.group,),
        resources=(DEFINITIONS.plural,),
        verbs=("list", "watch"),
        names=tuple(definition_name(each) for each in kinds),
    )
