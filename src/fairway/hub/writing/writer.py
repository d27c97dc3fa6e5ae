"""Writing objects: create, update, patch, apply and delete, each as one uninterrupted step up to the commit.

Everything between reading the newest state of an object (``Store.head``) and handing the next one to the store
runs without giving way, so concurrent writers are ordered here and no write is based on a state that another
has already replaced.
"""

import secrets
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from fairway.hub import status
from fairway.hub.json_decoder import decode_object as _decode
from fairway.hub.json_decoder import decode_value as _decode_any
from fairway.hub.kind import Kind
from fairway.hub.options import Deletion
from fairway.hub.patches import apply
from fairway.hub.patches.fieldset import EMPTY, FieldSet
from fairway.hub.patches.merge import drop_emptied
from fairway.hub.registry import Registry
from fairway.hub.resource import Document, Resource
from fairway.hub.serialization import representation
from fairway.hub.storage.store import Item, Store
from fairway.hub.timestamps import timestamp
from fairway.hub.user import User
from fairway.hub.write_request import APPLY_PATCH, Admit, Patch, WriteRequest
from fairway.hub.writing.commit import Committer
from fairway.hub.writing.deletion import Deleted, Deletions
from fairway.hub.writing.intake import Intake, clone
from fairway.hub.writing.patching import patched, unknown_fields
from fairway.hub.writing.preconditions import check_uid, check_version, require_version

WITH_VERSION: Final = "resourceVersion should not be set on objects to be created"

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_BASE_LENGTH: Final = 58
_ATTEMPTS: Final = 8

_KEPT: Final = ("creationTimestamp", "generation", "resourceVersion", "name", "namespace", "selfLink")
"""Metadata of the live object that no update changes, whatever it says."""

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Written:
    raw: bytes
    created: bool = False


def _clone_value(value: Any) -> Any:
    return _decode_any(_encode(value))


def suffix() -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(5))


