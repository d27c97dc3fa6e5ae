"""What an installation would change on a hub, field by field."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway.cli.client.hub_objects import HubObjects, name_of
from fairway.cli.install.removal import installed
from fairway.install.installation import Document

ADDED: Final = "added"
CHANGED: Final = "changed"
LEFT_OVER: Final = "left over"
_SERVER_SIDE: Final = frozenset(
    {"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"}
)
"""Fields of the metadata that every write changes, or that only the hub sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    change: str
    name: str
    fields: tuple[str, ...] = ()
    """Changed fields, with the values before and after."""

    def row(self) -> dict[str, object]:
        return {"change": self.change, "object": self.name, "fields": list(self.fields)}


async def differences(objects: HubObjects, documents: Sequence[Document]) -> list[Difference]:
    """Compare documents with the hub. Objects of an earlier version that are in none of them are left over: applying
    deletes nothing."""
    changes: list[Difference] = []
    for document in documents:
        live = await objects.get(document)
        if live is None:
            changes.append(Difference(change=ADDED, name=name_of(document)))
            continue
        # The hub's own defaults and conversions are on both sides of this comparison, unlike with the file.
        after = await objects.apply(document, force=True, dry_run=True)
        if fields := tuple(_changed("", _comparable(live), _comparable(after))):
            changes.append(Difference(change=CHANGED, name=name_of(document), fields=fields))
    wanted = {(name_of(document), document["metadata"].get("namespace", "")) for document in documents}
    left_over = [
        Difference(change=LEFT_OVER, name=name_of(live))
        async for live in installed(objects)
        if (name_of(live), live["metadata"].get("namespace", "")) not in wanted
    ]
    return [*changes, *left_over]


def _comparable(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVER_SIDE}
    return {**document, "metadata": metadata, "status": None}


def _changed(path: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            step = f"[{key!r}]" if "." in key or "/" in key else f".{key}"
            yield from _changed(path + step, before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changed(f"{path}[{number}]", old, new)
    elif before != after:
        yield f"{path.removeprefix('.')}: {_text(before)} → {_text(after)}"


def _text(value: Any) -> str:
    return "none" if value is None else msgspec.json.encode(value).decode()
