"""The write pipeline: the steps that create, update, patch, apply and the subresources have in common.

A verb (``writer.Writer``) decodes its request into a ``Proposal``. ``Pipeline.run`` then takes these steps, in this
order; a kind's hooks (``kind.Kind``) are called only here:

1. A new object: check its namespace, initialize its metadata. Set defaults: the schema's, then ``Kind.default``.
   An existing object: set defaults, then keep what this endpoint can't change.
2. ``Kind.prepare`` sets fields that clients don't control. Fields that it changes on a create have no manager.
3. Field managers and the generation are updated. An update that changes nothing ends here, after admission.
4. ``Kind.authorize``, then validation: metadata, schema and CEL rules, ``Kind.validate``; all faults are one 422.
5. ``Kind.complete`` sets fields that follow from a valid object.
6. The permission to create, for a PUT or apply that creates; then admission policies.
7. The store commits the object, or deletes it if ``Kind.is_removable``: its deletion waited for this update.

Everything from reading the live object (``Store.head``) to the call of the store runs without awaiting, so
concurrent writers are serialized and no write is based on a state that another write has already replaced.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kubehub import status
from kubehub.json_decoder import decode_object
from kubehub.kind import Kind, Kinds
from kubehub.patches import managed_fields
from kubehub.resource import Document, Resource
from kubehub.schemas.metadata import finalizer_warnings
from kubehub.storage.store import Item, Store
from kubehub.write_request import WriteRequest
from kubehub.writing import validation
from kubehub.writing.commit import Committer
from kubehub.writing.decoding import Decoder
from kubehub.writing.metadata import bump_generation, carry_over, initialize, restrict_to_endpoint
from kubewire.api.meta import format_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A decoded write. ``live`` and ``old`` are the object that it replaces, None on a create."""

    resource: Resource
    """In the version that the store keeps, as is ``document``."""
    view: Resource
    """In the version that the client wrote, which ``managedFields`` name."""
    document: Document
    live: Item | None = None
    old: Document | None = None
    named: bool = False
    """The path names the object, so creating it needs the permission to create."""
    dry_run_version: Any = None
    """The resourceVersion that a dry-run create returns as it was sent."""
    has_defaults: bool = False
    """The document is an edited copy of the live object."""
    sets_managers: bool = False
    """The verb has already updated ``managedFields``."""


@dataclass(frozen=True, slots=True)
class Written:
    raw: bytes
    created: bool = False


