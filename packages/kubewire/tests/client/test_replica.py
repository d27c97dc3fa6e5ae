"""Lists and watch events in, batches of changes out, without a connection."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from client.mirror import Mirror
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from fairway.api.cluster import ManagedCluster, ManagedClusterSpec
from kubewire.api.meta import ObjectMeta, UnreadableField
from kubewire.api.resource import key_of
from kubewire.client.change import Added, Batch, Deleted, PendingChanges, Updated
from kubewire.client.codec import EventType, Lines, Unreadable, WatchEvent, codec_of
from kubewire.client.replica import Replica, number_of


def made(name: str, version: int | str, *, uid: str = "", accepted: bool = False) -> ManagedCluster:
    return ManagedCluster(
        metadata=ObjectMeta(name=name, uid=uid or f"uid-{name}", resourceVersion=str(version)),
        spec=ManagedClusterSpec(hubAcceptsClient=accepted),
    )


def event(type_: EventType, obj: ManagedCluster) -> WatchEvent[ManagedCluster]:
    return WatchEvent(type_, obj)


def listed(*objects: ManagedCluster) -> dict[tuple[str, str], ManagedCluster]:
    return {key_of(obj): obj for obj in objects}


def replica(*objects: ManagedCluster, version: int | str = 10) -> Replica[ManagedCluster]:
    filled: Replica[ManagedCluster] = Replica()
    filled.replace(listed(*objects), version=str(version))
    return filled


A5, A7, A11 = made("a", 5), made("a", 7), made("a", 11)
B6 = made("b", 6)


class TestLists:
    def test_first_list_adds_all_objects(self) -> None:
        fresh: Replica[ManagedCluster] = Replica()
        batch = fresh.replace(listed(A5, B6), version="10")
        assert batch == Batch(changes=(Added(A5), Added(B6)), epoch=0, listed=True, resource_version="10")
        assert fresh.store == listed(A5, B6)

    def test_later_list_returns_the_difference(self) -> None:
        kept = replica(A5, B6)
        batch = kept.replace(listed(A11, made("c", 12)), version="12")
        assert batch.changes == (Deleted(B6), Updated(A5, A11), Added(made("c", 12)))
        assert batch.epoch == 0

    def test_unchanged_list_returns_no_changes(self) -> None:
        kept = replica(A5)
        again = made("a", 5)
        assert kept.replace(listed(again), version="30").changes == ()
        assert kept.store[("", "a")] is A5
        assert kept.version == "30"

    def test_recreated_object_in_a_list_is_two_changes(self) -> None:
        kept = replica(A5)
        anew = made("a", 12, uid="other")
        assert kept.replace(listed(anew), version="12").changes == (Deleted(A5), Added(anew))

    def test_object_decoded_differently_at_the_same_version_is_a_change(self) -> None:
        """The hub's schema got another default."""
        kept = replica(A5)
        other = made("a", 5, accepted=True)
        batch = kept.replace(listed(other), version="12")
        assert batch.changes == (Updated(A5, other),)
        assert batch.epoch == 0


