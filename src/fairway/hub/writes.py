"""Writing objects: create, update, patch, apply and delete, each as one uninterrupted step up to the commit.

Everything between reading the newest state of an object (``Store.head``) and handing the next one to the store
runs without giving way, so concurrent writers are ordered here and no write is based on a state that another
has already replaced.
"""

import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from fairway.hub import (
    apply,
    builtin,
    form,
    jsonpatch,
    managed,
    mergepatch,
    presence,
    status,
    strategic,
    structural,
)
from fairway.hub.builtin.canonical import Malformed, canonical
from fairway.hub.fieldset import EMPTY, FieldSet
from fairway.hub.kinds import PLAIN, Kind
from fairway.hub.metadata import STANDARD_FINALIZERS, check_changed, check_new, finalizer_warnings
from fairway.hub.moments import timestamp
from fairway.hub.object_meta import malformed
from fairway.hub.options import BACKGROUND, FOREGROUND, IGNORE, ORPHAN, STRICT, Deletion, Write
from fairway.hub.registry import Registry
from fairway.hub.requests import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Patch, Request
from fairway.hub.resource import Document, Resource
from fairway.hub.store import Item, Store
from fairway.hub.structural import RULES_NOT_CHECKED
from fairway.hub.user import User

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"

UNQUALIFIED: Final = "name is neither a standard finalizer name nor is it fully qualified"

_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_BASE_LENGTH: Final = 58
_ATTEMPTS: Final = 8
_WARNINGS: Final = 10

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Written:
    raw: bytes
    created: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """What a deletion left: the object as it now stands, and whether it is gone."""

    raw: bytes
    gone: bool


