"""Decide what to do with a work and with each of its objects. No I/O.

    plan         which objects to record, to apply, to release and to keep on record
    plan_apply   how to write one object: NoChange, Create, Apply or SetOwners
    plan_release how to release one object: Released, SetOwners, FindHeir, Delete or AwaitDeletion

The caller reads an object, plans, and carries the action out while it holds the object's lock. The owner references on
the object decide who owns it, not the recorded UID: the agent may have died between creating an object and recording
its UID, and an object without our reference was taken over by another client.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway.api.work import (
    CREATE_ONLY,
    ON_SPOKE_CHANGE,
    READ_ONLY,
    SERVER_SIDE_APPLY,
    WORK_APPLIED,
    AppliedManifestWork,
    AppliedResource,
    IgnoreField,
)
from fairway.klusterlet.works import drift, messages
from fairway.klusterlet.works.ignored_fields import keep_live_values
from fairway.klusterlet.works.manifest import DesiredObject, InvalidManifest, Reading, apply_order, digest
from fairway.klusterlet.works.messages import ManifestError
from fairway.klusterlet.works.objects import Object, ObjectId, owners_of
from fairway.klusterlet.works.ownership import (
    Reference,
    entry_of,
    has_owner,
    identity_of,
    reference,
    work_references,
)
from kubewire.api.jsonpath import Path, PathError, jq_path, json_path, json_pointer

IGNORE_FIELD_ERROR: Final = "AppliedManifestSSAIgnoreFieldError"
CONDITIONS: Final = {
    ("ManifestWork", WORK_APPLIED): {
        IGNORE_FIELD_ERROR: "A field to ignore is invalid or cannot be ignored (condition of a manifest)."
    }
}
IGNORE_FIELD_REMEDY: Final = "correct updateStrategy.serverSideApply.ignoreFields"
FINALIZERS: Final = "finalizers"
HASH_ANNOTATION: Final = "open-cluster-management.io/config-spec-hash"
"""Hash of the manifest that was last applied, for ignoreFields with condition OnSpokeChange."""


@dataclass(frozen=True, slots=True)
class NoChange:
    """The object is up to date, or is only read."""


@dataclass(frozen=True, slots=True)
class Create:
    body: Object


@dataclass(frozen=True, slots=True)
class Apply:
    body: Object
    force: bool


@dataclass(frozen=True, slots=True)
class SetOwners:
    """Replace the object's owner references."""

    owners: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the object that was read, and no other one of its name."""

    uid: str


@dataclass(frozen=True, slots=True)
class FindHeir:
    """Plan again, with the work that takes the object over."""


@dataclass(frozen=True, slots=True)
class AwaitDeletion:
    """The object is being deleted; its finalizers are not done."""


@dataclass(frozen=True, slots=True)
class Released:
    """The object does not exist, or is no longer ours."""


ApplyAction = NoChange | Create | Apply | SetOwners
ReleaseAction = Released | SetOwners | FindHeir | Delete | AwaitDeletion


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkPlan:
    record: tuple[AppliedResource, ...]
    """To record before anything is applied, so that an agent that dies leaves no unknown object."""
    apply: tuple[DesiredObject, ...]
    """In this order."""
    release: tuple[AppliedResource, ...]
    """On record, and no longer in the work."""
    keep: tuple[AppliedResource, ...]
    """On record, and possibly the object of a manifest whose kind is not served at the moment."""

    def record_after(
        self, uids: Mapping[ObjectId, str], *, unreleased: Iterable[AppliedResource]
    ) -> list[AppliedResource]:
        """Return what to record after applying: ``uids`` of the objects that exist, and what is not released yet."""
        applied = [
            entry_of(desired.target, uid=uids.get(desired.identity, ""))
            for desired in self.apply
            if desired.strategy.type != READ_ONLY
        ]
        return [*applied, *self.keep, *unreleased]


def plan(readings: Sequence[Reading], record: AppliedManifestWork) -> WorkPlan:
    """Compare the manifests of a work with its AppliedManifestWork. Read-only objects are never on record."""
    apply = apply_order(readings)
    owned = {desired.identity: desired for desired in apply if desired.strategy.type != READ_ONLY}
    invalid = [reading for reading in readings if isinstance(reading, InvalidManifest)]
    keep: list[AppliedResource] = []
    release: list[AppliedResource] = []
    known = {identity_of(entry): entry for entry in record.status.appliedResources}
    for identity, entry in known.items():
        if identity not in owned:
            # A kind that is not served at the moment, as during the upgrade of an operator, must not delete its custom
            # resources.
            (keep if any(_may_be(entry, manifest) for manifest in invalid) else release).append(entry)
    for identity, desired in owned.items():
        # The uid is unknown until the object is created; an existing entry keeps the one that it has.
        known.setdefault(identity, entry_of(desired.target))
    return WorkPlan(
        record=tuple(known.values()), apply=tuple(apply), release=tuple(release), keep=tuple(keep)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedObject:
    """Cached state of an applied object, so that an unchanged object costs one read."""

    digest: bytes
    uid: str
    version: str
    share: Any
    """The part of the object that the manifest specifies, as the cluster returned it."""

    @classmethod
    def of(cls, desired: DesiredObject, live: Object) -> "AppliedObject":
        meta = live["metadata"]
        return cls(
            digest=digest(desired),
            uid=meta["uid"],
            version=meta["resourceVersion"],
            share=drift.project(_configuration(desired.body), live),
        )

    def is_current(self, desired: DesiredObject, live: Object, mine: Reference) -> bool:
        """Whether the manifest is the one that was applied, and ``live`` still matches it."""
        meta = live["metadata"]
        if self.uid != meta["uid"] or self.digest != digest(desired):
            return False
        # Equal versions need no comparison. Otherwise only the specified part counts: controllers write status and
        # defaults.
        if self.version == meta["resourceVersion"]:
            return True
        return (
            has_owner(live, mine["uid"]) is desired.owned
            and drift.project(_configuration(desired.body), live) == self.share
            # Update replaces the data of a ConfigMap or Secret as a whole, so a key that another client added is drift,
            # too.
            and (desired.strategy.type == SERVER_SIDE_APPLY or not drift.removals(desired.body, live))
        )


def plan_apply(
    desired: DesiredObject, live: Object | None, mine: Reference, applied: AppliedObject | None
) -> ApplyAction:
    """Plan the write of one object. Raises ManifestError if it cannot be written now."""
    if desired.strategy.type == READ_ONLY:
        return NoChange()
    # Applying to a terminating object succeeds, and the object is deleted all the same: report that, and wait.
    if live is not None and live["metadata"].get("deletionTimestamp"):
        raise ManifestError(messages.TERMINATING, remedy=messages.TERMINATING_REMEDY)
    if desired.strategy.type == CREATE_ONLY:
        if live is None:
            return Create(with_owners(desired.body, [mine] if desired.owned else []))
        return plan_owners(live, mine, owned=desired.owned)
    ignored = desired.options.ignoreFields if desired.strategy.type == SERVER_SIDE_APPLY else ()
    # With ignored fields the manifest depends on live values, so it is computed again in every reconcile.
    if live is not None and not ignored and applied is not None and applied.is_current(desired, live, mine):
        return NoChange()
    body = deepcopy(desired.body)
    if ignored:
        body = _without_ignored(body, live, ignored)
    if live is not None:
        _keep_finalizers(body, live)
    # Works apply with one field manager, so an apply without the references of the other works would remove these.
    works = [] if live is None else work_references(owners_of(live))
    others = [owner for owner in works if owner["uid"] != mine["uid"]]
    # Update is applied with force, because its contract is to win. ServerSideApply reports conflicts unless told
    # otherwise, as OCM does.
    force = desired.strategy.type != SERVER_SIDE_APPLY or desired.options.force
    return Apply(with_owners(body, [*others, mine] if desired.owned else others), force)


def _configuration(body: Object) -> Object:
    """The part of a manifest that is enforced: finalizers are removed by their controllers, which is no drift."""
    metadata = {name: value for name, value in body["metadata"].items() if name != FINALIZERS}
    return {**body, "metadata": metadata}


def _keep_finalizers(body: Object, live: Object) -> None:
    """Let an existing object have the finalizers that it has, as OCM's agent does, in place.

    A finalizer that its controller has removed would otherwise return, and the object could never be deleted. Those
    that are left stay in the manifest, because applying without a finalizer that was applied before removes it.
    """
    wanted = body["metadata"].pop(FINALIZERS, None)
    there = live["metadata"].get(FINALIZERS) or ()
    kept = [item for item in wanted if item in there] if isinstance(wanted, list) else []
    if kept:
        body["metadata"][FINALIZERS] = kept
        # Its controller may remove one right now: that must make this apply a conflict.
        body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]


def plan_owners(live: Object, mine: Reference, *, owned: bool) -> NoChange | SetOwners:
    """Plan to add our owner reference, or to remove it."""
    if has_owner(live, mine["uid"]) is owned:
        return NoChange()
    others = [owner for owner in owners_of(live) if owner.get("uid") != mine["uid"]]
    return SetOwners((*others, mine) if owned else tuple(others))


def plan_release(
    record: AppliedManifestWork,
    live: Object | None,
    *,
    orphaned: bool,
    heir: Reference | None = None,
    heir_known: bool = False,
) -> ReleaseAction:
    """Plan to release an object that its work no longer wants. ``orphaned``: without deleting it.

    An object that another work waits for gets that work's reference in the write that removes ours. In between it
    would be owned by no work, and would stay forever if the other work were deleted at that moment.
    """
    mine = reference(record)
    # Without our reference, another client has taken the object over, or created another one of this name.
    if live is None or not has_owner(live, mine["uid"]):
        return Released()
    kept = tuple(owner for owner in owners_of(live) if owner.get("uid") != mine["uid"])
    # Another work owns the object: it decides when the object is deleted.
    if orphaned or work_references(kept):
        return SetOwners(kept)
    if not heir_known:
        return FindHeir()
    if heir is not None:
        return SetOwners((*kept, heir))
    # Its finalizers need time, not another request.
    if live["metadata"].get("deletionTimestamp"):
        return AwaitDeletion()
    # With the uid as precondition: an object of this name that was created after the read is not ours.
    return Delete(live["metadata"]["uid"])


def plan_hand_over(
    former: AppliedManifestWork, live: Object | None, *, heir: Reference
) -> Released | SetOwners:
    """Plan the exchange of one owner of an object for another."""
    mine = reference(former)
    if live is None or not has_owner(live, mine["uid"]):
        return Released()
    kept = tuple(owner for owner in owners_of(live) if owner.get("uid") not in (mine["uid"], heir["uid"]))
    return SetOwners((*kept, heir))


def with_owners(body: Object, owners: list[Reference]) -> Object:
    """Add owners to a manifest, after the manifest's own."""
    metadata = body["metadata"]
    given = metadata.get("ownerReferences")
    kept = [owner for owner in given if isinstance(owner, dict)] if isinstance(given, list) else []
    every = [*kept, *(owner for owner in owners if all(owner["uid"] != own.get("uid") for own in kept))]
    return {**body, "metadata": {**metadata, "ownerReferences": every}} if every else body