class Writer:
    def __init__(
        self,
        *,
        store: Store,
        registry: Registry,
        kinds: Mapping[str, Kind],
        clock: Callable[[], datetime],
    ) -> None:
        self._store, self._registry, self._clock = store, registry, clock
        self._intake = Intake(registry=registry, kinds=kinds, clock=clock)
        self._committer = Committer(store=store)
        self._deletions = Deletions(intake=self._intake, committer=self._committer, clock=clock)

    async def settled(self) -> None:
        """To be awaited before a refusal is told: see ``Store.settled``."""
        await self._store.settled()

    def now(self) -> str:
        return timestamp(self._clock())

    def resource(self, key: str) -> Resource:
        found = self._registry.of_key(key)
        assert found is not None, key
        return found

    def returned(self, resource: Resource) -> bool:
        return self._intake.kind(resource).returned

    def owned(self, resource: Resource, document: Document, request: WriteRequest) -> list[Document]:
        """Who manages the fields of a document that isn't kept."""
        return self._intake.owned_fields(resource, document, request)

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        options: Deletion,
        *,
        user: User,
        admit: Admit | None = None,
    ) -> Deleted:
        return await self._deletions.delete(resource, namespace, name, options, user=user, admit=admit)

    # Create

    async def create(
        self, resource: Resource, namespace: str, document: Document, request: WriteRequest, *, name: str = ""
    ) -> Written:
        """``name`` is what the path says, when it does (an apply or an upsert)."""
        view = resource
        resource, document = self._intake.kept(resource, clone(document), request)
        self._intake.single_owners(document, request)
        metadata = _metadata(document)
        self._placed(resource, metadata, namespace, name)
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        dry_run, version = request.options.dry_run, metadata.get("resourceVersion")
        if version and not name and not dry_run:
            raise status.Refusal(code=500, reason="", message=WITH_VERSION)
        base = str(metadata.get("generateName") or "")[:_BASE_LENGTH]
        for _ in range(_ATTEMPTS):
            if generated:
                metadata["name"] = base + suffix()
            key = (resource.key, metadata.get("namespace", ""), str(metadata.get("name", "")))
            if not generated or self._store.head(key) is None:
                break
        else:
            raise status.already_exists(resource.group, resource.plural, metadata["name"])
        self._inhabited(resource, metadata)
        self._begun(resource, document)
        kind = self._intake.kind(resource)
        document = self._intake.defaulted(resource, document)
        self._intake.own(view, None, document, request)
        kind.prepare(document, None, request)
        document = self._intake.rewritten(resource, document)
        metadata = document["metadata"]
        self._intake.check(resource, document, None, request)
        if name and request.may_create is not None:
            request.may_create(name)
        request.admitted(document, None)
        if self._store.head(key) is not None:
            raise status.already_exists(resource.group, resource.plural, metadata["name"])
        if dry_run and version:
            metadata["resourceVersion"] = version
        raw = await self._committer.commit(resource, document, expect=0, dry_run=dry_run)
        return Written(raw, created=True)

    def _placed(self, resource: Resource, metadata: Document, namespace: str, name: str) -> None:
        if resource.namespaced:
            if metadata.get("namespace") not in (None, "", namespace):
                raise status.bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        if name and metadata.get("name") != name:
            raise status.bad_request(misnamed(metadata.get("name"), name))

    def _inhabited(self, resource: Resource, metadata: Document) -> None:
        """New objects need a namespace that is there and stays."""
        if not resource.namespaced:
            return
        name = metadata["namespace"]
        item = self._store.head(("namespaces", "", name))
        if item is None:
            raise status.not_found("", "namespaces", name)
        if b'"deletionTimestamp"' in item.raw and _decode(item.raw)["metadata"].get("deletionTimestamp"):
            refusal = status.forbidden(
                resource.group,
                resource.plural,
                metadata.get("name", ""),
                f"unable to create new content in namespace {name} because it is being terminated",
            )
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {name} is being terminated",
                "field": "metadata.namespace",
            }
            refusal.details = {**(refusal.details or {}), "causes": [cause]}
            raise refusal

    def _begun(self, resource: Resource, document: Document) -> None:
        metadata = document["metadata"]
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
            metadata.pop(key, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = timestamp(self._clock())
        if resource.custom or self._intake.kind(resource).generation:
            metadata["generation"] = 1
        if resource.custom and "status" in resource.subresources:
            document.pop("status", None)

    # Update

    async def update(
        self, resource: Resource, namespace: str, name: str, document: Document, request: WriteRequest
    ) -> Written:
        view, sent = resource, document
        resource, document = self._intake.kept(resource, clone(document), request)
        self._intake.single_owners(document, request)
        metadata = _metadata(document)
        self._placed(resource, metadata, namespace, name)
        kind = self._intake.kind(resource)
        key = (resource.key, namespace if resource.namespaced else "", name)
        item = self._store.head(key)
        if item is None:
            if request.subresource or not kind.upsert:
                raise status.not_found(resource.group, resource.plural, name)
            check_uid(resource, name, key[1], "", metadata.get("uid"))
            return await self.create(view, namespace, sent, request, name=name)
        old = _decode(item.raw)
        check_uid(resource, name, key[1], old["metadata"]["uid"], metadata.get("uid"))
        require_version(resource, kind, metadata, name)
        check_version(resource, old, metadata)
        document = self._intake.defaulted(resource, document)
        return await self._replace(resource, item, old, document, request, view=view)

    async def _replace(
        self,
        resource: Resource,
        item: Item,
        old: Document,
        document: Document,
        request: WriteRequest,
        *,
        view: Resource | None = None,
        applied: bool = False,
    ) -> Written:
        """The second half of every change: from the wished-for document to the committed one."""
        kind = self._intake.kind(resource)
        metadata = _metadata(document)
        live = old["metadata"]
        metadata["uid"] = metadata.get("uid") or live["uid"]
        for key in _KEPT:
            if key in live:
                metadata[key] = live[key]
            else:
                metadata.pop(key, None)
        if "deletionTimestamp" in live:  # to set one where there is none is refused
            metadata["deletionTimestamp"] = live["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in live:
            metadata.setdefault("deletionGracePeriodSeconds", live["deletionGracePeriodSeconds"])
        self._confined(resource, old, document, request)
        old.pop("apiVersion", None), old.pop("kind", None)
        document.pop("apiVersion", None), document.pop("kind", None)
        kind.prepare(document, old, request)
        document = self._intake.rewritten(resource, document)
        metadata = document["metadata"]
        changed = _specification(document) != _specification(old)
        if kind.annotated and not request.subresource:
            changed |= (metadata.get("annotations") or {}) != (live.get("annotations") or {})
        if "generation" in live and changed:
            metadata["generation"] = live["generation"] + 1
        if not applied:
            self._intake.own(view or resource, old, document, request)
        if document == old:
            request.admitted(document, old)
            return Written(await self._committer.unchanged(item))
        self._intake.check(resource, document, old, request)
        request.admitted(document, old)
        if live.get("deletionTimestamp") and not metadata.get("finalizers") and kind.finished(document):
            # It goes as it was kept: the change that let it go is only told to whoever made it.
            told = _encode(self._committer.order(resource, document))
            await self._committer.erase(resource, old, item, dry_run=request.options.dry_run)
            return Written(told)
        dry_run = request.options.dry_run
        return Written(
            await self._committer.commit(resource, document, expect=item.revision, dry_run=dry_run)
        )

    def _confined(self, resource: Resource, old: Document, document: Document, request: WriteRequest) -> None:
        """A subresource changes only its own part, and the main endpoint all but that."""
        if request.subresource == "status":
            for key in {*old, *document} - {"metadata", "status", "apiVersion", "kind"}:
                _keep(document, old, key)
            if resource.custom:
                owned = document["metadata"].get("managedFields")
                document["metadata"] = clone(old["metadata"])
                if owned is not None:
                    document["metadata"]["managedFields"] = owned
        elif not request.subresource and "status" in resource.subresources:
            _keep(document, old, "status")

    async def change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        make: Callable[[Document], None],
        request: WriteRequest,
        *,
        sent: Document | None = None,
        applied: bool = False,
    ) -> Written:
        """A change the hub makes on a client's behalf, as subresources do; ``make`` edits the newest state.

        ``sent`` is the metadata that came with it: where it tells a uid or a version, they must be the object's.
        ``applied`` if ``make`` also sets who manages which field.
        """
        item, old = self._committer.head(resource, namespace, name)
        check_uid(resource, name, item.key[1], old["metadata"]["uid"], (sent or {}).get("uid"))
        check_version(resource, old, sent or {})
        document = clone(old)
        make(document)
        return await self._replace(resource, item, old, document, request, applied=applied)

    # Patch and apply

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Patch, request: WriteRequest
    ) -> Written:
        if patch.media == APPLY_PATCH:
            return await self._apply(resource, namespace, name, patch, request)
        item, old = self._committer.head(resource, namespace, name)
        live = representation.decode(resource, item.raw)
        changed = patched(resource, live, patch)
        metadata = changed.get("metadata")
        if not isinstance(metadata, dict) or not metadata:
            changed["metadata"] = metadata = {"name": name}
        self._placed(resource, metadata, namespace, name)
        self._intake.typed(resource, changed)
        changed = self._intake.cleaned_patch(resource, changed, request, odd=unknown_fields(patch))
        self._intake.single_owners(changed, request, patched=True)
        view = resource
        resource, changed = self._intake.converted(resource, changed)
        require_version(resource, self._intake.kind(resource), _metadata(changed), name)
        check_version(resource, old, _metadata(changed))
        changed = self._intake.defaulted(resource, changed)
        return await self._replace(resource, item, old, changed, request, view=view)

    async def _apply(
        self, resource: Resource, namespace: str, name: str, patch: Patch, request: WriteRequest
    ) -> Written:
        if not isinstance(patch.body, dict):
            raise status.bad_request("error decoding YAML: the body must be an object")
        applied = clone(patch.body)
        version, kind = applied.get("apiVersion"), applied.get("kind")
        if (version, kind) != (resource.api_version, resource.kind):
            group, _, short = str(version or "").rpartition("/")
            raise status.bad_request(f"invalid object type: {group}/{short}, Kind={kind or ''}")
        resource, applied = self._intake.converted(resource, applied)
        applied["apiVersion"], applied["kind"] = resource.api_version, resource.kind
        metadata = _metadata(applied)
        key = (resource.key, namespace if resource.namespaced else "", name)
        item = self._store.head(key)
        live = None if item is None else representation.decode(resource, item.raw)
        if item is None and request.subresource:
            raise status.not_found(resource.group, resource.plural, name)
        if item is None and metadata.get("uid"):
            raise status.conflict(
                resource.group,
                resource.plural,
                name,
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found",
            )
        if live is not None:
            if "resourceVersion" in metadata:  # without one, the newest is meant
                require_version(resource, self._intake.kind(resource), metadata, name)
            check_version(resource, live, metadata)
        merged = apply.apply(
            live,
            applied,
            manager=request.options.manager,
            force=request.options.force,
            api_version=resource.api_version,
            time=timestamp(self._clock()),
            subresource=request.subresource,
            node=resource.node,
            ignored=_elsewhere(resource, request.subresource),
            blank=self._intake.nothing(resource),
        )
        self._intake.typed(resource, merged)
        drop_emptied(merged, live=live, applied=applied)
        merged = self._intake.cleaned(resource, merged, request, applied=True)
        self._intake.single_owners(merged, request, patched=True)
        if item is None:
            return await self._applied_anew(resource, namespace, name, merged, request)
        old = _decode(item.raw)
        self._placed(resource, merged["metadata"], namespace, name)
        merged = self._intake.defaulted(resource, merged)
        return await self._replace(resource, item, old, merged, request, applied=True)

    async def _applied_anew(
        self, resource: Resource, namespace: str, name: str, merged: Document, request: WriteRequest
    ) -> Written:
        metadata = _metadata(merged)
        self._placed(resource, metadata, namespace, name)
        owned = metadata.get("managedFields")
        self._inhabited(resource, metadata)
        self._begun(resource, merged)
        kind = self._intake.kind(resource)
        merged = self._intake.defaulted(resource, merged)
        metadata = merged["metadata"]
        kind.prepare(merged, None, request)
        merged = self._intake.rewritten(resource, merged)
        metadata = merged["metadata"]
        if owned is not None:
            metadata["managedFields"] = owned
        self._intake.check(resource, merged, None, request)
        if request.may_create is not None:
            request.may_create(name)
        request.admitted(merged, None)
        raw = await self._committer.commit(resource, merged, expect=0, dry_run=request.options.dry_run)
        return Written(raw, created=True)


def _metadata(document: Document) -> Document:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        metadata = {}
        document["metadata"] = metadata
    return metadata


def _keep(document: Document, old: Document, key: str) -> None:
    if key in old:
        document[key] = _clone_value(old[key])
    else:
        document.pop(key, None)


def _specification(document: Document) -> Document:
    return {k: v for k, v in document.items() if k not in ("metadata", "status", "apiVersion", "kind")}


def _elsewhere(resource: Resource, subresource: str) -> FieldSet:
    """What this endpoint doesn't write, so that whoever applies through it doesn't come to own it."""
    if "status" not in resource.subresources:
        return EMPTY
    if subresource == "status":
        return {"f:spec": {}}
    return {"f:status": {}} if not subresource else EMPTY


def misnamed(found: object, wanted: str) -> str:
    if not found:
        return f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
    return f"the name of the object ({found}) does not match the name on the URL ({wanted})"