def _clone(document: Document) -> Document:
    """A copy that shares nothing: through JSON it is made many times faster than piece by piece."""
    return _decode(_encode(document))


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
        self._store, self._registry, self._kinds = store, registry, kinds
        self._clock = clock
        self._checkers: dict[int, tuple[object, structural.Checker]] = {}

    # What every write has in common

    def _kind(self, resource: Resource) -> Kind:
        return PLAIN if resource.custom else self._kinds.get(resource.key, PLAIN)

    def now(self) -> str:
        return timestamp(self._clock())

    def resource(self, key: str) -> Resource:
        found = self._registry.of_key(key)
        assert found is not None, key
        return found

    def returned(self, resource: Resource) -> bool:
        return self._kind(resource).returned

    def checker(self, resource: Resource) -> structural.Checker:
        known = self._checkers.get(id(resource.node))
        if known is None or known[0] is not resource.node:
            if len(self._checkers) > 2048:
                self._checkers.clear()
            known = (resource.node, structural.compile(resource.node))
            self._checkers[id(resource.node)] = known
        return known[1]

    def _typed(self, resource: Resource, document: Document) -> None:
        """The body must be of the kind the path is for; a body that doesn't say is taken to be."""
        version, kind = document.get("apiVersion"), document.get("kind")
        silent = () if resource.custom else (None, "")
        if version in (resource.api_version, *silent) and kind in (resource.kind, *silent):
            document.pop("apiVersion", None)
            document.pop("kind", None)
            return
        group, _, short = str(version).rpartition("/")
        if resource.custom:
            raise _mistyped(resource, document)
        told = f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'
        if self._registry.of_kind(group, short, str(kind)) is not None:
            told = f"converting ({short}.{kind}) to (core.{resource.kind}): unknown conversion"
        raise status.bad_request(
            f'{kind} in version "{short}" cannot be handled as a {resource.kind}: {told}'
        )

    def _read(self, resource: Resource, document: Document) -> tuple[Document, Sequence[str]]:
        """The document as its kind can hold it, and what of it was unknown. Raises Malformed."""
        if not resource.custom:
            made = canonical(builtin.kind(resource.group, resource.version, resource.kind), document)
            made.document.pop("apiVersion", None)
            made.document.pop("kind", None)
            return made.document, made.unknown
        if fault := malformed(document.get("metadata")):
            raise Malformed(fault)
        metadata = document.get("metadata") or {}
        forgets = metadata.get("managedFields") == []
        unknown = self.checker(resource).prune(document)
        if forgets:
            metadata["managedFields"] = []  # empty, it says that nobody owns anything any more
        return document, unknown

    def _cleaned(self, resource: Resource, document: Document, request: Request) -> Document:
        """The document without what its kind doesn't have; that is refused or warned of, as asked."""
        as_kind = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        try:
            cleaned, unknown = self._read(resource, document)
        except Malformed as fault:
            raise status.bad_request(f"{as_kind}: {fault}") from fault
        if unknown and request.options.validation == STRICT:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise status.bad_request(f"{as_kind}: strict decoding error: {listed}")
        if request.options.validation != IGNORE:
            request.warnings.extend(f'unknown field "{path}"' for path in unknown[:_WARNINGS])
        return cleaned

    def _cleaned_patch(self, resource: Resource, document: Document, request: Request) -> Document:
        """The same for a patched document, whose faults are the patch's."""
        try:
            cleaned, unknown = self._read(resource, document)
        except Malformed as fault:
            raise _bad_patch(document, str(fault)) from fault
        if unknown and request.options.validation == STRICT:
            listed = ", ".join(f'unknown field "{path}"' for path in unknown)
            raise _bad_patch(document, f"strict decoding error: {listed}")
        if request.options.validation != IGNORE:
            request.warnings.extend(f'unknown field "{path}"' for path in unknown[:_WARNINGS])
        return cleaned

    def _rewritten(self, resource: Resource, document: Document) -> Document:
        """Built-in kinds once more as they are written, after their defaults."""
        return document if resource.custom else self._read(resource, document)[0]

    def _converted(self, resource: Resource, document: Document) -> tuple[Resource, Document]:
        if resource.conversion is None:
            return resource, document
        return self._registry.stored(resource), resource.conversion.inward(document)

    def _defaulted(self, resource: Resource, document: Document) -> Document:
        self.checker(resource).default(document)
        self._kind(resource).default(document)
        return self._rewritten(resource, document)

    def _kept(self, resource: Resource, document: Document, request: Request) -> tuple[Resource, Document]:
        """The document in the shape the store keeps, without what its schema doesn't know."""
        self._typed(resource, document)
        document = self._cleaned(resource, document, request)
        return self._converted(resource, document)

    def _checked(
        self, resource: Resource, document: Document, old: Document | None, request: Request
    ) -> None:
        kind = self._kind(resource)
        kind.admit_early(document, old, request)
        causes: Sequence[status.Cause] = self.checker(resource).check(
            document, old=old, subresource=request.subresource
        )
        if not resource.custom:
            causes = [*_native(causes), *(presence.causes(resource.node, document) if kind.presence else ())]
        found = document["metadata"]
        if old is None:
            about = check_new(found, namespaced=resource.namespaced, rule=kind.naming)
        else:
            about = check_changed(found, old["metadata"])
        if not resource.custom:
            # The real ones are judged twice, in general and as what they are, and both are told.
            about = [*about, *about] if old is not None else about
            about += _finalizer_causes(found)
        if resource.custom and resource.scale is not None:
            at = next(
                (i for i, cause in enumerate(causes) if cause.message.endswith(RULES_NOT_CHECKED)),
                len(causes),
            )
            scaled = _scale_causes(resource.scale.spec_path, document)
            causes = [*causes[:at], *scaled, *causes[at:]]
        causes = [
            *about,
            *causes,
            *kind.check(document, old, request),
        ]
        if causes:
            raise status.invalid(resource.group, resource.kind, found.get("name", ""), causes)
        kind.complete(document, old, request)
        if resource.custom:
            request.warnings.extend(finalizer_warnings(document, old))

    def _order(self, resource: Resource, document: Document) -> Document:
        """As stored: the version first (``form.prefix`` relies on it), empty leftovers gone."""
        ordered: Document = {
            "apiVersion": f"{resource.group}/{form.stored(resource)}"
            if resource.group
            else form.stored(resource),
            "kind": resource.kind,
            "metadata": document["metadata"],
        }
        return ordered | {k: v for k, v in document.items() if k not in ordered}

    def _head(self, resource: Resource, namespace: str, name: str) -> tuple[Item, Document]:
        item = self._store.head((resource.key, namespace, name))
        if item is None:
            raise status.not_found(resource.group, resource.plural, name)
        return item, _decode(item.raw)

    async def _commit(
        self, resource: Resource, document: Document, *, expect: int, request: Request
    ) -> bytes:
        metadata = document["metadata"]
        ordered = self._order(resource, document)
        if request.options.dry_run:
            return _encode(ordered)
        key = (resource.key, metadata.get("namespace", ""), metadata["name"])
        item = await self._store.put(key, ordered, expect=expect)
        return item.raw

    # Create

    async def create(
        self, resource: Resource, namespace: str, document: Document, request: Request, *, name: str = ""
    ) -> Written:
        """``name`` is what the path says, when it does (an apply or an upsert)."""
        view = resource
        resource, document = self._kept(resource, _clone(document), request)
        metadata = _metadata(document)
        self._placed(resource, metadata, namespace, name)
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        if metadata.get("resourceVersion") not in (None, ""):
            raise status.Refusal(
                code=500, reason="", message="resourceVersion should not be set on objects to be created"
            )
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
        kind = self._kind(resource)
        document = self._defaulted(resource, document)
        self._owned(view, None, document, request)
        kind.prepare(document, None, request)
        document = self._rewritten(resource, document)
        metadata = document["metadata"]
        self._checked(resource, document, None, request)
        if self._store.head(key) is not None:
            raise status.already_exists(resource.group, resource.plural, metadata["name"])
        raw = await self._commit(resource, document, expect=0, request=request)
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
        if name:
            if metadata.get("name") not in (None, "", name):
                raise status.bad_request(_misnamed(metadata["name"], name))
            metadata["name"] = name

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
        for key in (
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "resourceVersion",
            "generation",
        ):
            metadata.pop(key, None)
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = timestamp(self._clock())
        if resource.custom or self._kind(resource).generation:
            metadata["generation"] = 1
        if resource.custom and "status" in resource.subresources:
            document.pop("status", None)

    def _owned(self, view: Resource, old: Document | None, document: Document, request: Request) -> None:
        """Who manages which field, in the shape that the client wrote."""
        after = document
        if view.conversion is not None:
            after = view.conversion.outward(document)
            old = None if old is None else view.conversion.outward(old)
        managed.update(
            old,
            after,
            manager=request.options.manager,
            operation="Update",
            api_version=view.api_version,
            # A scale is written without saying when, so that it doesn't come between others.
            time="" if request.subresource == "scale" else timestamp(self._clock()),
            subresource=request.subresource,
            node=view.node,
            blank=self._nothing(view),
        )

    def owned(self, resource: Resource, document: Document, request: Request) -> list[Document]:
        """Who manages the fields of a document that isn't kept."""
        cleaned = self._cleaned(resource, _clone(document), request)
        self._owned(resource, None, cleaned, request)
        listed: list[Document] = cleaned["metadata"].get("managedFields", [])
        return listed

    def _nothing(self, resource: Resource) -> Document | None:
        """What a built-in kind writes of an object with nothing in it: nobody owns that."""
        return None if resource.custom else self._read(resource, {})[0]

    # Update

    async def update(
        self, resource: Resource, namespace: str, name: str, document: Document, request: Request
    ) -> Written:
        view = resource
        resource, document = self._kept(resource, _clone(document), request)
        metadata = _metadata(document)
        self._placed(resource, metadata, namespace, name)
        key = (resource.key, namespace if resource.namespaced else "", name)
        item = self._store.head(key)
        if item is None:
            if not request.subresource and self._kind(resource).upsert and not metadata.get("uid"):
                metadata.pop("resourceVersion", None)
                return await self.create(resource, namespace, document, request, name=name)
            raise status.not_found(resource.group, resource.plural, name)
        old = _decode(item.raw)
        if resource.custom and not metadata.get("resourceVersion"):
            cause = status.Cause(
                field="metadata.resourceVersion",
                reason=status.INVALID,
                message="Invalid value: 0: must be specified for an update",
            )
            raise status.invalid(resource.group, resource.plural, name, [cause])
        self._current(resource, old, metadata)
        document = self._defaulted(resource, document)
        return await self._replace(resource, item, old, document, request, view=view)

    def _current(self, resource: Resource, old: Document, metadata: Document) -> None:
        """A uid or a resourceVersion that the client sends must be the object's own."""
        uid, live = metadata.get("uid"), old["metadata"]
        if uid and uid != live["uid"]:
            path = [resource.group] if resource.custom else []
            key = "/".join(["/registry", *path, resource.plural, live.get("namespace", ""), live["name"]])
            raise status.conflict(
                resource.group,
                resource.plural,
                live["name"],
                f"StorageError: invalid object, Code: 4, Key: {key.replace('//', '/')}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: "
                f"{live['uid']}",
            )
        self._unchanged(resource, old, metadata)

    def _unchanged(self, resource: Resource, old: Document, metadata: Document) -> None:
        revision, live = metadata.get("resourceVersion"), old["metadata"]
        if revision and revision != live["resourceVersion"]:
            raise status.conflict(resource.group, resource.plural, live["name"])

    async def _replace(
        self,
        resource: Resource,
        item: Item,
        old: Document,
        document: Document,
        request: Request,
        *,
        view: Resource | None = None,
        applied: bool = False,
    ) -> Written:
        """The second half of every change: from the wished-for document to the committed one."""
        kind = self._kind(resource)
        metadata = _metadata(document)
        live = old["metadata"]
        metadata["uid"] = metadata.get("uid") or live["uid"]
        for key in (
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
            "name",
            "namespace",
            "selfLink",
        ):
            if key in live:
                metadata[key] = live[key]
            else:
                metadata.pop(key, None)
        self._confined(resource, old, document, request)
        old.pop("apiVersion", None), old.pop("kind", None)
        document.pop("apiVersion", None), document.pop("kind", None)
        kind.prepare(document, old, request)
        document = self._rewritten(resource, document)
        metadata = document["metadata"]
        changed = _specification(document) != _specification(old)
        if kind.annotated:
            changed |= (metadata.get("annotations") or {}) != (live.get("annotations") or {})
        if "generation" in live and changed:
            metadata["generation"] = live["generation"] + 1
        if not applied:
            self._owned(view or resource, old, document, request)
        if document == old:
            return Written(item.raw)
        self._checked(resource, document, old, request)
        if live.get("deletionTimestamp") and not metadata.get("finalizers") and kind.finished(document):
            # It goes as it was kept: the change that let it go is only told to whoever made it.
            told = _encode(self._order(resource, document))
            await self._erase(resource, old, item, dry_run=request.options.dry_run)
            return Written(told)
        return Written(await self._commit(resource, document, expect=item.revision, request=request))

    def _confined(self, resource: Resource, old: Document, document: Document, request: Request) -> None:
        """A subresource changes only its own part, and the main endpoint all but that."""
        if request.subresource == "status":
            for key in {*old, *document} - {"metadata", "status", "apiVersion", "kind"}:
                _keep(document, old, key)
            if resource.custom:
                owned = document["metadata"].get("managedFields")
                document["metadata"] = _clone(old["metadata"])
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
        request: Request,
    ) -> Written:
        """A change the hub makes on a client's behalf, as subresources do; ``make`` edits the newest state."""
        item, old = self._head(resource, namespace if resource.namespaced else "", name)
        document = _clone(old)
        make(document)
        return await self._replace(resource, item, old, document, request)

    # Patch and apply

    async def patch(
        self, resource: Resource, namespace: str, name: str, patch: Patch, request: Request
    ) -> Written:
        if patch.media == APPLY_PATCH:
            return await self._apply(resource, namespace, name, patch, request)
        item, old = self._head(resource, namespace if resource.namespaced else "", name)
        live = form.decode(resource, item.raw)
        changed = self._patched(resource, live, patch)
        metadata = changed.get("metadata")
        if not isinstance(metadata, dict) or not metadata:
            changed["metadata"] = metadata = {"name": name}
        if metadata.get("name") != name:
            raise status.bad_request(_misnamed(metadata.get("name"), name))
        self._typed(resource, changed)
        changed = self._cleaned_patch(resource, changed, request)
        view = resource
        resource, changed = self._converted(resource, changed)
        self._unchanged(resource, old, _metadata(changed))
        changed = self._defaulted(resource, changed)
        return await self._replace(resource, item, old, changed, request, view=view)

    def _patched(self, resource: Resource, live: Document, patch: Patch) -> Document:
        if patch.media == JSON_PATCH:
            changed = jsonpatch.apply(live, patch.body)
        elif patch.media == MERGE_PATCH:
            changed = mergepatch.apply(live, patch.body)
        elif patch.media == STRATEGIC_PATCH and not resource.custom:
            changed = strategic.apply(live, patch.body, resource.node)
        else:
            accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
            raise status.unsupported_media(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(accepted)
            )
        if not isinstance(changed, dict):
            raise status.bad_request(f"the patch turns {resource.kind} into something that is not an object")
        return changed

    async def _apply(
        self, resource: Resource, namespace: str, name: str, patch: Patch, request: Request
    ) -> Written:
        if not isinstance(patch.body, dict):
            raise status.bad_request("error decoding YAML: the body must be an object")
        applied = _clone(patch.body)
        version, kind = applied.get("apiVersion"), applied.get("kind")
        if (version, kind) != (resource.api_version, resource.kind):
            group, _, short = str(version or "").rpartition("/")
            raise status.bad_request(f"invalid object type: {group}/{short}, Kind={kind or ''}")
        resource, applied = self._converted(resource, applied)
        metadata = _metadata(applied)
        key = (resource.key, namespace if resource.namespaced else "", name)
        item = self._store.head(key)
        live = None if item is None else form.decode(resource, item.raw)
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
            self._current(resource, live, metadata)
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
            blank=self._nothing(resource),
        )
        self._typed(resource, merged)
        merged = self._cleaned(resource, merged, request)
        if item is None:
            return await self._applied_anew(resource, namespace, name, merged, request)
        old = _decode(item.raw)
        if merged["metadata"].get("name") != name:
            raise status.bad_request(_misnamed(merged["metadata"].get("name"), name))
        merged = self._defaulted(resource, merged)
        return await self._replace(resource, item, old, merged, request, applied=True)

    async def _applied_anew(
        self, resource: Resource, namespace: str, name: str, merged: Document, request: Request
    ) -> Written:
        metadata = _metadata(merged)
        self._placed(resource, metadata, namespace, name)
        owned = metadata.get("managedFields")
        self._inhabited(resource, metadata)
        self._begun(resource, merged)
        kind = self._kind(resource)
        merged = self._defaulted(resource, merged)
        metadata = merged["metadata"]
        kind.prepare(merged, None, request)
        merged = self._rewritten(resource, merged)
        metadata = merged["metadata"]
        if owned is not None:
            metadata["managedFields"] = owned
        self._checked(resource, merged, None, request)
        raw = await self._commit(resource, merged, expect=0, request=request)
        return Written(raw, created=True)

    # Delete

    async def delete(
        self, resource: Resource, namespace: str, name: str, options: Deletion, *, user: User
    ) -> Removed:
        item, old = self._head(resource, namespace if resource.namespaced else "", name)
        metadata = old["metadata"]
        self._preconditions(resource, metadata, options)
        kind = self._kind(resource)
        kind.admit_deletion(old, user)
        document = _clone(old)
        metadata = document["metadata"]
        finalizers = self._finalizers(metadata.get("finalizers") or [], options, kind)
        grace = kind.grace(document, options.grace)
        if not finalizers and not grace and kind.finished(document):
            raw = await self._erase(resource, document, item, dry_run=options.dry_run)
            return Removed(raw, gone=True)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        ends = timestamp(self._clock() + timedelta(seconds=grace))
        pending = metadata.get("deletionTimestamp")
        if pending is None or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = ends
            metadata["deletionGracePeriodSeconds"] = grace
            if pending is None and "generation" in metadata:
                metadata["generation"] += 1
        kind.deleting(document)
        if document == old:
            return Removed(item.raw, gone=False)
        raw = await self._commit(
            resource,
            document,
            expect=item.revision,
            request=Request(user=user, options=Write(dry_run=options.dry_run)),
        )
        return Removed(raw, gone=False)

    def _preconditions(self, resource: Resource, metadata: Document, options: Deletion) -> None:
        told = ""
        if options.uid and options.uid != metadata["uid"]:
            told = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record "
                f"({metadata['uid']}). The object might have been deleted and then recreated"
            )
        elif options.revision and options.revision != metadata["resourceVersion"]:
            told = (
                f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion "
                f"in record ({metadata['resourceVersion']}). The object might have been modified"
            )
        if told:
            raise status.conflict(resource.group, resource.kind, metadata["name"], told)

    @staticmethod
    def _finalizers(present: Sequence[str], options: Deletion, kind: Kind) -> list[str]:
        """A policy that the client names replaces what an earlier deletion asked for."""
        kept = list(present)
        if options.propagation in (ORPHAN, FOREGROUND, BACKGROUND):
            kept = [f for f in kept if f not in (ORPHAN_FINALIZER, FOREGROUND_FINALIZER)]
        if kind.collected:
            if options.propagation == FOREGROUND:
                kept.append(FOREGROUND_FINALIZER)
            elif options.propagation == ORPHAN:
                kept.append(ORPHAN_FINALIZER)
        return kept

    async def _erase(self, resource: Resource, document: Document, item: Item, *, dry_run: bool) -> bytes:
        ordered = self._order(resource, document)
        if dry_run:
            return _encode(ordered)
        gone = await self._store.delete(item.key, ordered, expect=item.revision)
        return gone.raw


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


