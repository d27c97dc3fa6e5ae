"""The two sets of every hub: ``default``, for clusters without another set, and ``global``, for all clusters."""

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from fairway.api.clusterset import EXCLUSIVE_LABEL, LABEL_SELECTOR, ManagedClusterSelector, ManagedClusterSet
from kubewire.api.selector import LabelSelector

DEFAULT: Final = "default"
GLOBAL: Final = "global"

AUTO_UPDATE: Final = "cluster.open-cluster-management.io/autoupdate"
"""Annotation; ``"false"`` keeps a selector that the user changed."""

SELECTORS: Final[Mapping[str, ManagedClusterSelector]] = {
    DEFAULT: ManagedClusterSelector(selectorType=EXCLUSIVE_LABEL),
    GLOBAL: ManagedClusterSelector(selectorType=LABEL_SELECTOR, labelSelector=LabelSelector()),
}


def needs_reset(seen: ManagedClusterSet) -> bool:
    """Whether it is one of the two, with a changed selector that is not to be kept."""
    wanted = SELECTORS.get(seen.metadata.name)
    if wanted is None or seen.metadata.annotations.get(AUTO_UPDATE) == "false":
        return False
    selector = seen.spec.clusterSelector
    return structs.replace(selector, selectorType=selector.selectorType or EXCLUSIVE_LABEL) != wanted