class Pipeline:
    def __init__(
        self,
        *,
        store: Store,
        decoder: Decoder,
        kinds: Kinds,
        committer: Committer,
        clock: Callable[[], datetime],
    ) -> None:
        self._store, self._decoder, self._kinds = store, decoder, kinds
        self._committer, self._clock = committer, clock

    async def run(self, proposal: Proposal, request: WriteRequest) -> Written:
        resource, old, document = proposal.resource, proposal.old, proposal.document
        kind = self._kinds.of(resource)
        if old is None:
            self._check_namespace(resource, document["metadata"])
            initialize(resource, kind, document, now=format_time(self._clock()))
            document = self._default(resource, kind, document)
            if not proposal.sets_managers:
                self.update_managers(proposal.view, None, document, request)
        else:
            # Defaults first: ``old`` has them, so without them the client would seem to remove each defaulted field.
            if not proposal.has_defaults:
                document = self._default(resource, kind, document)
            carry_over(document, old)
            restrict_to_endpoint(resource, document, old, request.subresource)
            for state in (old, document):
                state.pop("apiVersion", None), state.pop("kind", None)
        # As registry strategies in Kubernetes: prepare, then validate, then canonicalize. Kinds reset here what clients
        # must not write, before it is compared.
        kind.prepare(document, old, request)
        document = self._decoder.normalize(resource, document)
        if old is not None:
            # After prepare and normalize: a change that they undo is no new generation, and must wake no controller.
            bump_generation(kind, document, old, request.subresource)
            if not proposal.sets_managers:
                self.update_managers(proposal.view, old, document, request)
            # A no-op write keeps its revision, as in Kubernetes: agents that apply in a loop would otherwise wake every
            # watch. Admission still runs, because a policy may refuse the request itself.
            if document == old:
                assert proposal.live is not None
                request.run_admission(document, old)
                return Written(await self._committer.return_unchanged(proposal.live))
        self._validate(resource, kind, document, old, request)
        # An update that creates needs the right to create, too, and by the name that defaulting may have completed.
        if old is None and proposal.named and request.authorize_create is not None:
            request.authorize_create(document["metadata"]["name"])
        request.run_admission(document, old)
        return await self._commit(proposal, kind, document, request)

    def _default(self, resource: Resource, kind: Kind, document: Document) -> Document:
        self._decoder.checker(resource).default(document)
        kind.default(document)
        return self._decoder.normalize(resource, document)

    def update_managers(
        self, view: Resource, old: Document | None, document: Document, request: WriteRequest
    ) -> None:
        """Record the fields that changed, in the version that the client wrote, as the request's manager's."""
        after = document
        if view.conversion is not None:
            after = view.conversion.from_storage(document)
            old = None if old is None else view.conversion.from_storage(old)
        managed_fields.update(
            old,
            after,
            manager=request.options.manager,
            operation="Update",
            api_version=view.api_version,
            # Entries of the scale subresource have no time, as in Kubernetes, so that they sort before the others.
            time="" if request.subresource == "scale" else format_time(self._clock()),
            subresource=request.subresource,
            node=view.node,
            blank=self._decoder.zero_fields(view),
        )

    def _validate(
        self, resource: Resource, kind: Kind, document: Document, old: Document | None, request: WriteRequest
    ) -> None:
        kind.authorize(document, old, request)
        checker = self._decoder.checker(resource)
        causes = validation.causes(resource, kind, checker, document, old, request)
        if causes:
            raise status.invalid(resource.group, resource.kind, document["metadata"].get("name", ""), causes)
        kind.complete(document, old, request)
        if resource.custom:
            request.warnings.extend(finalizer_warnings(document, old))

    async def _commit(
        self, proposal: Proposal, kind: Kind, document: Document, request: WriteRequest
    ) -> Written:
        resource, live, old = proposal.resource, proposal.live, proposal.old
        metadata, dry_run = document["metadata"], request.options.dry_run
        if live is None or old is None:
            # The name is checked last, as by kube-apiserver, which validates and admits an object before it finds that
            # it exists.
            if self._store.head((resource.key, metadata.get("namespace", ""), metadata["name"])) is not None:
                raise status.already_exists(resource.group, resource.plural, metadata["name"])
            if dry_run and proposal.dry_run_version:
                metadata["resourceVersion"] = proposal.dry_run_version
            raw = await self._committer.commit(resource, document, expect=0, dry_run=dry_run)
            return Written(raw, created=True)
        if (
            old["metadata"].get("deletionTimestamp")
            and not metadata.get("finalizers")
            and kind.is_removable(document)
        ):
            # The store deletes the last stored state; only this response shows the final update.
            response = self._committer.encode(resource, document)
            await self._committer.delete(resource, old, live, dry_run=dry_run)
            return Written(response)
        return Written(
            await self._committer.commit(resource, document, expect=live.revision, dry_run=dry_run)
        )

    def _check_namespace(self, resource: Resource, metadata: Document) -> None:
        """Require that a new object's namespace exists and isn't being deleted. Raises a 404 or a 403."""
        if not resource.namespaced:
            return
        name = metadata["namespace"]
        item = self._store.head(("namespaces", "", name))
        if item is None:
            raise status.not_found("", "namespaces", name)
        # The search in the bytes comes first: this runs for every create, and almost no namespace is terminating.
        if b'"deletionTimestamp"' in item.raw and decode_object(item.raw)["metadata"].get(
            "deletionTimestamp"
        ):
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
