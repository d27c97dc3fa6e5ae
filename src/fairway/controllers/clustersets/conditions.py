"""Conditions of cluster sets and bindings.

Types, reasons and messages are exactly OCM's: two controllers that disagree would overwrite each other forever. That is
why ``Bound`` has no message. OCM reports nothing for a set with an invalid selector; that message is ours.
"""

from collections.abc import Iterator
from typing import Final

from fairway.api.clusterset import LABEL_SELECTOR, ManagedClusterSelector
from kubewire.api.meta import FALSE, TRUE, UNKNOWN, Condition
from kubewire.api.selector import IN, requirement_problems

EMPTY: Final = "ClusterSetEmpty"
NONE_MATCHED: Final = "NoClusterMatched"
SELECTED: Final = "ClustersSelected"
INVALID: Final = "InvalidSelector"
NONE_SELECTED: Final = "No ManagedCluster selected"
COUNT_SELECTED: Final = "{count} ManagedClusters selected"

BOUND: Final = "Bound"
SET_BOUND: Final = "ClusterSetBound"
SET_NOT_FOUND: Final = "ClusterSetNotFound"

CONDITIONS: Final = {
    ("ManagedClusterSet", EMPTY): {
        SELECTED: "The set has members.",
        NONE_MATCHED: "The set has no members.",
        INVALID: "The selector is invalid.",
    },
    ("ManagedClusterSetBinding", BOUND): {
        SET_BOUND: "The set exists.",
        SET_NOT_FOUND: "The set does not exist.",
    },
}

_PLACE: Final = "spec.clusterSelector"


def empty_condition(*, count: int) -> Condition:
    if count == 0:
        return Condition(type=EMPTY, status=TRUE, reason=NONE_MATCHED, message=NONE_SELECTED)
    return Condition(type=EMPTY, status=FALSE, reason=SELECTED, message=COUNT_SELECTED.format(count=count))


def broken_condition(message: str) -> Condition:
    return Condition(type=EMPTY, status=UNKNOWN, reason=INVALID, message=message)


def bound_condition(*, exists: bool) -> Condition:
    if exists:
        return Condition(type=BOUND, status=TRUE, reason=SET_BOUND)
    return Condition(type=BOUND, status=FALSE, reason=SET_NOT_FOUND)


def fault(selector: ManagedClusterSelector, *, error: str) -> str:
    """The message of an invalid selector: its field and the error."""
    if selector.selectorType != LABEL_SELECTOR:
        return f"{_PLACE}.selectorType: {error}"
    place, problem = next(_problems(selector), ("", error))
    return f"{_PLACE}.labelSelector{place}: {problem}"


def _problems(selector: ManagedClusterSelector) -> Iterator[tuple[str, str]]:
    labels = selector.labelSelector
    if labels is None:
        return
    for key in sorted(labels.matchLabels):
        for _, problem in requirement_problems(key=key, operator=IN, values=(labels.matchLabels[key],)):
            yield ".matchLabels", problem
    for index, requirement in enumerate(labels.matchExpressions):
        problems = requirement_problems(
            key=requirement.key, operator=requirement.operator, values=requirement.values
        )
        for place, problem in problems:
            yield f".matchExpressions[{index}].{place}", problem
