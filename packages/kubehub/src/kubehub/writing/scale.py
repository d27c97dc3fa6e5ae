"""The ``scale`` subresource: read and set the replicas of a workload or custom resource."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from kubehub import builtin, status
from kubehub.builtin.canonical import Malformed, canonical
from kubehub.patches import apply, fieldset, managed_fields, mergepatch
from kubehub.patches import jsonpatch as operations
from kubehub.patches.managed_fields import Managers
from kubehub.request_info import RequestInfo
from kubehub.resource import Column, Document, Resource, Scale
from kubehub.schema import parse
from kubehub.serialization import representation
from kubehub.storage.store import Store
from kubehub.write_request import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Patch,
    WriteRequest,
)
from kubehub.writing.decoding import report_unknown
from kubehub.writing.metadata import set_namespace_and_name
from kubehub.writing.writer import Writer

SCALE: Final = Resource(
    group="autoscaling",
    version="v1",
    kind="Scale",
    plural="scales",
    namespaced=True,
    node=parse({"type": "object"}),
    custom=True,  # so that tables find its cells by JSONPath
    columns=(
        Column(
            name="Desired", type="integer", description="Desired number of replicas.", path=".spec.replicas"
        ),
        Column(
            name="Available",
            type="integer",
            description="Observed number of replicas.",
            path=".status.replicas",
        ),
        Column(
            name="Age",
            type="date",
            description="How long ago it was created.",
            path=".metadata.creationTimestamp",
        ),
    ),
)

_REPLICAS: Final = Scale(
    spec_path=".spec.replicas", status_path=".status.replicas", selector_path=".spec.selector"
)
UNSTRATEGIC: Final = (
    "the body of the request was in an unknown format - accepted media types include: "
    f"{JSON_PATCH}, {MERGE_PATCH}, {APPLY_PATCH}"
)

_REPLICAS_FIELD: Final = ("f:spec", "f:replicas")
_OWNED: Final = fieldset.of(("spec", "replicas"))
_KEPT: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class ScaleSubresource:
    def __init__(self, *, store: Store, writer: Writer) -> None:
        self._store, self._writer = store, writer

    def get(self, resource: Resource, info: RequestInfo) -> Document:
        return self._current(resource, info)

    async def update(
        self, resource: Resource, info: RequestInfo, document: Document, request: WriteRequest
    ) -> Document:
        _check_kind(resource, document)
        try:
            wanted = _decode_scale(document, request)
        except Malformed as fault:
            words = f'Scale in version "{SCALE.version}" cannot be handled as a Scale: {fault}'
            raise status.bad_request(words) from fault
        set_namespace_and_name(resource, wanted.get("metadata") or {}, info.namespace, info.name)
        return await self._rescale(resource, info, wanted, request)

    async def patch(
        self, resource: Resource, info: RequestInfo, patch: Patch, request: WriteRequest
    ) -> Document:
        if patch.media == APPLY_PATCH:
            return await self._apply(resource, info, patch.body, request)
        if patch.media == STRATEGIC_PATCH and resource.custom:
            raise status.unsupported_media(UNSTRATEGIC)
        changed = _apply_patch(self._current(resource, info), patch)
        try:
            wanted = _decode_scale(changed, request)
        except Malformed as fault:
            shown = msgspec.json.encode(changed).decode()
            raise status.invalid("", "", "", [status.invalid_value("patch", shown, str(fault))]) from fault
        set_namespace_and_name(resource, wanted.get("metadata") or {}, info.namespace, info.name)
        return await self._rescale(resource, info, wanted, request)

    def _current(self, resource: Resource, info: RequestInfo) -> Document:
        item = self._store.get((resource.key, info.namespace if resource.namespaced else "", info.name))
        if item is None:
            raise status.not_found(resource.group, resource.plural, info.name)
        return _scale(resource, representation.decode(resource, item.raw))

    async def _rescale(
        self, resource: Resource, info: RequestInfo, wanted: Document, request: WriteRequest
    ) -> Document:
        def edit(current: Document) -> None:
            _set_replicas(resource, current, wanted)

        return await self._change(resource, info, edit, request, sent=wanted.get("metadata"))

    async def _apply(
        self, resource: Resource, info: RequestInfo, applied: Any, request: WriteRequest
    ) -> Document:
        """Merge the scale like any object; its managers are those of the parent's replicas."""
        metadata = applied.get("metadata") if isinstance(applied, dict) else None
        sent = metadata if isinstance(metadata, dict) else {}

        def edit(current: Document) -> None:
            owners = ScaleOwners(resource)
            live = _scale(resource, current)
            managed_fields.write(live, owners.of_scale(current))
            merged = apply.apply(
                live,
                applied,
                manager=request.options.manager,
                force=request.options.force,
                api_version=SCALE.api_version,
                kind=SCALE.kind,
                time="",
                subresource="scale",
                node=builtin.kind(SCALE.group, SCALE.version, SCALE.kind).node,
            )
            # The merged scale has the name and the namespace of the live one where the applied one has none.
            set_namespace_and_name(resource, merged["metadata"], info.namespace, info.name)
            after = managed_fields.read(merged["metadata"].get("managedFields"), trusted=True)
            try:
                wanted = _decode_scale(merged, request)
            except Malformed as fault:
                raise status.bad_request(str(fault)) from fault
            _set_replicas(resource, current, wanted)
            managed_fields.write(current, owners.of_parent(current, after))

        return await self._change(resource, info, edit, request, sent=sent, sets_managers=True)

    async def _change(
        self,
        resource: Resource,
        info: RequestInfo,
        edit: Callable[[Document], None],
        request: WriteRequest,
        *,
        sent: Document | None,
        sets_managers: bool = False,
    ) -> Document:
        def admit(new: Document | None, old: Document | None) -> None:
            assert new is not None
            assert old is not None
            request.run_admission(_scale(resource, new), _scale(resource, old))

        written = await self._writer.change(
            resource,
            info.namespace,
            info.name,
            edit,
            replace(request, admit=admit),
            sent=sent or {},
            sets_managers=sets_managers,
        )
        return _scale(resource, representation.decode(resource, written.raw))


