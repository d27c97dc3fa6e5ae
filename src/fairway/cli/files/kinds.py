"""Distinguish objects of OCM's and Fairway's kinds from objects of other APIs and from misspelt kinds.

Files for a hub contain objects of many APIs, which are ignored. A misspelt kind or version is an error, because
ignoring such an object would go unnoticed.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

KIND_NEAR_MISS: Final = "unknown kind {kind!r}"
KIND_REMEDY: Final = "did you mean {meant}? Known kinds: {known}"
VERSION_UNKNOWN: Final = "{kind} has no version {version!r}"
VERSION_REMEDY: Final = "write apiVersion: {meant}"
NOT_A_MAPPING: Final = "is {got}, not a Kubernetes object"
NOT_A_MAPPING_REMEDY: Final = "a document must be a mapping with apiVersion, kind and metadata"
FIELD_MISSING: Final = "has no {field}"
FIELD_NOT_TEXT: Final = "{field} must be text"
API_VERSION_REMEDY: Final = "add a line such as apiVersion: cluster.open-cluster-management.io/v1beta1"
KIND_MISSING_REMEDY: Final = "add a line such as kind: Placement"
_NEAR: Final = 2
_NEAR_GROUP: Final = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of an object; `path` is the field."""

    path: str
    message: str
    remedy: str = ""


def classify(document: Any, known: dict[str, tuple[str, ...]]) -> Finding | bool:
    """Return True for a known kind, False for another API, or the problem.

    `known` maps each kind to its supported API versions, the preferred one first.
    """
    if not isinstance(document, dict):
        return Finding("", NOT_A_MAPPING.format(got=describe(document)), NOT_A_MAPPING_REMEDY)
    for field, remedy in (("apiVersion", API_VERSION_REMEDY), ("kind", KIND_MISSING_REMEDY)):
        value = document.get(field)
        if value is None or value == "":
            return Finding(field, FIELD_MISSING.format(field=field), remedy)
        if not isinstance(value, str):
            return Finding(field, FIELD_NOT_TEXT.format(field=field), remedy)
    kind: str = document["kind"]
    version: str = document["apiVersion"]
    if kind in known:
        return _classify_version(kind, version, known[kind])
    meant = next((name for name in known if _near_kind(kind, name)), None)
    if meant is None:
        return False
    names = ", ".join(sorted(known))
    return Finding("kind", KIND_NEAR_MISS.format(kind=kind), KIND_REMEDY.format(meant=meant, known=names))


def _classify_version(kind: str, version: str, versions: tuple[str, ...]) -> Finding | bool:
    if version in versions:
        return True
    group = version.rpartition("/")[0]
    ours = {name.rpartition("/")[0] for name in versions}
    # No group, or a misspelt one; the same kind of another API has a different group.
    if not group or any(distance(group, name, at_most=_NEAR_GROUP) <= _NEAR_GROUP for name in ours):
        remedy = VERSION_REMEDY.format(meant=" or ".join(versions))
        return Finding("apiVersion", VERSION_UNKNOWN.format(kind=kind, version=version), remedy)
    return False


@lru_cache(maxsize=4096)
def _near_kind(kind: str, name: str) -> bool:
    if kind.lower() == name.lower():
        return True
    allowed = _NEAR if len(name) > 5 else 1
    return distance(kind.lower(), name.lower(), at_most=allowed) <= allowed


def distance(one: str, other: str, *, at_most: int) -> int:
    """Return the Damerau-Levenshtein distance; above `at_most` it is not exact."""
    if abs(len(one) - len(other)) > at_most:
        return at_most + 1
    before: list[int] = []
    previous = list(range(len(other) + 1))
    for row, left in enumerate(one, start=1):
        current = [row]
        for column, right in enumerate(other, start=1):
            best = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + (left != right))
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                best = min(best, before[column - 2] + 1)
            current.append(best)
        before, previous = previous, current
    return previous[-1]


def describe(value: object) -> str:
    """Name the type of a value as YAML and JSON do."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list | tuple):
        return "a list"
    return "a mapping" if isinstance(value, dict) else type(value).__name__
