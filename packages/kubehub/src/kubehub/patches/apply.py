"""Server-side apply: merge an applied configuration into the live object and record its manager.

Fields that the manager applied before and omits now are removed, unless another manager owns them. Changing a field
of another manager is a conflict, unless the request forces it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from kubehub.go_format import json_text
from kubehub.patches import fieldset, managed_fields, merge_schema, ownership
from kubehub.patches.fieldset import EMPTY, FieldSet
from kubehub.patches.jsonpatch import json_kind
from kubehub.patches.managed_fields import APPLY, UPDATE, Entry, Managers
from kubehub.patches.merge import copy_json, merge_values, remove_fields, with_containers
from kubehub.patches.merge_schema import MergeSchema
from kubehub.resource import Document
from kubehub.schema import Node
from kubehub.status import Refusal, bad_request
from kubewire.api.selector import quote

UNDECODABLE: Final = (
    "error decoding YAML: error unmarshaling JSON: while decoding JSON: "
    "json: cannot unmarshal {0} into Go value of type map[string]interface {{}}"
)
WRONG_KIND: Final = "invalid object type: {0}"
HAS_MANAGED_FIELDS: Final = "metadata.managedFields must be nil"
NOT_TYPED: Final = "failed to create typed patch object ({0}): {1}"
CONFLICT: Final = "conflict with {0}"
ONE_CONFLICT: Final = "Apply failed with 1 conflict: conflict with {0}: {1}"
CONFLICTS: Final = "Apply failed with {0} conflicts: {1}"
CONFLICT_REASON: Final = "FieldManagerConflict"
MAX_CONFLICTS: Final = 500
"""Conflicts that the message lists; all are counted."""

KUBECTL: Final = "kubectl"
"""The only manager that may take over, unforced, the fields that client-side apply set last."""
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class _Conflict:
    entry: Entry
    path: tuple[str, ...]


class _Conflicts(Exception):
    def __init__(self, conflicts: Sequence[_Conflict]) -> None:
        super().__init__()
        self.conflicts = conflicts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    live: Document
    applied: Document
    managers: Managers
    schema: MergeSchema
    entry: Entry
    """The applying manager and the fields it applies."""
    ignored: FieldSet


def apply(
    live: Document | None,
    applied: Any,
    *,
    manager: str,
    force: bool,
    api_version: str,
    time: str,
    node: Node,
    kind: str = "",
    subresource: str = "",
    ignored: FieldSet = EMPTY,
    blank: Document | None = None,
) -> Document:
    """Return the object to store, with its managedFields; ``live`` itself when nothing changes.

    ``live`` is None for a create. ``applied`` is the decoded, unchecked body; an empty ``kind`` means the one it
    contains. For ``ignored`` and ``blank`` see ``managed_fields.update``. Raises Refusal.
    """
    applied = {} if applied is None else applied
    if not isinstance(applied, dict):
        raise bad_request(UNDECODABLE.format(json_kind(applied)))
    schema = merge_schema.of(node)
    kind = kind or applied.get("kind", "")
    _check(applied, schema, api_version=api_version, kind=kind)
    base: Document = live if live is not None else {**(blank or {}), "apiVersion": api_version, "kind": kind}
    managers = managed_fields.read((base.get("metadata") or {}).get("managedFields"), trusted=True)
    # An object from before managedFields: all its fields belong to "before-first-apply", so that the first apply
    # conflicts with what other clients have set, as in Kubernetes.
    if live is not None and not managers:
        there = ownership.differences(schema, blank or {}, live, skipped=managed_fields.UNOWNED).without(
            ignored
        )
        before = Entry(
            manager=managed_fields.BEFORE_APPLY,
            operation=UPDATE,
            api_version=api_version,
            subresource=subresource,
            time=time,
            fields=fieldset.union(there.added, there.modified),
        )
        managed_fields.add_fields(managers, before)
    managers = managed_fields.adapt(managers, schema)
    request = _Request(
        live=base,
        applied=applied,
        managers=managers,
        schema=schema,
        entry=Entry(
            manager=manager or managed_fields.UNKNOWN,
            operation=APPLY,
            api_version=api_version,
            subresource=subresource,
            fields=fieldset.prune(ownership.applied_fields(schema, applied), ignored),
        ),
        ignored=ignored,
    )
    try:
        result, owners = _merge(request, force=force, time=time)
    except _Conflicts as refused:
        conflicts = refused.conflicts
        if manager == KUBECTL:
            allowed = _last_applied(base, schema, api_version)
            conflicts = [c for c in conflicts if not fieldset.contains(allowed, *c.path)]
        if conflicts:
            raise _refusal(conflicts) from None
        result, owners = _merge(request, force=True, time=time)
    managed_fields.write(result, owners)
    if manager == KUBECTL and _annotation(result):
        result["metadata"]["annotations"][LAST_APPLIED] = _last_applied_annotation(applied)
    if live is not None and ownership.json_equal(result, live):
        return live
    return result


def _check(applied: Document, schema: MergeSchema, *, api_version: str, kind: str) -> None:
    metadata = applied.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    if (applied.get("apiVersion", ""), applied.get("kind", "")) != (api_version, kind):
        shown = _format_kind(str(applied.get("apiVersion", "")), str(applied.get("kind", "")))
        raise bad_request(WRONG_KIND.format(shown))
    if metadata.get("managedFields") is not None:
        raise bad_request(HAS_MANAGED_FIELDS)
    faults = ownership.schema_faults(schema, applied)
    if faults:
        message = str(faults[0]) if len(faults) == 1 else "\n  ".join(["errors:", *map(str, faults)])
        who = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {_format_kind(api_version, kind)}"
        raise Refusal(code=500, reason="", message=NOT_TYPED.format(who, message))


def _format_kind(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def _merge(request: _Request, *, force: bool, time: str) -> tuple[Document, Managers]:
    """Return the merged object and its managers. Raises _Conflicts."""
    schema, live, entry = request.schema, request.live, request.entry
    last = request.managers.get(entry.key)
    managers = {**request.managers, entry.key: entry}
    result: Document = merge_values(schema, live, request.applied)
    # Only if the manager dropped a field: pruning walks the whole object several times.
    if last is not None and not fieldset.subset(last.fields, entry.fields):
        result = copy_json(_prune(schema, result, last.fields, managers))
    changes = ownership.differences(schema, live, result, skipped=managed_fields.UNOWNED).without(
        request.ignored
    )
    changed = fieldset.union(changes.added, changes.modified)
    if not force:
        conflicts = [
            _Conflict(other, path)
            for key, other in managers.items()
            if key != entry.key
            for path in fieldset.paths(fieldset.intersection(other.fields, changed))
        ]
        if conflicts:
            raise _Conflicts(conflicts)
    owners = managed_fields.release_fields(managers, changed, changes.removed, but=entry.key)
    fields = managed_fields.without_unowned(entry.fields)
    owners.pop(entry.key, None)
    if fields:
        moved = not ownership.json_equal(_without_managed_fields(live), _without_managed_fields(result))
        # The time changes only with the object. Otherwise an apply that changes nothing would be a new version, and
        # agents that apply in a loop would wake all watches.
        stamp = time if moved else last.time if last is not None else ""
        owners[entry.key] = replace(entry, fields=fieldset.sort(fields), time=stamp)
    return result, owners


def _without_managed_fields(document: Document) -> Document:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return document
    return {**document, "metadata": {n: v for n, v in metadata.items() if n != "managedFields"}}


def _prune(schema: MergeSchema, result: Document, last: FieldSet, managers: Managers) -> Document:
    """Remove the fields that the manager applied last and that no manager owns now."""
    last = with_containers(schema, last)
    owned: FieldSet = EMPTY
    for entry in managers.values():
        owned = fieldset.union(owned, entry.fields)
    present = with_containers(schema, ownership.applied_fields(schema, result))
    stripped = remove_fields(schema, result, last) or {}
    kept = fieldset.union(
        with_containers(schema, ownership.applied_fields(schema, stripped)), with_containers(schema, owned)
    )
    # Removing an item also removes its fields without an owner; the next step restores those.
    restored = remove_fields(schema, result, fieldset.difference(present, kept)) or {}
    gone = fieldset.difference(present, with_containers(schema, ownership.applied_fields(schema, restored)))
    return remove_fields(schema, result, fieldset.intersection(gone, last)) or {}


def _refusal(conflicts: Sequence[_Conflict]) -> Refusal:
    identities = {key: entry.identity for key, entry in {c.entry.key: c.entry for c in conflicts}.items()}
    by_manager: dict[str, list[_Conflict]] = {}
    for conflict in sorted(conflicts, key=lambda c: identities[c.entry.key])[:MAX_CONFLICTS]:
        by_manager.setdefault(identities[conflict.entry.key], []).append(conflict)
    causes = [
        {
            "reason": CONFLICT_REASON,
            "message": CONFLICT.format(_format_manager(conflict.entry)),
            "field": fieldset.format_path(conflict.path),
        }
        for group in by_manager.values()
        for conflict in group
    ]
    if len(conflicts) == 1:
        only = conflicts[0]
        message = ONE_CONFLICT.format(_format_manager(only.entry), fieldset.format_path(only.path))
    else:
        lines = []
        for group in by_manager.values():
            lines.append(f"conflicts with {_format_manager(group[0].entry)}:")
            lines += [f"- {fieldset.format_path(conflict.path)}" for conflict in group]
        message = CONFLICTS.format(len(conflicts), "\n".join(lines))
    return Refusal(code=409, reason="Conflict", message=message, details={"causes": causes})


def _format_manager(entry: Entry) -> str:
    shown = quote(entry.manager)
    if entry.subresource:
        shown += f" with subresource {quote(entry.subresource)}"
    return f"{shown} using {entry.api_version}" if entry.operation == UPDATE else shown


def _annotation(document: Mapping[str, Any]) -> str:
    annotations = (document.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(LAST_APPLIED) or "")


def _last_applied(live: Document, schema: MergeSchema, api_version: str) -> FieldSet:
    """Return the fields that client-side apply set last and no other manager changed; kubectl takes these over
    unforced."""
    try:
        last = msgspec.json.decode(_annotation(live) or "null")
    except msgspec.DecodeError:
        return EMPTY
    if (
        not isinstance(last, dict)
        or last.get("apiVersion") != api_version
        or ownership.schema_faults(schema, last)
    ):
        return EMPTY
    changes = ownership.differences(schema, last, live)
    unchanged = ownership.applied_fields(schema, last)
    for changed in (changes.modified, changes.added, changes.removed):
        unchanged = fieldset.difference(unchanged, changed)
    return unchanged


def _last_applied_annotation(applied: Document) -> str:
    """Return the last-applied annotation that kubectl's client-side apply would have written."""
    noted: Document = copy_json(applied)
    annotations = (noted.get("metadata") or {}).get("annotations")
    if isinstance(annotations, dict):
        annotations.pop(LAST_APPLIED, None)
    return json_text(noted) + "\n"
