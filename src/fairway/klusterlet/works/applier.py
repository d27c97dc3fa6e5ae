"""One manifest onto the managed cluster, in the way its update strategy asks for.

``Update`` is a server-side apply that takes its fields by force: what the manifest says holds, what it no longer says
goes, and what others added stays, except in objects that are nothing but data. It is not the whole-object update of
OCM's agent, which undoes what the cluster itself fills in and then does so again for ever.
"""

import hashlib
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway.api.work import (
    CREATE_ONLY,
    ON_SPOKE_CHANGE,
    READ_ONLY,
    SERVER_SIDE_APPLY,
    IgnoreField,
)
from fairway.klusterlet.works import drift, messages
from fairway.klusterlet.works.manifest import DesiredObject, digest
from fairway.klusterlet.works.messages import ManifestError
from fairway.klusterlet.works.objects import Object, ObjectId, Objects, owners_of
from fairway.klusterlet.works.ownership import Reference, settled, works_among
from fairway.klusterlet.works.paths import Path, PathError, jq_path, json_path, json_pointer, left_alone

IGNORE_FIELD_ERROR: Final = "AppliedManifestSSAIgnoreFieldError"
IGNORE_FIELD_REMEDY: Final = "correct updateStrategy.serverSideApply.ignoreFields"
HASH_ANNOTATION: Final = "open-cluster-management.io/config-spec-hash"
"""Says with which manifest fields were last applied that are left alone once they change on the cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Applied:
    digest: bytes
    uid: str
    version: str
    """The resource version in which it was last seen to be right."""
    share: Any
    """What the cluster made of the manifest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The object as it is then, None if there is none."""

    live: Object | None
    wrote: bool = False
    repaired: bool = False
    """It had been as it should be, and somebody changed it."""


class Applier:
    """Remembers what it applied, so that an object that did not change costs one read."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._applied: dict[tuple[ObjectId, str], _Applied] = {}

    def forget(self, identity: ObjectId, work: str) -> None:
        self._applied.pop((identity, work), None)

    async def apply(self, wanted: DesiredObject, mine: Reference) -> Result:
        """Raises Refusal, and KubeError where the cluster refuses."""
        async with self._objects.turns.of(wanted.identity):
            live = await self._objects.get(wanted.target)
            if wanted.strategy.type == READ_ONLY:
                return Result(live=live)
            if live is not None and live["metadata"].get("deletionTimestamp"):
                raise ManifestError(messages.GOING, remedy=messages.GOING_REMEDY)
            if wanted.strategy.type == CREATE_ONLY:
                return await self._created(wanted, live, mine)
            return await self._applied_to(wanted, live, mine)

    async def _created(self, wanted: DesiredObject, live: Object | None, mine: Reference) -> Result:
        if live is None:
            body = with_owners(wanted.body, [mine] if wanted.owned else [])
            return Result(live=await self._objects.create(wanted.target, body), wrote=True)
        after = await settled(self._objects, wanted.target, live, mine, owned=wanted.owned)
        return Result(live=after, wrote=after is not live)

    async def _applied_to(self, wanted: DesiredObject, live: Object | None, mine: Reference) -> Result:
        ignored = wanted.options.ignoreFields if wanted.strategy.type == SERVER_SIDE_APPLY else ()
        key = (wanted.identity, str(mine["uid"]))
        known, asked = self._applied.get(key), digest(wanted)
        same = known is not None and known.digest == asked
        if same and known and live and not ignored and self._is_right(known, wanted, live, mine):
            return Result(live=live)
        body = deepcopy(wanted.body)
        if ignored:
            body = _respectful(body, live, ignored)
        force = wanted.strategy.type != SERVER_SIDE_APPLY or wanted.options.force
        others = works_among(owners_of(live)) if live is not None else []
        owners = [each for each in others if each["uid"] != mine["uid"]]
        body = with_owners(body, [*owners, mine] if wanted.owned else owners)
        after = await self._objects.apply(wanted.target, body, manager=wanted.manager, force=force)
        after = await settled(self._objects, wanted.target, after, mine, owned=wanted.owned)
        if wanted.strategy.type != SERVER_SIDE_APPLY and (removed := drift.surplus(body, after)):
            after = await self._objects.merge(wanted.target, after, removed)
        meta = after["metadata"]
        self._applied[key] = _Applied(
            digest=asked,
            uid=meta["uid"],
            version=meta["resourceVersion"],
            share=drift.share(wanted.body, after),
        )
        before = None if live is None else live["metadata"]["resourceVersion"]
        wrote = before != meta["resourceVersion"]
        return Result(live=after, wrote=wrote, repaired=wrote and same)

    def _is_right(self, known: _Applied, wanted: DesiredObject, live: Object, mine: Reference) -> bool:
        meta = live["metadata"]
        if known.uid != meta["uid"]:
            return False
        if known.version == meta["resourceVersion"]:
            return True
        is_owned = any(each.get("uid") == mine["uid"] for each in owners_of(live))
        return (
            is_owned is wanted.owned
            and drift.share(wanted.body, live) == known.share
            and (wanted.strategy.type == SERVER_SIDE_APPLY or not drift.surplus(wanted.body, live))
        )


def with_owners(body: Object, owners: list[Reference]) -> Object:
    """The manifest's own owners stay: who writes them knows their UIDs."""
    metadata = body["metadata"]
    given = metadata.get("ownerReferences")
    kept = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    every = [*kept, *(each for each in owners if all(each["uid"] != own.get("uid") for own in kept))]
    return {**body, "metadata": {**metadata, "ownerReferences": every}} if every else body


def _respectful(body: Object, live: Object | None, ignored: tuple[IgnoreField, ...]) -> Object:
    """Without taking back the fields that are to be left alone. Raises Refusal for a path that is none."""
    always = [path for each in ignored if each.condition != ON_SPOKE_CHANGE for path in _paths(each)]
    until_changed = [path for each in ignored if each.condition == ON_SPOKE_CHANGE for path in _paths(each)]
    asked = hashlib.sha256(msgspec.json.encode(body, order="deterministic")).hexdigest()[:32]
    metadata = body["metadata"]
    annotations = metadata.get("annotations")
    metadata["annotations"] = {
        **(annotations if isinstance(annotations, dict) else {}),
        HASH_ANNOTATION: asked,
    }
    if live is None:
        return body
    # The fields are written as they were read. If they are others by now, that must not undo it.
    metadata["resourceVersion"] = live["metadata"]["resourceVersion"]
    left_alone(body, live, always)
    if (live["metadata"].get("annotations") or {}).get(HASH_ANNOTATION) == asked:
        left_alone(body, live, until_changed)
    return body


def _paths(ignored: IgnoreField) -> list[Path]:
    try:
        return [
            *(json_path(each) for each in ignored.jsonPaths),
            *(json_pointer(each) for each in ignored.jsonPointers),
            *(jq_path(each) for each in ignored.jqPathExpressions),
        ]
    except PathError as error:
        raise ManifestError(
            str(error), remedy=IGNORE_FIELD_REMEDY, reason=IGNORE_FIELD_ERROR, final=True
        ) from None
