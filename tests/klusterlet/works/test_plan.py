"""Plans for works and their objects, without a hub or a cluster."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from fairway.api.work import (
    CREATE_ONLY,
    READ_ONLY,
    SERVER_SIDE_APPLY,
    UPDATE,
    WORK_COMPLETE,
    AppliedManifestWork,
    AppliedManifestWorkStatus,
    AppliedResource,
    ManifestConfig,
    ManifestResourceMeta,
    ManifestWork,
    ManifestWorkSpec,
    ManifestWorkStatus,
    UpdateStrategy,
    Workload,
)
from fairway.klusterlet.works import messages
from fairway.klusterlet.works.applied_works import AppliedWorks
from fairway.klusterlet.works.applier import Applier, HeirNotReady, WorkState
from fairway.klusterlet.works.conflicts import ConflictIndex
from fairway.klusterlet.works.discovery import Discovery
from fairway.klusterlet.works.manifest import DesiredObject, InvalidManifest
from fairway.klusterlet.works.messages import ManifestError
from fairway.klusterlet.works.objects import Object, ObjectId, Objects, ObjectVersion, Target
from fairway.klusterlet.works.ownership import Reference, entry_of, reference
from fairway.klusterlet.works.plan import (
    AppliedObject,
    Apply,
    AwaitDeletion,
    Create,
    Delete,
    FindHeir,
    NoChange,
    Released,
    SetOwners,
    plan,
    plan_apply,
    plan_release,
)
from fairway.klusterlet.works.reconcile import WorkReconciler
from kubewire.api.meta import TRUE, Condition, ObjectMeta
from kubewire.client import SYSTEM_CLOCK, Added, Batch, Client, Conflict, NotFound, Resource

CONFIG_MAPS: Resource[ObjectVersion] = Resource(
    group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True, type=ObjectVersion
)
NO_CLIENT = cast("Client", None)
"""For code that plans without requests."""
RECORD = AppliedManifestWork(metadata=ObjectMeta(name="hub-work", uid="record"))
MINE = reference(RECORD)
OTHER = {**MINE, "name": "hub-other", "uid": "other-record"}
USER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "parent", "uid": "parent"}


def target(name: str) -> Target:
    return Target(resource=CONFIG_MAPS, namespace="n", name=name)


def desired(name: str, *, strategy: str = UPDATE, owned: bool = True, ordinal: int = 0) -> DesiredObject:
    return DesiredObject(
        meta=ManifestResourceMeta(ordinal=ordinal, kind="ConfigMap", version="v1", name=name, namespace="n"),
        target=target(name),
        body=body(name),
        strategy=UpdateStrategy(type=strategy),
        config=ManifestConfig(),
        owned=owned,
    )


def body(name: str = "a", **data: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "n"},
        "data": data or {"k": "v"},
    }


def live(*owners: Reference, uid: str = "u1", version: str = "7", **more: Any) -> Object:
    made = body(**more.pop("data", {}))
    made["metadata"].update(uid=uid, resourceVersion=version, ownerReferences=list(owners), **more)
    return made


def record(*names: str) -> AppliedManifestWork:
    entries = tuple(entry_of(target(name), uid=f"uid-{name}") for name in names)
    return AppliedManifestWork(
        metadata=RECORD.metadata, status=AppliedManifestWorkStatus(appliedResources=entries)
    )


def names(entries: Any) -> list[str]:
    return [entry.name for entry in entries]


class TestWork:
    def test_new_objects_are_recorded_before_they_are_applied(self) -> None:
        planned = plan([desired("a"), desired("b", ordinal=1)], record("a"))
        assert planned.record == (*record("a").status.appliedResources, entry_of(target("b")))
        assert names(object_.target for object_ in planned.apply) == ["a", "b"]
        assert (planned.release, planned.keep) == ((), ())

    def test_read_only_objects_are_applied_but_never_recorded(self) -> None:
        planned = plan([desired("a", strategy=READ_ONLY)], record())
        assert names(object_.target for object_ in planned.apply) == ["a"]
        assert planned.record == ()
        assert planned.record_after({target("a").identity: "u1"}, unreleased=()) == []

    def test_object_that_becomes_read_only_is_released(self) -> None:
        assert names(plan([desired("a", strategy=READ_ONLY)], record("a")).release) == ["a"]

    def test_objects_removed_from_the_work_are_released(self) -> None:
        planned = plan([desired("a")], record("a", "b"))
        assert names(planned.release) == ["b"]
        left = planned.release
        after = planned.record_after({target("a").identity: "u1"}, unreleased=left)
        assert after == [entry_of(target("a"), uid="u1"), *left]

    def test_object_of_a_kind_that_is_not_served_stays_on_record(self) -> None:
        meta = ManifestResourceMeta(ordinal=0, kind="ConfigMap", version="v1", name="b", namespace="n")
        invalid = InvalidManifest(meta=meta, refusal=ManifestError("unknown kind", remedy="install it"))
        planned = plan([invalid], record("b", "c"))
        assert (names(planned.keep), names(planned.release)) == (["b"], ["c"])
        assert names(planned.record_after({}, unreleased=())) == ["b"]


class TestApply:
    def test_missing_object_is_applied_with_our_reference(self) -> None:
        action = plan_apply(desired("a"), None, MINE, None)
        assert isinstance(action, Apply)
        assert (action.force, action.body["metadata"]["ownerReferences"]) == (True, [MINE])

    def test_references_of_other_works_are_kept_and_ours_is_left_out_of_orphans(self) -> None:
        action = plan_apply(desired("a", owned=False), live(MINE, OTHER, USER), MINE, None)
        assert isinstance(action, Apply)
        assert action.body["metadata"]["ownerReferences"] == [OTHER]

    @pytest.mark.parametrize(
        "changed",
        [
            live(MINE, uid="u2"),
            live(MINE, version="8", data={"k": "changed"}),
            live(MINE, version="8", data={"k": "v", "added": "by another client"}),
            live(version="8"),
        ],
        ids=["recreated", "changed", "data added", "reference removed"],
    )
    def test_only_a_changed_object_is_applied_again(self, changed: Object) -> None:
        applied = AppliedObject.of(desired("a"), live(MINE))
        assert plan_apply(desired("a"), live(MINE), MINE, applied) == NoChange()
        assert (
            plan_apply(desired("a"), live(MINE, version="8", labels={"l": "1"}), MINE, applied) == NoChange()
        )
        assert isinstance(plan_apply(desired("a"), changed, MINE, applied), Apply)

    def test_changed_manifest_is_applied_though_the_object_did_not_change(self) -> None:
        applied = AppliedObject.of(desired("a", strategy=SERVER_SIDE_APPLY), live(MINE))
        assert isinstance(plan_apply(desired("a"), live(MINE), MINE, applied), Apply)

    def test_create_only_creates_once_and_then_only_sets_owners(self) -> None:
        made = desired("a", strategy=CREATE_ONLY)
        assert isinstance(plan_apply(made, None, MINE, None), Create)
        assert plan_apply(made, live(MINE, data={"k": "other"}), MINE, None) == NoChange()
        assert plan_apply(made, live(USER), MINE, None) == SetOwners((USER, MINE))

    def test_read_only_object_is_never_written(self) -> None:
        for existing in (None, live(), live(deletionTimestamp="2031-05-05T12:00:00Z")):
            assert plan_apply(desired("a", strategy=READ_ONLY), existing, MINE, None) == NoChange()

    def test_object_that_is_being_deleted_is_not_applied(self) -> None:
        with pytest.raises(ManifestError):
            plan_apply(desired("a"), live(MINE, deletionTimestamp="2031-05-05T12:00:00Z"), MINE, None)


class TestRelease:
    def test_object_is_deleted_by_the_uid_that_was_read(self) -> None:
        assert plan_release(RECORD, live(MINE, uid="u9"), orphaned=False) == FindHeir()
        assert plan_release(RECORD, live(MINE, USER, uid="u9"), orphaned=False, heir_known=True) == Delete(
            "u9"
        )

    def test_object_without_our_reference_is_left_alone(self) -> None:
        for existing in (None, live(), live(OTHER)):
            assert plan_release(RECORD, existing, orphaned=False) == Released()

    def test_object_of_two_works_only_loses_our_reference(self) -> None:
        assert plan_release(RECORD, live(USER, MINE, OTHER), orphaned=False) == SetOwners((USER, OTHER))

    def test_orphaned_object_only_loses_our_reference(self) -> None:
        assert plan_release(RECORD, live(USER, MINE), orphaned=True) == SetOwners((USER,))

    def test_heir_gets_its_reference_in_the_write_that_removes_ours(self) -> None:
        action = plan_release(RECORD, live(MINE, USER), orphaned=False, heir=OTHER, heir_known=True)
        assert action == SetOwners((USER, OTHER))

    def test_object_that_is_being_deleted_is_waited_for(self) -> None:
        deleting = live(MINE, deletionTimestamp="2031-05-05T12:00:00Z")
        assert plan_release(RECORD, deleting, orphaned=False, heir_known=True) == AwaitDeletion()


class FakeObjects(Objects):
    """One object in memory. ``replace`` puts another one of its name there before the next write."""

    def __init__(self, live: Object) -> None:
        super().__init__(None)  # type: ignore[arg-type]  # this fake has no client
        self.current: Object | None = live
        self.replacement: Object | None = None

    async def get(self, target: Target) -> Object | None:
        return self.current

    async def delete(self, target: Target, *, uid: str) -> None:
        if self.replacement is not None:
            self.current, self.replacement = self.replacement, None
        if self.current is None:
            raise NotFound("gone", code=404, reason="NotFound", request="DELETE")
        if uid != self.current["metadata"]["uid"]:
            raise Conflict("uid", code=409, reason="Conflict", request="DELETE")
        self.current = None


async def no_heir(_: ObjectId) -> Reference | None:
    return None


async def heir_not_ready(_: ObjectId) -> Reference | None:
    raise HeirNotReady


ENTRY: AppliedResource = entry_of(target("a"))


async def test_object_recreated_during_its_release_is_not_deleted() -> None:
    objects = FakeObjects(live(MINE, uid="u1"))
    objects.replacement = live(uid="u2")
    released = await Applier(objects).release(ENTRY, RECORD, orphaned=False, find_heir=no_heir)
    assert (released, objects.current) == (False, live(uid="u2"))
    assert await Applier(objects).release(ENTRY, RECORD, orphaned=False, find_heir=no_heir)


async def test_object_that_another_work_has_not_recorded_yet_is_kept() -> None:
    objects = FakeObjects(live(MINE))
    assert not await Applier(objects).release(ENTRY, RECORD, orphaned=False, find_heir=heir_not_ready)
    assert objects.current == live(MINE)


def test_new_record_drops_the_cache_of_applied_objects() -> None:
    state = WorkState(written="5")
    state.bind(RECORD)
    state.applied[target("a").identity] = AppliedObject.of(desired("a"), live(MINE))
    state.bind(RECORD)
    assert state.applied
    state.bind(AppliedManifestWork(metadata=ObjectMeta(name="hub-work", uid="next")))
    assert (state.applied, state.written) == ({}, "5")


class ConfigMaps(Discovery):
    async def find(self, api_version: str, kind: str) -> Resource[ObjectVersion]:
        return CONFIG_MAPS


APPLIED = AppliedWorks(NO_CLIENT, hub="h", agent="h")


async def check_beside(
    other: ManifestWork, *, owner: str = "", created: datetime | None = None, name: str = "2-newer"
) -> None:
    """Check a work beside another one with other content, whose object the work ``owner`` applied."""
    index = ConflictIndex({("c", other.metadata.name): other}, ConfigMaps(NO_CLIENT), APPLIED)
    index.update(Batch(changes=(Added(other),), epoch=0, listed=False, resource_version="1"))
    record = AppliedManifestWork(metadata=ObjectMeta(name=APPLIED.name_of(owner), uid="u"))
    object_ = live(reference(record)) if owner else None
    await index.check(conflicting(name, created=created), desired("a"), object_)


def conflicting(name: str, *conditions: Condition, created: datetime | None = None) -> ManifestWork:
    return ManifestWork(
        metadata=ObjectMeta(name=name, namespace="c", creationTimestamp=created),
        spec=ManifestWorkSpec(workload=Workload(manifests=(body("a", made_by=name),))),
        status=ManifestWorkStatus(conditions=conditions),
    )


async def test_only_an_incomplete_older_work_takes_precedence() -> None:
    with pytest.raises(ManifestError, match="is also in ManifestWork 1-older"):
        await check_beside(conflicting("1-older"))
    await check_beside(conflicting("1-older", Condition(type=WORK_COMPLETE, status=TRUE)))


async def test_work_that_owns_an_object_keeps_it_whatever_the_names_and_times_of_others_are() -> None:
    second = datetime(2026, 3, 2, tzinfo=UTC)
    with pytest.raises(
        ManifestError, match=f"ManifestWork 2-owner with other content, which {messages.OWNS}"
    ):
        await check_beside(conflicting("2-owner", created=second), owner="2-owner", created=second, name="1")
    await check_beside(conflicting("1", created=second), owner="2-owner", created=second, name="2-owner")
    # A clock of the hub that is set back must not change the owner either.
    with pytest.raises(ManifestError, match=messages.OWNS):
        await check_beside(
            conflicting("2-owner", created=second),
            owner="2-owner",
            created=second - timedelta(days=1),
            name="1",
        )


async def test_eviction_start_in_the_future_does_not_extend_the_grace_period() -> None:
    start = SYSTEM_CLOCK.wall() + timedelta(hours=1)  # the clock was set back since
    record = AppliedManifestWork(status=AppliedManifestWorkStatus(evictionStartTime=start))

    class Records(AppliedWorks):
        async def read(self, name: str) -> AppliedManifestWork | None:
            return record

    reconciler = WorkReconciler(
        hub=NO_CLIENT,
        cluster=NO_CLIENT,
        applied=Records(NO_CLIENT, hub="h", agent="h"),
        conflicts=ConflictIndex({}, ConfigMaps(NO_CLIENT), APPLIED),
        discovery=ConfigMaps(NO_CLIENT),
        clock=SYSTEM_CLOCK,
    )
    assert (await reconciler.evict(record, grace=60)).again == 60