class ScaleOwners:
    """Converts between the managers of a resource and those of its scale, which own only the replicas."""

    def __init__(self, resource: Resource) -> None:
        self._version = resource.api_version
        parts = _replicas_path(resource)
        self._path = tuple(fieldset.field(part) for part in parts)
        self._replicas = fieldset.of(tuple(parts))

    def of_scale(self, parent: Document) -> Managers:
        entries = [
            replace(entry, api_version=SCALE.api_version, fields=_OWNED)
            for entry in _managers(parent).values()
            if fieldset.contains(entry.fields, *self._path)
        ]
        return {entry.key: entry for entry in entries}

    def of_parent(self, parent: Document, scale: Managers) -> Managers:
        owning = {
            (entry.manager, entry.operation, entry.subresource): entry
            for entry in scale.values()
            if fieldset.contains(entry.fields, *_REPLICAS_FIELD)
        }
        managers: Managers = {}
        for key, entry in _managers(parent).items():
            fields = entry.fields
            identity = (entry.manager, entry.operation, entry.subresource)
            if fieldset.contains(fields, *self._path) and owning.pop(identity, None) is None:
                fields = fieldset.difference(fields, self._replicas)
            if fields:
                managers[key] = replace(entry, fields=fields)
        for entry in owning.values():
            own = replace(entry, api_version=self._version, fields=self._replicas)
            managers[own.key] = own
        return managers


def _managers(document: Document) -> Managers:
    return managed_fields.read(document["metadata"].get("managedFields"), trusted=True)


def _replicas_path(resource: Resource) -> list[str]:
    return [part for part in (resource.scale or _REPLICAS).spec_path.split(".") if part]


def _set_replicas(resource: Resource, document: Document, wanted: Document) -> None:
    replicas = (wanted.get("spec") or {}).get("replicas") or 0
    if replicas < 0 and not resource.custom:
        cause = status.invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise status.invalid("autoscaling", "Scale", document["metadata"]["name"], [cause])
    place: Any = document
    *parents, last = _replicas_path(resource)
    for part in parents:
        place = place.setdefault(part, {})
    place[last] = replicas


def _decode_scale(document: Document, request: WriteRequest) -> Document:
    """Decode a scale; reject unknown fields or warn, depending on ``fieldValidation``. Raises Malformed."""
    converted = canonical(builtin.kind(SCALE.group, SCALE.version, SCALE.kind), document)
    if fault := report_unknown([f'unknown field "{path}"' for path in converted.unknown], request):
        raise Malformed(fault)
    return converted.document


def _scale(resource: Resource, document: Document) -> Document:
    paths = resource.scale or _REPLICAS
    metadata = document["metadata"]
    scale: Document = {
        "apiVersion": SCALE.api_version,
        "kind": SCALE.kind,
        "metadata": {key: metadata[key] for key in _KEPT if key in metadata},
        "spec": {},
        "status": {"replicas": _number(document, paths.status_path) or 0},
    }
    replicas = _number(document, paths.spec_path)
    if replicas:
        scale["spec"]["replicas"] = replicas
    if paths.selector_path and (selector := _selector(document, paths.selector_path)):
        scale["status"]["selector"] = selector
    return scale


def _check_kind(resource: Resource, document: Document) -> None:
    kind, version = document.get("kind") or SCALE.kind, document.get("apiVersion") or SCALE.api_version
    if (kind, version) == (SCALE.kind, SCALE.api_version):
        return
    if resource.custom:
        raise status.bad_request(
            'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
        )
    short = str(version).rpartition("/")[2]
    raise status.bad_request(
        f'{kind} in version "{short}" cannot be handled as a Scale: converting ({short}.{kind}) to '
        "(autoscaling.Scale): unknown conversion"
    )


def _apply_patch(current: Document, patch: Patch) -> Document:
    if patch.media == JSON_PATCH:
        changed = operations.apply(current, patch.body)
    elif patch.media in (MERGE_PATCH, STRATEGIC_PATCH):
        changed = mergepatch.apply(current, patch.body)
    else:
        raise status.unsupported_media(f"unsupported patch type {patch.media}; use {MERGE_PATCH}")
    if not isinstance(changed, dict):
        raise status.bad_request("the patched Scale is not an object")
    return changed


def _value_at(document: Document, path: str) -> Any:
    """Return the value at a dotted path, as the paths of a CRD's scale are."""
    value: Any = document
    for part in path.removeprefix(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _number(document: Document, path: str) -> int | None:
    value = _value_at(document, path)
    return value if isinstance(value, int) else None


def _selector(document: Document, path: str) -> str:
    value = _value_at(document, path)
    if isinstance(value, str):
        return value
    selector = value if isinstance(value, dict) else {}
    labels = selector.get("matchLabels", selector) or {}
    parts = [f"{k}={v}" for k, v in sorted(labels.items()) if isinstance(v, str)]
    signs: dict[str, Callable[[str, str], str]] = {
        "In": lambda key, values: f"{key} in ({values})",
        "NotIn": lambda key, values: f"{key} notin ({values})",
        "Exists": lambda key, _: key,
        "DoesNotExist": lambda key, _: f"!{key}",
    }
    for expression in selector.get("matchExpressions") or ():
        write = signs.get(expression.get("operator", ""))
        if write is not None:
            parts.append(write(expression.get("key", ""), ",".join(sorted(expression.get("values") or ()))))
    return ",".join(parts)