class TestHistoriesThatWentBack:
    def test_older_list_begins_an_epoch(self) -> None:
        kept = replica(A11, B6, version=12)
        batch = kept.replace(listed(A5, B6), version="8")
        assert batch == Batch(changes=(Updated(A11, A5),), epoch=1, listed=True, resource_version="8")
        assert kept.replace(listed(made("a", 9), B6), version="9").epoch == 1

    def test_older_list_without_changes_begins_an_epoch(self) -> None:
        kept = replica(A5, version=12)
        batch = kept.replace(listed(A5), version="8")
        assert (batch.changes, batch.epoch) == ((), 1)

    def test_restored_history_is_found_by_an_older_object(self) -> None:
        assert replica(A11, version=12).replace(listed(A7), version="40").epoch == 1

    def test_restored_history_is_found_by_an_unseen_older_object(self) -> None:
        """It is not newer than what was seen, and was not there."""
        assert replica(A5, version=12).replace(listed(A5, made("c", 11)), version="40").epoch == 1
        assert replica(A5, version=12).replace(listed(A7), version="40").epoch == 1
        assert replica(A5, version=12).replace(listed(A5, made("c", 13)), version="40").epoch == 0

    def test_older_watch_event_is_distrusted(self) -> None:
        kept = replica(A7, version=10)
        batch, doubt = kept.apply(
            [event("MODIFIED", A11), event("MODIFIED", A5), event("ADDED", made("c", 12))]
        )
        assert batch.changes == (Updated(A7, A11),)
        assert doubt == "the watch sent resource version 5 after 11"
        assert kept.version == "11"

    @pytest.mark.parametrize("type_", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
    def test_older_watch_event_of_any_type_is_distrusted(self, type_: EventType) -> None:
        kept = replica(A7, version=10)
        batch, doubt = kept.apply([event(type_, made("a", 9))])
        assert (batch.changes, kept.store) == ((), listed(A7))
        assert doubt

    def test_older_watch_event_of_a_deleted_object_is_distrusted(self) -> None:
        kept = replica(A7, version=10)
        kept.apply([event("DELETED", A11)])
        batch, doubt = kept.apply([event("ADDED", A7)])
        assert (batch.changes, kept.store) == ((), {})
        assert doubt

    def test_repeated_watch_event_is_ignored(self) -> None:
        kept = replica(A11, version=11)
        assert kept.apply([event("MODIFIED", A11), event("BOOKMARK", made("", 11))])[1] == ""

    def test_newest_version_is_that_of_the_watch_or_of_a_response(self) -> None:
        assert Replica[ManagedCluster]().newest is None
        kept = replica(A5, version=10)
        assert kept.newest == 10
        kept.observe(made("a", 15))
        assert kept.newest == 15


class TestWatches:
    def test_watch_events_change_the_store(self) -> None:
        kept = replica(A5, B6)
        gone = made("b", 13)
        batch, doubt = kept.apply(
            [event("MODIFIED", A11), event("ADDED", made("c", 12)), event("DELETED", gone)]
        )
        assert batch == Batch(
            changes=(Updated(A5, A11), Added(made("c", 12)), Deleted(gone)),
            epoch=0,
            listed=False,
            resource_version="13",
        )
        assert doubt == ""
        assert kept.store == listed(A11, made("c", 12))

    def test_bookmark_advances_the_version(self) -> None:
        kept = replica(A5)
        batch, _ = kept.apply([event("BOOKMARK", made("", 99))])
        assert (batch.changes, kept.version, kept.store) == ((), "99", listed(A5))

    def test_deletion_of_an_unknown_object_is_ignored(self) -> None:
        kept = replica()
        assert kept.apply([event("DELETED", A11)])[0].changes == ()

    def test_recreated_object_in_events_is_two_changes(self) -> None:
        kept = replica(A5)
        anew = made("a", 12, uid="other")
        assert kept.apply([event("MODIFIED", anew)])[0].changes == (Deleted(A5), Added(anew))
        last = made("a", 13, uid="third")
        assert kept.apply([event("DELETED", last)])[0].changes == (Deleted(anew),)

    def test_non_numeric_versions_are_taken_in_order(self) -> None:
        kept = replica(made("a", "x9"), version="x9")
        batch, doubt = kept.apply([event("MODIFIED", made("a", "x8")), event("MODIFIED", made("a", "x7"))])
        assert len(batch.changes) == 2
        assert (doubt, kept.version) == ("", "x7")
        assert kept.replace(listed(made("a", "x1")), version="x1").epoch == 0


class TestUnreadableFields:
    def test_fields_are_reported_until_the_object_can_be_read_or_is_deleted(self) -> None:
        fields = (UnreadableField("status.version", "bad"),)
        bad = structs.replace(A11, metadata=A11.metadata.partial(fields))
        for ending in (event("MODIFIED", made("a", 12)), event("DELETED", made("a", 12))):
            kept = replica(A5)
            report = Unreadable(key=("", "a"), fields=fields)
            batch, _ = kept.apply([event("MODIFIED", bad)], unreadable=[report])
            assert (batch.changes, kept.unreadable) == ((Updated(A5, bad),), {("", "a"): fields})
            kept.apply([ending])
            assert kept.unreadable == {}
        kept = replica(bad, version=11)
        assert kept.unreadable == {("", "a"): fields}
        kept.replace(listed(made("a", 12)), version="12")
        assert kept.unreadable == {}


def test_numeric_versions_are_compared() -> None:
    assert number_of("17") == 17
    assert number_of("123456789012345678901234567890") == 123456789012345678901234567890
    assert [number_of(text) for text in ("", "x", "-1", "1.5", "²", "1 ")] == [None] * 6


NAMES = st.sampled_from("abc")
VERSIONS = st.integers(1, 12)
objects = st.builds(made, NAMES, VERSIONS, uid=st.sampled_from(["1", "2"]), accepted=st.booleans())
types: st.SearchStrategy[EventType] = st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK"])
streams = st.lists(st.builds(event, types, objects), max_size=6)
lists = st.tuples(st.lists(objects, max_size=4), VERSIONS)


deletions = st.builds(Deleted, objects)


@given(st.lists(st.one_of(streams, lists, objects, deletions), max_size=8))
def test_objects_never_get_older_within_an_epoch_whatever_the_hub_sends(inputs: Sequence[object]) -> None:
    """Arbitrary lists, events and responses, consistent or not."""
    kept: Replica[ManagedCluster] = Replica()
    mirror: Mirror[ManagedCluster] = Mirror()
    for received in inputs:
        if isinstance(received, tuple):
            mirror(kept.replace(listed(*received[0]), version=str(received[1])))
            assert kept.version == str(received[1])
        elif isinstance(received, list):
            mirror(kept.apply(received)[0])
        elif isinstance(received, ManagedCluster):
            mirror(kept.observe(received))
        elif isinstance(received, Deleted):
            mirror(kept.observe_deletion(received.object))
        assert kept.store == mirror.store
    assert mirror.broken == []


@given(st.lists(st.tuples(NAMES, st.booleans()), max_size=10), st.data())
def test_store_is_the_later_of_watch_and_response_for_every_object(
    writes: Sequence[tuple[str, bool]], data: st.DataObject
) -> None:
    """A hub with one history; the watch and the responses deliver it independently of each other."""
    history: list[WatchEvent[ManagedCluster]] = []
    before: list[ManagedCluster | None] = []
    there: dict[str, ManagedCluster] = {}
    for version, (name, deletes) in enumerate(writes, start=2):
        old = there.pop(name, None)
        new = made(name, version, uid=old.metadata.uid if old else f"{name}-{version}")
        if deletes and old is None:
            continue
        before.append(old)
        history.append(event("DELETED" if deletes else "MODIFIED" if old else "ADDED", new))
        if not deletes:
            there[name] = new
    kept, mirror = replica(version=1), Mirror[ManagedCluster]()
    delivered, responses = 0, dict[str, int]()
    moves = st.integers(
        0, len(history)
    )  # 0 delivers the next event, any other number returns that write's response
    for move in data.draw(st.lists(moves, max_size=12)):
        if move == 0 and delivered < len(history):
            batch, doubt = kept.apply([history[delivered]])
            delivered += 1
            mirror(batch)
            assert doubt == ""
        elif move:
            written, deleted = history[move - 1], before[move - 1]
            if written.type != "DELETED":
                mirror(kept.observe(written.object))
            elif deleted is not None:
                mirror(kept.observe_deletion(deleted))
            name = history[move - 1].object.metadata.name
            responses[name] = max(move, responses.get(name, 0))
        for name in "abc":
            reached = max(delivered, responses.get(name, 0))
            last = next(
                (change for change in reversed(history[:reached]) if change.object.metadata.name == name),
                None,
            )
            expected = None if last is None or last.type == "DELETED" else last.object
            assert kept.store.get(("", name)) == expected
    assert (kept.store, mirror.broken) == (mirror.store, [])


def test_response_newer_than_a_list_requested_after_it_begins_a_new_epoch() -> None:
    kept = replica(A5)
    kept.observe(made("a", 15))
    kept.begin_list()
    batch = kept.replace(listed(A5), version="12")
    assert (batch.changes, batch.epoch) == ((Updated(made("a", 15), A5),), 1)


def test_response_that_the_list_lost_begins_a_new_epoch() -> None:
    kept = replica(A5)
    kept.observe(made("a", 15))
    assert kept.replace(listed(A5), version="12").changes == ()
    assert kept.store == listed(made("a", 15))
    batch = kept.replace(listed(A5), version="20")
    assert (batch.changes, batch.epoch) == ((Updated(made("a", 15), A5),), 1)


def test_response_that_the_watch_passed_over_is_listed_again() -> None:
    kept = replica(A5)
    kept.observe(made("a", 15))
    kept.observe(made("unselected", 16))
    batch, doubt = kept.apply([event("BOOKMARK", made("", 20))])
    assert batch.changes == (Deleted(made("unselected", 16)),)
    assert doubt == "the watch did not deliver resource version 15, which the hub returned for a write"


class TestOwnDeletions:
    def test_own_deletion_counts_until_the_watch_delivers_it(self) -> None:
        kept = replica(A5)
        assert kept.observe_deletion(A5).changes == (Deleted(A5),)
        assert kept.apply([event("MODIFIED", A11)])[0].changes == ()
        assert kept.apply([event("DELETED", made("a", 12))])[0].changes == ()
        assert kept.apply([event("ADDED", made("a", 13))])[0].changes == (Added(made("a", 13)),)

    def test_object_recreated_under_the_name_is_added(self) -> None:
        anew = made("a", 13, uid="other")
        kept = replica(A5)
        kept.observe_deletion(A5)
        assert kept.observe(anew).changes == (Added(anew),)
        assert kept.apply([event("DELETED", made("a", 12)), event("ADDED", anew)])[0].changes == ()
        kept.observe_deletion(anew)
        again = made("a", 15, uid="third")
        assert kept.apply([event("ADDED", again)])[0].changes == (Added(again),)

    def test_deletion_of_an_earlier_object_of_the_name_is_ignored(self) -> None:
        kept = replica(A7)
        assert kept.observe_deletion(made("a", 5, uid="earlier")).changes == ()
        assert kept.store == listed(A7)

    def test_late_response_to_a_write_does_not_bring_the_object_back(self) -> None:
        kept = replica(A5)
        kept.observe_deletion(A5)
        assert kept.observe(A11).changes == ()
        assert kept.store == {}

    def test_deleted_object_that_waits_for_finalizers_is_stored_again(self) -> None:
        kept = replica(A5)
        kept.observe_deletion(A5)
        waiting = structs.replace(
            A11, metadata=structs.replace(A11.metadata, deletionTimestamp=datetime(2026, 1, 1, tzinfo=UTC))
        )
        assert kept.apply([event("MODIFIED", waiting)])[0].changes == (Added(waiting),)

    def test_list_requested_before_the_deletion_does_not_undo_it(self) -> None:
        kept = replica(A5)
        kept.begin_list()
        kept.observe_deletion(A5)
        assert kept.replace(listed(A5), version="12").changes == ()
        assert (kept.store, kept.epoch) == ({}, 0)
        assert kept.apply([event("DELETED", made("a", 13))])[0].changes == ()

    def test_object_listed_after_its_deletion_begins_a_new_epoch(self) -> None:
        kept = replica(A5)
        kept.observe_deletion(A5)
        kept.begin_list()
        batch = kept.replace(listed(A5), version="12")
        assert (batch.changes, batch.epoch) == ((Added(A5),), 1)

    def test_deletion_of_an_object_that_the_watch_never_delivers_is_forgotten(self) -> None:
        kept = replica()
        kept.observe(made("unselected", 15))
        kept.observe_deletion(made("unselected", 15))
        assert kept.newest == 15
        kept.apply([event("BOOKMARK", made("", 14))])
        assert kept.newest == 15
        kept.apply([event("BOOKMARK", made("", 20))])
        kept.begin_list()
        assert kept.replace({}, version="20").epoch == 0


BAD_STATUSES: tuple[Any, ...] = (
    {"conditions": [{"type": "A", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00+25:00"}]},
    {"conditions": {"type": "A"}, "capacity": {"cpu": ["4"]}},
    7,
)
steps = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from([None, {}, *BAD_STATUSES])), min_size=1, max_size=10
)


@given(steps, st.lists(st.integers(1, 400), max_size=12))
def test_readable_and_unreadable_objects_in_any_chunks_end_in_the_state_of_a_fresh_list(
    steps: Sequence[tuple[str, Any]], cuts: Sequence[int]
) -> None:
    """``None`` deletes; a name that is created again has another uid."""
    there: dict[str, dict[str, Any]] = {}
    text = b""
    for version, (name, status) in enumerate(steps, start=2):
        old = there.pop(name, None)
        if status is None and old is None:
            continue
        uid = str(version) if old is None else old["metadata"]["uid"]
        document = {
            "metadata": {"name": name, "uid": uid, "resourceVersion": str(version)},
            "spec": {"taints": [{"key": f"at-{version}", "effect": "NoSelect"}]},
            "status": (old or {}).get("status") if status is None else status,
        }
        if status is not None:
            there[name] = document
        type_ = "DELETED" if status is None else "ADDED" if old is None else "MODIFIED"
        text += json.dumps({"type": type_, "object": document}).encode() + b"\n"
    codec, lines = codec_of(ManagedCluster), Lines()
    kept: Replica[ManagedCluster] = Replica()
    mirror: Mirror[ManagedCluster] = Mirror()
    mirror(kept.replace({}, version="1"))
    while text:
        size = cuts[0] if cuts else len(text)
        cuts, chunk, text = cuts[1:], text[:size], text[size:]
        batch = codec.events(lines.feed(chunk))
        mirror(kept.apply(batch.events, unreadable=batch.unreadable)[0])
    fresh: Replica[ManagedCluster] = Replica()
    page = json.dumps({"metadata": {"resourceVersion": "20"}, "items": list(there.values())}).encode()
    fresh.replace(listed(*codec.page(page).items), version="20")
    assert kept.store == fresh.store == mirror.store
    assert kept.unreadable == fresh.unreadable
    assert mirror.broken == []


class TestPending:
    async def test_pending_changes_of_an_object_are_merged(self) -> None:
        pending: PendingChanges[ManagedCluster] = PendingChanges()
        for changes in (
            (Added(A5), Added(B6)),
            (Updated(A5, A7), Added(made("c", 8))),
            (Updated(A7, A11), Deleted(made("c", 12))),
        ):
            pending.add(Batch(changes=changes, epoch=0, listed=False, resource_version="12"))
        taken = await pending.take()
        assert taken.changes == (Added(A11), Added(B6))
        pending.add(Batch(changes=(Deleted(A11),), epoch=0, listed=False, resource_version="13"))
        anew = made("b", 14, uid="other")
        pending.add(Batch(changes=(Deleted(B6), Added(anew)), epoch=2, listed=True, resource_version="14"))
        taken = await pending.take()
        assert taken.changes == (Deleted(A11), Deleted(B6), Added(anew))
        assert (taken.epoch, taken.listed, taken.resource_version) == (2, True, "14")