def _without_ignored(body: Object, live: Object | None, ignored: tuple[IgnoreField, ...]) -> Object:
    """Set ignored fields to their live values. Raises ManifestError for an invalid path."""
    always = [path for rule in ignored if rule.condition != ON_SPOKE_CHANGE for path in _paths(rule)]
    until_changed = [path for rule in ignored if rule.condition == ON_SPOKE_CHANGE for path in _paths(rule)]
    wanted = hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()[:32]
    metadata = body["metadata"]
    annotations = metadata.get("annotations")
    # The hash is stored on the object, where it survives a restart of the agent; OCM's agent reads the same annotation.
    metadata["annotations"] = {
        **(annotations if isinstance(annotations, dict) else {}),
        HASH_ANNOTATION: wanted,
    }
    if live is None:
        return body
    # The fields are written as they were read: a concurrent change of them must make this a conflict.
    metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
    keep_live_values(body, live, always)
    if (live["metadata"].get("annotations") or {}).get(HASH_ANNOTATION) == wanted:
        keep_live_values(body, live, until_changed)
    return body


def _paths(ignored: IgnoreField) -> list[Path]:
    try:
        return [
            *(json_path(path) for path in ignored.jsonPaths),
            *(json_pointer(pointer) for pointer in ignored.jsonPointers),
            *(jq_path(expression) for expression in ignored.jqPathExpressions),
        ]
    except PathError as error:
        raise ManifestError(
            str(error), remedy=IGNORE_FIELD_REMEDY, reason=IGNORE_FIELD_ERROR, final=True
        ) from None


def _may_be(entry: AppliedResource, invalid: InvalidManifest) -> bool:
    """Whether an object on record may be the one of a manifest whose kind is not served at the moment."""
    meta = invalid.meta
    return (entry.group, entry.name) == (meta.group, meta.name) and entry.namespace in ("", meta.namespace)
