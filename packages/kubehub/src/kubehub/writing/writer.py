"""The verbs that write: each decodes its request into a ``Proposal``, which ``pipeline`` validates and commits."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from kubehub import status
from kubehub.json_decoder import decode_object
from kubehub.kind import Kinds
from kubehub.options import Deletion
from kubehub.patches import apply
from kubehub.patches.fieldset import EMPTY, FieldSet
from kubehub.registry import Registry
from kubehub.resource import Document, Resource
from kubehub.serialization import representation
from kubehub.storage.store import Store
from kubehub.user import User
from kubehub.write_request import APPLY_PATCH, Admit, Patch, WriteRequest
from kubehub.writing.commit import Committer
from kubehub.writing.decoding import Decoder, clone, drop_duplicate_owners
from kubehub.writing.deletion import Deleted, Deletions
from kubehub.writing.metadata import generate_name, metadata_of, set_namespace_and_name
from kubehub.writing.patching import apply_patch, unknown_fields
from kubehub.writing.pipeline import Pipeline, Proposal, Written
from kubehub.writing.preconditions import check_uid, check_version, require_version
from kubewire.api.meta import format_time

WITH_VERSION: Final = "resourceVersion should not be set on objects to be created"


class Writer:
    def __init__(
        self, *, store: Store, registry: Registry, kinds: Kinds, clock: Callable[[], datetime]
    ) -> None:
        self._store, self._registry, self._kinds, self._clock = store, registry, kinds, clock
        self._decoder = Decoder(registry=registry)
        self._committer = Committer(store=store)
        self._pipeline = Pipeline(
            store=store, decoder=self._decoder, kinds=kinds, committer=self._committer, clock=clock
        )
        self._deletions = Deletions(kinds=kinds, committer=self._committer, clock=clock)

    async def wait_for_commits(self) -> None:
        """Await this before answering with a refusal: see ``Store.wait_for_commits``."""
        await self._store.wait_for_commits()

    def now(self) -> str:
        return format_time(self._clock())

    def resource(self, key: str) -> Resource:
        resource = self._registry.of_key(key)
        assert resource is not None, key
        return resource

    def returns_deleted_object(self, resource: Resource) -> bool:
        return self._kinds.of(resource).return_deleted_object

    def managers_of_new(
        self, resource: Resource, document: Document, request: WriteRequest
    ) -> list[Document]:
        """Return the ``managedFields`` of a document that isn't stored."""
        decoded = self._decoder.decode(resource, clone(document), request)
        self._pipeline.update_managers(resource, None, decoded, request)
        managers: list[Document] = decoded["metadata"].get("managedFields", [])
        return managers

    async def create(
        self, resource: Resource, namespace: str, document: Document, request: WriteRequest
    ) -> Written:
        view = resource
        resource, document = self._decode(resource, document, request)
        metadata = metadata_of(document)
        set_namespace_and_name(resource, metadata, namespace, "")
        version = metadata.get("resourceVersion")
        if version and not request.options.dry_run:
            raise status.Refusal(code=500, reason="", message=WITH_VERSION)
        place = metadata.get("namespace", "")
        generate_name(
            resource, metadata, lambda name: self._store.head((resource.key, place, name)) is not None
        )
        proposal = Proposal(resource=resource, view=view, document=document, dry_run_version=version)
        return await self._pipeline.run(proposal, request)

    def _decode(
        self, resource: Resource, document: Document, request: WriteRequest
    ) -> tuple[Resource, Document]:
        document = clone(document)
        self._decoder.check_type(resource, document)
        document = self._decoder.decode(resource, document, request)
        resource, document = self._decoder.to_storage(resource, document)
        drop_duplicate_owners(document, request)
        return resource, document

    async def update(
        self, resource: Resource, namespace: str, name: str, document: Document, request: WriteRequest
    ) -> Written:
        view = resource
        resource, document = self._decode(resource, document, request)
        metadata = metadata_of(document)
        set_namespace_and_name(resource, metadata, namespace, name)
        kind = self._kinds.of(resource)
        key = (resource.key, namespace if resource.namespaced else "", name)
        live = self._store.head(key)
        if live is None:
            if request.subresource or not kind.allow_create_on_update:
                raise status.not_found(resource.group, resource.plural, name)
            check_uid(resource, name, key[1], "", metadata.get("uid"))
            version = metadata.get("resourceVersion")
            proposal = Proposal(
                resource=resource, view=view, document=document, named=True, dry_run_version=version
            )
            return await self._pipeline.run(proposal, request)
        old = decode_object(live.raw)
        # In the order of Kubernetes' registry store, whose first failing precondition clients see.
        check_uid(resource, name, key[1], old["metadata"]["uid"], metadata.get("uid"))
        require_version(resource, kind, metadata, name)
        check_version(resource, old, metadata)
        proposal = Proposal(resource=resource, view=view, document=document, live=live, old=old)
        return await self._pipeline.run(proposal, request)

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Patch, request: WriteRequest
    ) -> Written:
        if patch.media == APPLY_PATCH:
            return await self._apply(resource, namespace, name, patch, request)
        live, old = self._committer.head(resource, namespace, name)
        changed = apply_patch(resource, representation.decode(resource, live.raw), patch)
        metadata = changed.get("metadata")
        if not isinstance(metadata, dict) or not metadata:
            changed["metadata"] = metadata = {"name": name}
        set_namespace_and_name(resource, metadata, namespace, name)
        self._decoder.check_type(resource, changed)
        changed = self._decoder.decode_patched(resource, changed, request, in_patch=unknown_fields(patch))
        drop_duplicate_owners(changed, request, patched=True)
        view = resource
        resource, changed = self._decoder.to_storage(resource, changed)
        require_version(resource, self._kinds.of(resource), metadata_of(changed), name)
        check_version(resource, old, metadata_of(changed))
        proposal = Proposal(resource=resource, view=view, document=changed, live=live, old=old)
        return await self._pipeline.run(proposal, request)

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
        resource, applied = self._decoder.to_storage(resource, applied)
        applied["apiVersion"], applied["kind"] = resource.api_version, resource.kind
        live = self._store.head((resource.key, namespace if resource.namespaced else "", name))
        current = None if live is None else representation.decode(resource, live.raw)
        self._check_applied(resource, name, metadata_of(applied), current, request)
        merged = apply.apply(
            current,
            applied,
            manager=request.options.manager,
            force=request.options.force,
            api_version=resource.api_version,
            time=format_time(self._clock()),
            subresource=request.subresource,
            node=resource.node,
            ignored=_fields_of_other_endpoints(resource, request.subresource),
            blank=self._decoder.zero_fields(resource),
        )
        self._decoder.check_type(resource, merged)
        merged = self._decoder.decode(resource, merged, request, applied=True)
        drop_duplicate_owners(merged, request, patched=True)
        set_namespace_and_name(resource, metadata_of(merged), namespace, name)
        proposal = Proposal(
            resource=resource,
            view=resource,
            document=merged,
            live=live,
            old=None if live is None else decode_object(live.raw),
            named=True,
            sets_managers=True,
        )
        return await self._pipeline.run(proposal, request)

    def _check_applied(
        self,
        resource: Resource,
        name: str,
        metadata: Document,
        current: Document | None,
        request: WriteRequest,
    ) -> None:
        """Check the uid and resourceVersion of an applied configuration. Raises a 404, a 409 or a 422."""
        if current is not None:
            if "resourceVersion" in metadata:  # an apply may omit it even where an update must not
                require_version(resource, self._kinds.of(resource), metadata, name)
            check_version(resource, current, metadata)
            return
        if request.subresource:
            raise status.not_found(resource.group, resource.plural, name)
        if metadata.get("uid"):
            raise status.conflict(
                resource.group,
                resource.plural,
                name,
                f"uid mismatch: the provided object specified uid {metadata['uid']}, and no existing object was found",
            )

    async def change(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        edit: Callable[[Document], None],
        request: WriteRequest,
        *,
        sent: Document | None = None,
        sets_managers: bool = False,
    ) -> Written:
        """Write what ``edit`` makes of the live object, for subresources.

        ``sent`` is the metadata of the request: its uid and version, if any, must be the object's. ``sets_managers``
        if ``edit`` also updates ``managedFields``.
        """
        live, old = self._committer.head(resource, namespace, name)
        check_uid(resource, name, live.key[1], old["metadata"]["uid"], (sent or {}).get("uid"))
        check_version(resource, old, sent or {})
        document = clone(old)
        edit(document)
        proposal = Proposal(
            resource=resource,
            view=resource,
            document=document,
            live=live,
            old=old,
            has_defaults=True,
            sets_managers=sets_managers,
        )
        return await self._pipeline.run(proposal, request)

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


def _fields_of_other_endpoints(resource: Resource, subresource: str) -> FieldSet:
    """Return the fields that this endpoint doesn't write, which its appliers must not own."""
    if "status" not in resource.subresources:
        return EMPTY
    if subresource == "status":
        return {"f:spec": {}}
    return {"f:status": {}} if not subresource else EMPTY
