"""ManagedClusterSets as label selectors."""

from dataclasses import dataclass

from fairway.api.cluster import CLUSTER_SET_LABEL
from fairway.api.clusterset import ManagedClusterSet
from kubewire.api.meta import unreadable_within
from kubewire.api.selector import (
    IN,
    SELECT_NOTHING,
    Requirement,
    Selector,
    SelectorError,
    compile_selector,
)

EXCLUSIVE = "ExclusiveClusterSetLabel"
BY_LABEL_SELECTOR = "LabelSelector"
UNREADABLE = "{field} cannot be read: {reason}"
WRONG_SELECTOR_TYPE = "selectorType is not right: {type}"


@dataclass(frozen=True, slots=True)
class HostSet:
    """A named set of hosts. With ``error`` its members are unknown, and the selector selects none."""

    name: str
    selector: Selector
    error: str | None = None
    exclusive: bool = False
    """Whether the value of one label, which all such sets share, names the set of a host."""


def host_set(source: ManagedClusterSet) -> HostSet:
    name = source.metadata.name
    unreadable = unreadable_within(source, "spec")
    if unreadable is not None:
        error_text = UNREADABLE.format(field=unreadable.path, reason=unreadable.reason)
        return HostSet(name=name, selector=SELECT_NOTHING, error=error_text)
    how = source.spec.clusterSelector
    kind = how.selectorType
    if kind in ("", EXCLUSIVE):
        labelled = Requirement(key=CLUSTER_SET_LABEL, operator=IN, values=frozenset({name}))
        return HostSet(name=name, selector=Selector(requirements=(labelled,)), exclusive=True)
    if kind != BY_LABEL_SELECTOR:
        return HostSet(name=name, selector=SELECT_NOTHING, error=WRONG_SELECTOR_TYPE.format(type=kind))
    if how.labelSelector is None:
        return HostSet(name=name, selector=SELECT_NOTHING)
    try:
        return HostSet(name=name, selector=compile_selector(how.labelSelector))
    except SelectorError as error:
        return HostSet(name=name, selector=SELECT_NOTHING, error=str(error))
