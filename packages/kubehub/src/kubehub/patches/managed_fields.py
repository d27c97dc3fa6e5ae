"""Field managers: the entries of ``metadata.managedFields``, and how writes update them.

Every create, update and patch makes its manager the owner of the fields it changed; earlier owners lose them.
Server-side apply uses the same entries.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from kubehub.go_format import json_text
from kubehub.patches import fieldset, merge_schema, ownership
from kubehub.patches.fieldset import EMPTY, FieldSet, Malformed
from kubehub.patches.merge import adapt_to_schema
from kubehub.patches.merge_schema import MergeSchema
from kubehub.resource import Document
from kubehub.schema import Node

UPDATE: Final = "Update"
APPLY: Final = "Apply"
UNKNOWN: Final = "unknown"
ANCIENT: Final = "ancient-changes"
"""Owns the fields of the oldest updates, when there are too many entries."""
BEFORE_APPLY: Final = "before-first-apply"
"""Owns all fields of an object that was written before its fields were tracked."""
MAX_UPDATES: Final = 10
LONGEST_NAME: Final = 128

UNOWNED: Final[Mapping[str, Any]] = {
    "apiVersion": None,
    "kind": None,
    "metadata": dict.fromkeys(
        (
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "clusterName",
            "generation",
            "managedFields",
            "resourceVersion",
        )
    ),
}
"""Fields that identify an object, or that only the server sets, have no owner."""
_UNOWNED_FIELDS: Final = fieldset.of(
    ("apiVersion",), ("kind",), ("metadata",), *(("metadata", name) for name in UNOWNED["metadata"])
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    manager: str
    operation: str
    api_version: str
    fields: FieldSet
    time: str = ""
    subresource: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Updates in different versions are different entries, applies aren't."""
        version = "" if self.operation == APPLY else self.api_version
        return (self.manager, self.operation, version, self.subresource)

    @property
    def identity(self) -> str:
        """Kubernetes' fallback sort key."""
        names = ("manager", "operation", "apiVersion", "subresource")
        return ",".join(
            f'"{name}":{json_text(text)}' for name, text in zip(names, self.key, strict=True) if text
        )

    def document(self) -> Document:
        shown: Document = {"manager": self.manager} if self.manager else {}
        shown["operation"] = self.operation
        shown["apiVersion"] = self.api_version
        if self.time:
            shown["time"] = self.time
        shown["fieldsType"] = "FieldsV1"
        shown["fieldsV1"] = self.fields
        if self.subresource:
            shown["subresource"] = self.subresource
        return shown


Managers = dict[tuple[str, str, str, str], Entry]


