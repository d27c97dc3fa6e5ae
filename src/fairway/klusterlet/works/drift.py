"""Compare an object with what was applied.

The response to an apply shows what the manifest means on this cluster: canonical quantities, defaults, changes by
admission plugins. The part that the manifest specifies is stored, and compared with the object later. Fields that
the manifest does not mention belong to other managers.
"""

from collections.abc import Mapping
from typing import Any, Final

from fairway.klusterlet.works.objects import Object

MISSING: Final = "\0missing"

_PLAIN_DATA: Final = {("v1", "ConfigMap"): ("data", "binaryData"), ("v1", "Secret"): ("data",)}
"""Data sections of kinds. A section in the manifest is enforced exactly; other sections may be filled by other clients,
such as CA bundles and tokens."""

_FILLED_BY_OTHERS: Final = "kubernetes.io/service-account-token"


def project(desired: Any, live: Any) -> Any:
    """The part of ``live`` that ``desired`` specifies."""
    if isinstance(desired, Mapping) and isinstance(live, Mapping):
        return {key: project(child, live[key]) if key in live else MISSING for key, child in desired.items()}
    if isinstance(desired, list) and isinstance(live, list) and _by_name(desired) and _by_name(live):
        by_name = {item["name"]: item for item in live}
        return [
            project(item, by_name[item["name"]]) if item["name"] in by_name else MISSING for item in desired
        ]
    return live


def _by_name(items: list[Any]) -> bool:
    return bool(items) and all(
        isinstance(item, Mapping) and isinstance(item.get("name"), str) for item in items
    )


def removals(desired: Object, live: Object) -> dict[str, dict[str, None]]:
    """Merge patch that removes entries which the manifest does not have; empty if there are none."""
    kind = (str(desired.get("apiVersion")), str(desired.get("kind")))
    if desired.get("type") == _FILLED_BY_OTHERS:
        return {}
    removed: dict[str, dict[str, None]] = {}
    for section in _PLAIN_DATA.get(kind, ()):
        wanted, actual = desired.get(section), live.get(section)
        if not isinstance(wanted, Mapping) or not isinstance(actual, Mapping):
            continue
        extra = {key: None for key in actual if key not in wanted}
        if extra:
            removed[section] = extra
    return removed