def _finalizer_causes(metadata: Document) -> list[status.Cause]:
    return [
        status.invalid_value(f"metadata.finalizers[{index}]", name, UNQUALIFIED)
        for index, name in enumerate(metadata.get("finalizers") or ())
        if "/" not in name and name not in STANDARD_FINALIZERS
    ]


def _scale_causes(path: str, document: Document) -> list[status.Cause]:
    value: Any = document
    for part in path.strip(".").split("."):
        if value is None:
            return []
        if not isinstance(value, dict):
            told = f"{path} accessor error: {value} is of the type {_go_type(value)}, expected map[string]interface{{}}"
            return [status.invalid_value(path, 0, told)]
        value = value.get(part)
    if value is not None and _go_type(value) != "int64":
        told = f"{path} accessor error: {value} is of the type {_go_type(value)}, expected int64"
        return [status.invalid_value(path, 0, told)]
    if value is not None and value < 0:
        return [status.invalid_value(path, value, "should be a non-negative integer")]
    return []


def _go_type(value: Any) -> str:
    names = {str: "string", bool: "bool", int: "int64", float: "float64", list: "[]interface {}"}
    return names.get(type(value), "map[string]interface {}")


def _mistyped(resource: Resource, document: Document) -> status.Refusal:
    """A custom resource must say what it is, and that must be true."""
    version, kind = document.get("apiVersion"), document.get("kind")
    for key, value in (("Kind", kind), ("apiVersion", version)):
        if not value:
            text = _encode(document).decode()
            cut = f"{text[:30]} ..." if len(text) > 30 else text
            return status.bad_request(
                f"the object provided is unrecognized (must be of type {resource.kind}): Object '{key}' is missing "
                f"in '{text}' ({cut})"
            )
    if version != resource.api_version:
        return status.bad_request(
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    cause = status.invalid_value("kind", kind, f"must be {resource.kind}")
    name = (document.get("metadata") or {}).get("name", "")
    return status.invalid(resource.group, str(kind), name, [cause])


def _misnamed(found: object, wanted: str) -> str:
    if not found:
        return f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
    return f"the name of the object ({found}) does not match the name on the URL ({wanted})"


def _bad_patch(document: Document, fault: str) -> status.Refusal:
    """A patch that leaves something its kind can't hold."""
    shown = _encode(document).decode()
    return status.invalid("", "", "", [status.invalid_value("patch", shown, fault)])


def _native(causes: Sequence[status.Cause]) -> list[status.Cause]:
    """What the schema finds wrong with a built-in kind that its real counterpart would mind too: a type that
    doesn't fit is found earlier, metadata is judged apart, and a status is taken as it comes."""
    return [
        cause
        for cause in causes
        if cause.reason != status.TYPE_INVALID and not cause.field.startswith(("metadata", "status"))
    ]
