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
UNSAFE: Final = "unsafe"
NOT_SERVED: Final = (
    "stops serving version {version}, which clients of the hub may use; install with --no-crds, or with a Fairway that "
    "serves it"
)
STILL_STORED: Final = (
    "drops version {version}, in which objects are stored, so the hub refuses it; install with --no-crds, or write all "
    "{plural} again and remove the version from status.storedVersions first"
)
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation with what `kubectl apply` wrote last; it removes the fields that are not in the next file."""
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
    deletes nothing. A CRD is unsafe if the hub would lose a version of it."""
    changes: list[Difference] = []
    for document in documents:
        live = await objects.get(document)
        if live is None:
            changes.append(Difference(change=ADDED, name=name_of(document)))
            continue
        if losses := _lost_versions(live, document):
            changes.append(Difference(change=UNSAFE, name=name_of(document), fields=losses))
            continue
        # The hub's own defaults and conversions are on both sides of this comparison, unlike with the file.
        after = await objects.apply(document, force=True, dry_run=True)
        changed = _changed("", _comparable(live), _comparable(after))
        if fields := (*changed, *_removed("", _last_applied(live), document)):
            changes.append(Difference(change=CHANGED, name=name_of(document), fields=fields))
    wanted = {(name_of(document), document["metadata"].get("namespace", "")) for document in documents}
    left_over = [
        Difference(change=LEFT_OVER, name=name_of(live))
        async for live in installed(objects)
        if (name_of(live), live["metadata"].get("namespace", "")) not in wanted
    ]
    return [*changes, *left_over]


def _lost_versions(live: Document, document: Document) -> tuple[str, ...]:
    """Return what a CRD would take away: an older Fairway, or a newer OCM, may have installed the one on the hub."""
    if document["kind"] != "CustomResourceDefinition":
        return ()
    kept = {version["name"]: version["served"] for version in document["spec"]["versions"]}
    plural = document["spec"]["names"]["plural"]
    stored = set(live.get("status", {}).get("storedVersions", ())) - kept.keys()
    served = {version["name"] for version in live["spec"]["versions"] if version["served"]} - stored
    return (
        *(STILL_STORED.format(version=name, plural=plural) for name in sorted(stored)),
        *(NOT_SERVED.format(version=name) for name in sorted(served) if not kept.get(name, False)),
    )


def _last_applied(live: Document) -> Any:
    text = live["metadata"].get("annotations", {}).get(LAST_APPLIED)
    try:
        return msgspec.json.decode(text) if text else None
    except msgspec.DecodeError:
        return None


def _removed(path: str, before: Any, after: Any) -> Iterator[str]:
    """Yield the fields that `kubectl apply` wrote last time and removes this time.

    A server-side dry run does not show them: it has another field manager, which does not own them. Lists are compared
    only where their entries have names; others are replaced, which the dry run shows.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            step = f"{path}{_step(key)}"
            if key in after:
                yield from _removed(step, value, after[key])
            elif value not in ({}, [], None):  # kubectl records annotations, even if there are none
                yield f"{step.removeprefix('.')}: {_text(value)} → {_text(None)}"
    elif isinstance(before, list) and isinstance(after, list):
        old, new = _by_name(before), _by_name(after)
        if old and new:
            for name, value in old.items():
                if name in new:
                    yield from _removed(f"{path}[{name}]", value, new[name])
                else:
                    yield f"{path.removeprefix('.')}[{name}]: {_text(value)} → {_text(None)}"


def _by_name(entries: list[Any]) -> dict[str, Any]:
    named = {entry["name"]: entry for entry in entries if isinstance(entry, dict) and "name" in entry}
    return named if len(named) == len(entries) else {}


def _step(key: str) -> str:
    return f"[{key!r}]" if "." in key or "/" in key else f".{key}"


def _comparable(document: Document) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _SERVER_SIDE}
    return {**document, "metadata": metadata, "status": None}


def _changed(path: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            yield from _changed(path + _step(key), before.get(key), after.get(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from _changed(f"{path}[{number}]", old, new)
    elif before != after:
        yield f"{path.removeprefix('.')}: {_text(before)} → {_text(after)}"


def _text(value: Any) -> str:
    return "none" if value is None else msgspec.json.encode(value).decode()
