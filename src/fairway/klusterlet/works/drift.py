"""Compare an object with what was applied.

The response to an apply shows what the manifest means on this cluster: canonical quantities, defaults, changes by
admission plugins. The part that the manifest specifies is remembered, and compared with the object later. Fields that
the manifest does not mention belong to others.
"""

from collections.abc import Mapping
from typing import Any, Final

from fairway.klusterlet.works.objects import Object

MISSING: Final = "\0missing"

_PLAIN_DATA: Final = {
    ("v1", "ConfigMap"): ("data", "binaryData"),
    ("v1", "Secret"): ("data",),
}
"""Kinds that are nothing but entries. A section the manifest has holds what the manifest says and no more; one it
does not have is for others to fill, as they do with CA bundles and tokens.
"""

_FILLED_BY_OTHERS: Final = "kubernetes.io/service-account-token"


def share(desired: Any, live: Any) -> Any:
    """The part of ``live`` that ``desired`` speaks about."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {key: share(child, live[key]) if key in live else MISSING for key, child in desired.items()}
    if isinstance(desired, list) and isinstance(live, list) and _by_name(desired) and _by_name(live):
        there = {each["name"]: each for each in live}
        return [share(each, there[each["name"]]) if each["name"] in there else MISSING for each in desired]
    return live


def _by_name(items: list[Any]) -> bool:
    return bool(items) and all(
        isinstance(each, Mapping) and isinstance(each.get("name"), str) for each in items
    )


def surplus(desired: Object, live: Object) -> dict[str, dict[str, None]]:
    """A merge patch that removes entries nobody asked for; empty if there are none."""
    kind = (str(desired.get("apiVersion")), str(desired.get("kind")))
    if desired.get("type") == _FILLED_BY_OTHERS:
        return {}
    removed: dict[str, dict[str, None]] = {}
    for section in _PLAIN_DATA.get(kind, ()):
        wanted, there = desired.get(section), live.get(section)
        if not isinstance(wanted, Mapping) or not isinstance(there, Mapping):
            continue
        extra = {key: None for key in there if key not in wanted}
        if extra:
            removed[section] = extra
    return removed
