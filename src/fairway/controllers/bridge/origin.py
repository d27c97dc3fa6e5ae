"""Labels that distinguish the bridge's copies from originals: copies are never read by the bridge."""

from typing import Final

from fairway.api.meta import ObjectMeta

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
FAIRWAY: Final = "fairway"
SOURCE: Final = "fairway.dev/source"
"""The label that tells what kind of object this one was made from."""
DETAIL: Final = "fairway.dev/source-score"
"""The annotation that tells which score, as RESOURCE/SCORE."""

FROM_MANAGED: Final = "managedclusterscore"
FROM_ADD_ON: Final = "addonplacementscore"


def labels(source: str) -> dict[str, str]:
    return {MANAGED_BY: FAIRWAY, SOURCE: source}


def is_original(meta: ObjectMeta) -> bool:
    return SOURCE not in meta.labels


def is_made_from(source: str, meta: ObjectMeta) -> bool:
    """By the bridge: what has our label from somebody else is neither an original nor ours to write."""
    return meta.labels.get(MANAGED_BY) == FAIRWAY and meta.labels.get(SOURCE) == source