def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the name of the manager, by default the program in the User-Agent."""
    if field_manager:
        return field_manager
    name = ""
    for letter in user_agent.split("/", 1)[0]:
        if letter.isprintable():
            if len((name + letter).encode()) > LONGEST_NAME:
                break
            name += letter
    return name


def read(entries: Any, *, trusted: bool = False) -> Managers:
    """Parse entries, by key. Entries that the hub has stored are ``trusted`` to be valid. Raises Malformed."""
    if not trusted and not isinstance(entries, list):
        raise Malformed("expected a list")
    managers: Managers = {}
    for entry in entries or ():
        if not trusted:
            _check(entry)
        manager = Entry(
            manager=entry.get("manager", ""),
            operation=entry["operation"],
            api_version=entry["apiVersion"],
            time=entry.get("time") or "",
            subresource=entry.get("subresource", ""),
            fields=entry["fieldsV1"] if trusted else fieldset.read(entry.get("fieldsV1") or {}),
        )
        managers[manager.key] = manager
    return managers


def _check(entry: Any) -> None:
    if not isinstance(entry, dict):
        raise Malformed("expected an object")
    if entry.get("operation") not in (APPLY, UPDATE):
        raise Malformed("operation must be `Apply` or `Update`")
    if not entry.get("apiVersion"):
        raise Malformed("apiVersion must not be empty")
    if entry.get("fieldsType") != "FieldsV1":
        raise Malformed("missing or invalid fieldsType in managed fields entry")
    for name in ("manager", "apiVersion", "time", "subresource"):
        if not isinstance(entry.get(name) or "", str):
            raise Malformed(f"{name} must be a string")


def write(document: Document, managers: Managers) -> None:
    """Write the entries into the document's metadata, in Kubernetes' order."""
    metadata = document.setdefault("metadata", {})
    if managers:
        entries = sorted(
            managers.values(), key=lambda e: (e.operation, e.time, e.manager, e.api_version, e.subresource)
        )
        metadata["managedFields"] = [entry.document() for entry in entries]
    else:
        metadata.pop("managedFields", None)


def update(
    old: Document | None,
    new: Document,
    *,
    manager: str,
    api_version: str,
    time: str,
    node: Node,
    operation: str = UPDATE,
    subresource: str = "",
    ignored: FieldSet = EMPTY,
    blank: Document | None = None,
) -> None:
    """Set ``new.metadata.managedFields`` after a create (``old`` is None), an update or a patch.

    ``ignored`` are fields that this endpoint doesn't write, such as status on the main one. ``blank`` is the
    encoding of an empty object of this kind (built-in kinds always encode some fields): a create changes only what
    differs from it.
    """
    managers = _initial_entries(old, new, subresource=subresource)
    # Untracked objects stay untracked until an apply.
    if managers is None or (old is not None and not managers):
        write(new, {})
        return
    schema = merge_schema.of(node)
    before = old if old is not None else blank or {}
    changes = ownership.differences(schema, before, new, skipped=UNOWNED).without(ignored)
    managers = adapt(managers, schema)
    if changes:
        changed = fieldset.union(changes.added, changes.modified)
        managers = release_fields(managers, changed, changes.removed)
        entry = Entry(
            manager=manager or UNKNOWN,
            operation=operation,
            api_version=api_version,
            subresource=subresource,
            time=time,
            fields=changed,
        )
        add_fields(managers, entry)
    write(new, cap_updates(managers))


def _initial_entries(old: Document | None, new: Document, *, subresource: str) -> Managers | None:
    """Return the entries to start from: the client's if valid, else the stored ones; None to remove all.

    Clients that don't know managedFields drop them, so omitting them changes nothing.
    """
    stored = ((old or {}).get("metadata") or {}).get("managedFields")
    sent = (new.get("metadata") or {}).get("managedFields")
    if not subresource and sent is not None and sent != stored:
        if sent == [] or sent == [{}]:
            return None if old is not None else {}
        try:
            managers = read(sent)
        except Malformed:
            managers = {}
        if managers:
            return managers
    return read(stored, trusted=True)


def adapt(managers: Managers, schema: MergeSchema) -> Managers:
    """Adapt the entries to the schema."""
    kept: Managers = {}
    for key, entry in managers.items():
        fields = adapt_to_schema(schema, entry.fields)
        kept[key] = entry if fields is entry.fields else replace(entry, fields=fields)
    return kept


def release_fields(
    managers: Managers, changed: FieldSet, removed: FieldSet, *, but: tuple[str, ...] | None = None
) -> Managers:
    """Remove the changed fields from every manager except ``but``, and removed fields from all; drop empty entries."""
    kept: Managers = {}
    for key, entry in managers.items():
        fields = entry.fields
        if key != but:
            fields = fieldset.difference(fieldset.difference(fields, changed), removed)
        if fields:
            kept[key] = entry if fields == entry.fields else replace(entry, fields=fieldset.sort(fields))
    return kept


def add_fields(managers: Managers, entry: Entry) -> None:
    """Add the entry's fields, if any, to those of its manager."""
    if entry.fields:
        previous = managers.get(entry.key)
        owned = fieldset.union(entry.fields, previous.fields) if previous else entry.fields
        managers[entry.key] = replace(entry, fields=fieldset.sort(owned))


def without_unowned(fields: FieldSet) -> FieldSet:
    """Remove the fields that have no owner."""
    return fieldset.difference(fields, _UNOWNED_FIELDS)


def cap_updates(managers: Managers) -> Managers:
    """Limit update entries to ten: the oldest are merged, per version."""
    if len(managers) <= MAX_UPDATES:
        return managers
    updates = [entry for entry in managers.values() if entry.operation == UPDATE]
    surplus = len(updates) - MAX_UPDATES
    updates.sort(key=lambda entry: (entry.time, entry.identity))
    kept = dict(managers)
    firsts: dict[str, Entry] = {}
    for entry in updates:
        if surplus <= 0:
            break
        first = firsts.setdefault(entry.api_version, entry)
        # A bucket for a single entry would save nothing: it is made when a second one of its version must go.
        if first is entry:
            continue
        bucket = Entry(manager=ANCIENT, operation=UPDATE, api_version=entry.api_version, fields=EMPTY)
        # The bucket of an earlier write, into which the others are merged.
        if entry.key == bucket.key:
            continue
        if bucket.key not in kept:
            kept[bucket.key] = replace(kept.pop(first.key), manager=ANCIENT, subresource="")
        fields = fieldset.union(entry.fields, kept[bucket.key].fields)
        del kept[entry.key]
        kept[bucket.key] = replace(bucket, fields=fieldset.sort(fields), time=entry.time)
        surplus -= 1
    return kept
