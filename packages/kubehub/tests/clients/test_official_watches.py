"""The official Python client watches: streams that are resumed, and informers."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from clients.official import MERGE, client, config_map, informer, watch

DEADLINE = 120


@pytest.fixture
def core(api: Any) -> Any:
    return client.CoreV1Api(api)


def label(core: Any, namespace: str, name: str, **labels: str | None) -> Any:
    return core.patch_namespaced_config_map(
        name, namespace, {"metadata": {"labels": labels}}, _content_type=MERGE
    )


def events_of(core: Any, namespace: str, count: int, **query: Any) -> tuple[list[tuple[str, str]], str]:
    """So many events, and the version to resume from."""
    watcher, events = watch.Watch(), []
    for event in watcher.stream(
        core.list_namespaced_config_map, namespace, timeout_seconds=DEADLINE, **query
    ):
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == count:
            watcher.stop()
    return events, watcher.resource_version


def test_official_watch_is_resumed(core: Any, room: str) -> None:
    selected = {"label_selector": "sea"}
    core.create_namespaced_config_map(room, config_map("a", labels={"sea": "north"}))
    first, version = events_of(core, room, 1, **selected)
    assert first == [("ADDED", "a")]
    core.create_namespaced_config_map(room, config_map("b", labels={"sea": "south"}))
    label(core, room, "a", sea="baltic")
    core.delete_namespaced_config_map("b", room)
    second, version = events_of(core, room, 3, resource_version=version, **selected)
    assert second == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    label(core, room, "a", sea=None)
    assert events_of(core, room, 1, resource_version=version, **selected)[0] == [("DELETED", "a")]


class Notes:
    """Calls of an informer's handlers in order; may be awaited."""

    def __init__(self) -> None:
        self.events_of: list[tuple[str, str]] = []
        self._changed = threading.Condition()

    def taker(self, type_: str) -> Any:
        def take(document: Any) -> None:
            with self._changed:
                self.events_of.append((type_, document.metadata.name))
                self._changed.notify_all()

        return take

    def after(self, count: int) -> list[tuple[str, str]]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.events_of) >= count, timeout=DEADLINE), (
                self.events_of
            )
            return list(self.events_of)


@pytest.fixture
def followed(core: Any, room: str) -> Iterator[tuple[Any, Notes]]:
    """An informer of labelled objects, not yet started, that is stopped in the end."""
    made = informer.SharedInformer(core.list_namespaced_config_map, namespace=room, label_selector="sea")
    notes = Notes()
    for type_ in ("ADDED", "MODIFIED", "DELETED"):
        made.add_event_handler(type_, notes.taker(type_))
    yield made, notes
    made.stop()


def test_official_watches_informer(core: Any, room: str, followed: tuple[Any, Notes]) -> None:
    follower, notes = followed
    core.create_namespaced_config_map(room, config_map("a", labels={"sea": "north"}))
    follower.start()
    assert notes.after(1) == [("ADDED", "a")]
    core.create_namespaced_config_map(room, config_map("b", labels={"sea": "south"}))
    notes.after(2)
    label(core, room, "a", sea="baltic")
    notes.after(3)
    core.delete_namespaced_config_map("b", room)
    assert notes.after(4)[1:] == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    assert follower.cache.list_keys() == [f"{room}/a"]
    assert follower.cache.get_by_key(f"{room}/a").metadata.labels == {"sea": "baltic"}
