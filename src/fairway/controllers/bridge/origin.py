"""Labels that distinguish the bridge's copies from originals: copies are never read by the bridge."""

from typing import Final

from kubewire.api.meta import ObjectMeta

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
FAIRWAY: Final = "fairway"
SOURCE: Final = "fairway.dev/source"
"""Label with the kind of the original."""
DETAIL: Final = "fairway.dev/source-score"
"""Annotation with the original score, as RESOURCE/SCORE."""

FROM_MANAGED: Final = "managedclusterscore"
FROM_ADD_ON: Final = "addonplacementscore"


def labels(source: str) -> dict[str, str]:
    return {MANAGED_BY: FAIRWAY, SOURCE: source}


def is_original(meta: ObjectMeta) -> bool:
    return SOURCE not in meta.labels


def is_made_from(source: str, meta: ObjectMeta) -> bool:
    """Whether the bridge created the object. One with our label by another client is neither original nor copy."""
    return meta.labels.get(MANAGED_BY) == FAIRWAY and meta.labels.get(SOURCE) == source
