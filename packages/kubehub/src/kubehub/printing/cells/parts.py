"""Building blocks of cells."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from kubehub.resource import Document
from kubewire.api import age

Cell = Callable[[Document, datetime], Any]

NONE: Final = "<none>"
UNSET: Final = "<unset>"
_FEW: Final = 3


def at(document: Document | None, *path: str) -> Any:
    value: Any = document
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def field(*path: str, missing: Any = "") -> Cell:
    def cell(document: Document, _: datetime) -> Any:
        value = at(document, *path)
        return missing if value is None else value

    return cell


def optional_text(*path: str, missing: str = NONE) -> Cell:
    """A string that may be empty."""
    return lambda document, _: at(document, *path) or missing


def flag(*path: str, missing: bool = False) -> Cell:
    return field(*path, missing=missing)


def size(*path: str) -> Cell:
    return lambda document, _: len(at(document, *path) or ())


def since(*path: str) -> Cell:
    return lambda document, now: age.since(at(document, *path), now=now)


def labels(*path: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        pairs = at(document, *path) or {}
        return ",".join(f"{k}={v}" for k, v in sorted(pairs.items())) or NONE

    return cell


def selector(*path: str) -> Cell:
    def cell(document: Document, _: datetime) -> str:
        value = at(document, *path) or {}
        parts = [f"{k}={v}" for k, v in sorted((value.get("matchLabels") or {}).items())]
        for expression in value.get("matchExpressions") or ():
            key, values = expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))
            parts.append(
                {
                    "Exists": key,
                    "DoesNotExist": f"!{key}",
                    "In": f"{key} in ({values})",
                    "NotIn": f"{key} notin ({values})",
                }.get(expression.get("operator", ""), "")
            )
        return ",".join(parts) or NONE

    return cell


def containers(*path: str) -> Mapping[str, Cell]:
    def listed(document: Document, key: str) -> str:
        return ",".join(str(c.get(key, "")) for c in at(document, *path, "containers") or ())

    return {
        "Containers": lambda document, _: listed(document, "name"),
        "Images": lambda document, _: listed(document, "image"),
    }


def first_few(texts: Iterable[str], *, missing: str) -> str:
    """The first value and the number of others."""
    every = list(texts)
    shown = ",".join(every[:_FEW])
    return f"{shown} + {len(every) - _FEW} more..." if len(every) > _FEW else shown or missing


def name_with_default(key: str) -> Cell:
    """The name, marked "(default)" by an annotation."""

    def cell(document: Document, _: datetime) -> str:
        default = (at(document, "metadata", "annotations") or {}).get(key) == "true"
        return (
            f"{at(document, 'metadata', 'name')} (default)" if default else at(document, "metadata", "name")
        )

    return cell
